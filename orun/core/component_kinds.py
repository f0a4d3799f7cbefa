"""Kinds of key components."""

from __future__ import annotations

from enum import StrEnum


class ComponentKind(StrEnum):
    """Kinds of key components.

    The comment says what `subject` and `owner` are where a kind has them.
    """

    KIND = "kind"  # the kind of the stage, or the name of the user's function
    STAGE_CODE = "stage-code"  # digest of a kind's own code
    PARAMETER = "parameter"  # subject: the parameter; its value as JSON
    CODE_FILE = "code-file"  # subject: the parameter; path of the user's own code
    INPUT = "input"  # subject: the port; digest of its tree
    CONTENT = "content"  # subject: the parameter; digest of the file that it names
    VARIABLE = "variable"  # subject: the environment variable; digest of its value
    PYTHON = "python"  # version of the Python that runs the user's code
    ENCODING = "encoding"  # encoding that `open` takes by default
    MODULE_FOLDERS = "module-folders"  # folders of PYTHONPATH
    STARTUP = "startup"  # code that Python runs before anything else
    TOOL = "tool"  # subject: the tool; its distribution and version
    PACKAGE = "package"  # subject: the package of an isolated environment; owner: the target that it is of
    TARGET = "target"  # owner: the parameter of a further target
    DEVICE = "device"  # subject: the trait; owner: the parameter of a further target
    SEED = "seed"
    PIPELINE = "pipeline"  # name of the pipeline, for a stage that is told what led to it
    HISTORY = "history"  # names of the stages that led to the stage
    PROVENANCE = "provenance"  # subject: a stage that led to it; digest of what it made and how
    VERDICTS = "verdicts"  # subject: a stage that led to it; digest of its verdicts
    READ = "read"  # subject: a file that the stage read; digest of its content
    LISTED = "listed"  # subject: a folder that the stage listed; digest of the names in it
    IMPORTED = "imported"  # subject: a package that the stage imported; its version
    LOOKED_UP = "looked-up"  # subject: a variable that the stage looked up; digest of its value
    LOOKED_FOR = "looked-for"  # subject: a path that the stage looked for; what was there
    SOFTWARE = "software"  # subject: software of a machine; its version. In no key


SEEN = frozenset(
    {
        ComponentKind.READ,
        ComponentKind.LISTED,
        ComponentKind.IMPORTED,
        ComponentKind.LOOKED_UP,
        ComponentKind.LOOKED_FOR,
    }
)
