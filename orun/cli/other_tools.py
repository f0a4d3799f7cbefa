"""Commands that users of Olive, DVC, Snakemake, make and pytest type, and their equivalents here."""

from __future__ import annotations

from collections.abc import Mapping

VERBS: Mapping[str, str] = {
    "orun FILE": "repro build make start exec execute up all exp",
    "orun plan FILE": "status dry-run dryrun dry preview outdated check-status",
    "orun graph FILE": "dag tree show-graph visualize",
    "orun validate FILE": "lint check",
    "orun explain FILE STAGE": "why reason",
    "orun history": "metrics plots trend compare-runs log",
    "orun diff": "params compare",
    "orun FILE --remote URL": "push pull fetch sync remote",
    "orun store gc": "gc clean prune purge",
    "orun store stats": "cache du",
    "orun store pin NAME ARTIFACT": "pin tag keep",
    "orun baseline accept FILE": "accept approve promote",
    "orun doctor": "info env system setup",
    "orun stages": "list ls kinds passes types",
    "orun stages convert/torch": "export convert capture-onnx-graph",
    "orun stages quantize/dynamic": "quantize",
    "orun stages optimize/transformer": "optimize fuse",
    "orun stages quantize/tune": "tune auto-opt search tune-session-params",
    "orun stages measure/latency": "benchmark bench measure profile evaluate",
    "orun stages release/publish": "publish deploy upload",
    "orun init MODEL": "new create scaffold generate wizard quickstart",
    "orun --help": "help",
    "orun --version": "version",
}
OPTIONS: Mapping[str, str] = {
    "orun plan FILE": "--dry-run --dryrun --dry -n --just-print --what-if --summary",
    "orun FILE --force": "--forceall -F -B --always-make --no-cache --no-run-cache --rerun --clean-cache",
    "orun FILE --force STAGE": "--forcerun -R",
    "orun FILE --to STAGE": "--until -U --stop-after",
    "orun FILE --from STAGE": "--downstream --start-at",
    "orun FILE --only STAGE": "--single-item -s --select --stage",
    "orun FILE -j N": "--cores -c --workers --parallel --threads --processes -P",
    "orun FILE --set PATH=VALUE": "--set-param -S --param --params --override -o --var --vars -D",
    "orun FILE": "--config --file -f --snakefile --run-config --pipeline",
    "orun FILE --store DIR": "--cache-dir --output-dir --output --output_path --output-path -C --directory --workdir",
    "orun FILE --remote URL": "--pull --push",
    "orun FILE --reports DIR": "--junitxml --junit-xml --report --stats",
    "orun doctor FILE": "--list_required_packages --list-required-packages --setup --use-conda",
    "orun graph FILE": "--dag --rulegraph --filegraph",
    "orun validate FILE": "--lint --check --validate",
    "NO_COLOR=1 orun FILE": "--no-color --nocolor --no-colour --color",
    "orun store gc": "--delete-all-output --cleanup --unlock",
}


def translate(word: str, habits: Mapping[str, str]) -> str:
    """Return what to type here for a verb or option of another tool, or an empty text."""
    return next((line for line, names in habits.items() if word in names.split()), "")
