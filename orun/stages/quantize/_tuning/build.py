"""Builder of candidates with the library's own kinds, each in its own folder below the working folder."""

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
from orun.stages.contract import MODEL, Context, to_module_name
from orun.stages.params import build
from orun.stages.quantize._tuning.settings import Settings


class RefusedError(Exception):
    """Reason, in one line, why the library cannot make a candidate."""


@dataclass
class Workshop:
    """Builder of the candidates of one model.

    Attributes:
        context: of the stage.
        dataset: calibration data for static quantization, as a parameter names it; None for none.
        folders: folder of each candidate that exists.
    """

    context: Context
    dataset: Any
    folders: dict[Settings, Path] = field(default_factory=dict)

    def make(self, wanted: Settings, kept: Sequence[str] = ()) -> Path:
        """Return the folder of a candidate, making it if need be.

        The place in its settings does not matter.

        Raises:
            RefusedError: when it cannot be made.
        """
        key = replace(wanted, place="cpu")
        if key not in self.folders:
            self.folders[key] = self._make(key, kept)
        return self.folders[key]

    def drop(self, wanted: Settings) -> None:
        """Remove the files of a candidate that missed the goal; the model itself and the fused one stay."""
        folder = self.folders.get(replace(wanted, place="cpu"))
        if folder and wanted.method != "float":
            shutil.rmtree(folder, ignore_errors=True)
            del self.folders[replace(wanted, place="cpu")]

    def _make(self, wanted: Settings, kept: Sequence[str]) -> Path:
        if wanted.method == "float":
            original = self.context.inputs["model"]
            return self._run("optimize/transformer", original, {"method": "rules"}, "") if wanted.fused else original
        source = self.make(Settings("float", fused=wanted.fused))
        options: dict[str, Any] = {**dict(wanted.options), "exclude": list(kept)}
        if wanted.method == "static":
            options["dataset"] = self.dataset
        return self._run(f"quantize/{wanted.method}", source, options, str(wanted.kept))

    def _run(self, uses: str, source: Path, options: dict[str, Any], group_count: str) -> Path:
        """Run a kind into a folder of its own: two counts of groups may keep the same nodes."""
        identity = json.dumps([uses, str(source), options, group_count], default=str)
        digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
        folder = Path("candidates", digest).absolute()
        folder.mkdir(parents=True)
        quiet = Logger(f"{self.context.stage} candidate")  # noqa: LOG001 -- drops the messages of candidates
        module: Any = importlib.import_module(to_module_name(uses))
        sub = replace(
            self.context,
            inputs={"model": source},
            output=folder,
            target=None,
            open_log=lambda: quiet,
            progress=lambda *_: None,
            notes=[],  # a note on a candidate does not hold for the chosen model
        )
        try:
            module.run(sub, build(module.Params, options))
        except (OrunError, RuntimeError, ValueError, TypeError, KeyError, AssertionError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise RefusedError(str(error).partition("\n")[0]) from error
        return folder

    def build_model(self, wanted: Settings, kept: Sequence[str] = ()) -> Path:
        """Return the path of a candidate's proto; raises as `make` does."""
        return self.make(wanted, kept) / MODEL
