"""Makes candidates with the library's own kinds, each in a folder of its own below the working folder."""

from __future__ import annotations

import hashlib
import importlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from logging import Logger
from pathlib import Path
from typing import Any

from orun.errors import OrunError
from orun.stages.contract import MODEL, Context, module_name
from orun.stages.params import build
from orun.stages.quantize._tuning.settings import Settings


class RefusedError(Exception):
    """A candidate that the library cannot make, or will not: the reason in one line."""


@dataclass
class Workshop:
    """Makes candidates of one model.

    Attributes:
        context: of the stage.
        dataset: what static quantization is calibrated with, as a parameter names it; None for no such.
        samples: examples of it that are used.
        made: folder of each candidate that was made.
    """

    context: Context
    dataset: Any
    samples: int
    made: dict[Settings, Path] = field(default_factory=dict)

    def make(self, wanted: Settings, kept: Sequence[str] = ()) -> Path:
        """The folder of a candidate.

        Args:
            wanted: how it is made; where it runs makes no difference.
            kept: names of nodes that stay in float.

        Raises:
            RefusedError: when it cannot be made.
        """
        key = replace(wanted, place="cpu")
        if key not in self.made:
            self.made[key] = self._make(key, kept)
        return self.made[key]

    def drop(self, wanted: Settings) -> None:
        """Remove the files of a candidate that is out of the race; the model itself and fused ones stay."""
        folder = self.made.get(replace(wanted, place="cpu"))
        if folder and wanted.method != "float":
            shutil.rmtree(folder, ignore_errors=True)
            del self.made[replace(wanted, place="cpu")]

    def _make(self, wanted: Settings, kept: Sequence[str]) -> Path:
        if wanted.method == "float":
            given = self.context.inputs["model"]
            return self._run("optimize/transformer", given, {"method": "rules"}) if wanted.fused else given
        source = self.make(Settings("float", fused=wanted.fused))
        options: dict[str, Any] = {**dict(wanted.options), "exclude": list(kept)}
        if wanted.method == "static":
            options |= {"dataset": self.dataset, "samples": self.samples}
        return self._run(f"quantize/{wanted.method}", source, options)

    def _run(self, uses: str, source: Path, options: dict[str, Any]) -> Path:
        named = hashlib.sha256(json.dumps([uses, str(source), options], default=str).encode()).hexdigest()[:16]
        folder = Path("candidates", named).absolute()
        folder.mkdir(parents=True)
        quiet = Logger(f"{self.context.stage} candidate")  # noqa: LOG001 -- what a candidate says is nobody's business
        module: Any = importlib.import_module(module_name(uses))
        sub = replace(
            self.context,
            inputs={"model": source},
            output=folder,
            target=None,
            open_log=lambda: quiet,
            progress=lambda *_: None,
        )
        try:
            module.run(sub, build(module.Params, options))
        except (OrunError, RuntimeError, ValueError, TypeError, KeyError, AssertionError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise RefusedError(str(error).partition("\n")[0]) from error
        return folder

    def model(self, wanted: Settings, kept: Sequence[str] = ()) -> Path:
        """Path of the proto of a candidate; raises as `make` does."""
        return self.make(wanted, kept) / MODEL
