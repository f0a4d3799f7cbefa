"""orun verify: whether a bundle is what its manifest says."""

from __future__ import annotations

from pathlib import Path

import click

from orun.cli import options
from orun.cli.verb import Verb

EXAMPLES = (("orun verify artifacts/out/bert/release", "before shipping it, and wherever it was carried"),)
DAMAGED = 1


@click.command("verify", cls=Verb, examples=EXAMPLES)
@click.argument("bundle", type=click.Path(path_type=Path, file_okay=False))
@options.json_option
def command(bundle: Path, as_json: bool) -> int:
    """Check that BUNDLE, a folder that `release/bundle` made, is whole: no file changed, missing or added.

    Exits with 1 when it is not.
    """
    from orun.bundle import verify_bundle

    problems = verify_bundle(bundle)
    if as_json:
        options.show_json({"bundle": str(bundle), "whole": not problems, "problems": problems})
    elif problems:
        options.show([f"{bundle} is not what was released:", *(f"  {problem}" for problem in problems)])
    else:
        options.show([f"{bundle} is whole: every file is what its manifest says"])
    return DAMAGED if problems else 0
