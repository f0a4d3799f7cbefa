"""Every error that a user can meet, below one base class.

OrunError                    exit code
├── UsageError               2   the command line or an API call is wrong
│   ├── UnknownName              it names what is not there
│   └── MissingPackages          it needs packages that are not installed
├── PipelineError            2   the pipeline file is wrong: carries every problem of the file
├── DeviceUnknown            2   what results are bound to cannot be read on this machine
├── NoMachine                3   no machine of the fleet can run a stage
├── EnvironmentFailed        2   an isolated environment cannot be made
├── StoreError               3   the store cannot be read or written
│   └── RemoteError              the remote store cannot be used, and is required
├── StageError               3   a stage did not deliver
│   ├── StageFailed              it raised
│   ├── StageCrashed             its process died of a signal
│   ├── StageTimeout             it ran past its time
│   ├── OutputRefused            it ended well, and what it left is not what its kind promises
│   ├── InputChanged             what it read was edited while it ran
│   ├── UndeclaredInput          it reads what another stage wrote beside its output in another run
│   ├── NotPortable              it reads or writes what does not travel to the machine that runs it
│   └── MachineLost              the machines that ran it cannot be reached any more
└── Interrupted              130 the user stopped the command

Anything else that reaches the top is a bug in orun: exit code 5, the traceback in a log file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from orun.core.source_location import Position, Problem

MORE_MEMORY = "Nothing that was stored is lost. Free some memory, or raise the limit: ulimit -v unlimited"


class OrunError(Exception):
    """Base of all errors: the problem in one sentence, its cause, and the next command to type.

    Args:
        problem: one sentence, no full stop needed, lower case.
        why: the cause, one or more lines.
        hint: how to mend it, ending in a command where there is one.
    """

    exit_code = 2

    def __init__(self, problem: str, *, why: str = "", hint: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.why = why
        self.hint = hint

    def __str__(self) -> str:
        lines = [self.problem]
        lines += [f"  {line}" for line in self.why.splitlines()]
        lines += [f"  hint: {line}" for line in self.hint.splitlines()]
        return "\n".join(lines)


class UsageError(OrunError):
    """The command line or an API call asks for something that cannot be."""


class UnknownName(UsageError):
    """A name is not among the known ones; who shows the error offers the closest of them.

    Attributes:
        name: the name that was given.
        known: the names that there are.
    """

    def __init__(self, problem: str, name: str, known: Collection[str], *, why: str = "", hint: str = "") -> None:
        super().__init__(problem, why=why, hint=hint)
        self.name = name
        self.known = known


class MissingPackages(UsageError):
    """Packages that are not installed; who shows the error replaces the hint by the command that installs them.

    The command depends on how orun was installed. Stages cannot look that up: it would become part of their keys.

    Attributes:
        packages: their distributions.
    """

    def __init__(self, problem: str, packages: Sequence[str], *, why: str = "") -> None:
        super().__init__(problem, why=why, hint=f"install {', '.join(packages)}")
        self.packages = packages


class PipelineError(OrunError):
    """A pipeline file has mistakes; `problems` holds all of them in file order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        count = len(problems)
        self.problems = tuple(sorted(problems, key=lambda problem: problem.position))
        lines = "\n".join(f"{problem.position}: {problem.message}" for problem in self.problems)
        super().__init__(f"{count} problem{'s' if count != 1 else ''} in the pipeline file", why=lines)


class DeviceUnknown(OrunError):
    """A device that cannot be read, so that no result may be bound to it."""


class NoMachine(OrunError):
    """A stage must run, and no machine of the fleet can run it."""

    exit_code = 3


class EnvironmentFailed(OrunError):
    """An isolated environment of packages cannot be made."""


class StoreError(OrunError):
    """The store cannot be read or written (full disk, permissions, unknown layout)."""

    exit_code = 3


class ArtifactDamaged(StoreError):
    """An object of an artifact is damaged or missing."""


class RemoteError(StoreError):
    """The remote store cannot be used, and the run was told not to go on without it."""


class StageError(OrunError):
    """A stage did not deliver; nothing of it was stored.

    Attributes:
        stage: the stage's id.
        log: path of the log of its process; empty when it never started.
        advice: the part of the hint that holds for every run of the stage.
        commands: the rest of the hint, such as its log and the command that runs the stage alone.
        of_machine: whether its machine is to blame, as with a full disk, so that the advice is for that machine.
        module: name of a Python module that it imports and that was not found; empty if that is not the failure.
        missing: paths that files which it did not find may have been meant to have.
        command: the command that runs the stage alone, which `commands` has, too; empty if that is of no use.
        code: line of the user's code or of the kind's that raised it, which `why` names; None if unknown.
        settings: values of the stage's parameters with which it would not have failed so.
    """

    exit_code = 3

    def __init__(  # noqa: PLR0913 - what reports say of it
        self,
        stage: str,
        problem: str,
        *,
        why: str = "",
        hint: str = "",
        log: str = "",
        advice: str = "",
        of_machine: bool = False,
        module: str = "",
        missing: Sequence[str] = (),
        command: str = "",
        code: Position | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(problem, why=why, hint="\n".join(filter(None, (advice, hint))))
        self.stage = stage
        self.log = log
        self.advice = advice
        self.commands = hint
        self.of_machine = of_machine
        self.module = module
        self.missing = missing
        self.command = command
        self.code = code
        self.settings = settings or {}


class StageFailed(StageError):
    """The stage raised an exception."""


class StageCrashed(StageError):
    """The process of the stage died of a signal (segmentation fault, out-of-memory kill, ...)."""


class StageTimeout(StageError):
    """The stage ran past its time limit."""


class OutputRefused(StageError):
    """The stage ended well, and what it left is not what its kind promises."""


class InputChanged(StageError):
    """An input that was edited while the stage ran, so that the result belongs to no version of it."""


class UndeclaredInput(StageError):
    """The stage reads what another one wrote beside its output in another run, or wrote there what another one read.

    Or it reads the output of a stage that it does not wait for.
    """


class NotPortable(StageError):
    """The stage reads what did not travel to the machine that ran it, or writes what does not travel back."""


class MachineLost(StageError):
    """The machines that ran the stage cannot be reached any more."""


class Interrupted(OrunError):
    """The user stopped the command: what the command line makes of Ctrl-C."""

    exit_code = 130
