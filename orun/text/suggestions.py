"""Suggestions for misspelt names ("did you mean"), and paths as people type them."""

from __future__ import annotations

import os
import re
from bisect import bisect
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from orun.errors import UsageError

MOST = 60  # names in a list for people
MISSPELT = 0.95  # likeness by difflib: one letter or two of thirty
ALIKE = 0.85  # likeness by difflib: a few letters of a name
LONGEST = 200  # letters of a word that may be misspelt: looking for its like takes the square of them
MANY = 400  # names that a word is compared with, as that takes a while
LOOK_ALIKES = str.maketrans("oil-", "011_")  # letters that are read as one another
ABOVE = 3  # folders above that are searched for a path
MATRIX_VALUES = re.compile(r"\[[^]]*\]")  # in the id of a stage with a matrix
SLICE = re.compile(r"\.[^.[]+\[([^]=]+=[^]]*)\]$")  # of a metric behind its stage: `accuracy.f1[label=3]`
STEMS = 20  # names of files whose stems are like the one that was typed
SHORTEST = 3  # letters from which the beginning of a name is taken for the name


def find_closest(word: str, options: Iterable[str]) -> str:
    """Return the option that was probably meant by a misspelt word or another tool's name; else an empty text.

    Of options that differ in capitals alone, the first counts.
    """
    if len(word) > LONGEST:
        return ""
    from difflib import get_close_matches  # needed where something is wrong, and not for a run with nothing to do

    from orun.text.aliases import resolve_alias

    options = list(options)
    known = {option.lower(): option for option in reversed(options)}
    lowered = word.lower()
    if lowered in known:
        return known[lowered]
    looks = {name.translate(LOOK_ALIKES): option for name, option in known.items()}
    if seen := looks.get(lowered.translate(LOOK_ALIKES)):
        return seen
    if alias := resolve_alias(word, options):
        return alias
    like = _list_similar(lowered, known)
    last = "" if get_close_matches(lowered, like, n=1, cutoff=ALIKE) else word.rpartition("/")[2]
    if "/" in word and (alias := resolve_alias(last, [option for option in options if "/" in option])):
        return alias  # `convert/keras`: a folder of ours, and a name that is known from elsewhere
    if close := get_close_matches(lowered, like, n=1):
        return known[close[0]]
    begun = [option for name, option in known.items() if len(lowered) >= SHORTEST and name.startswith(lowered)]
    return begun[0] if len(begun) == 1 else ""


def list_nearest(word: str, options: Iterable[str]) -> Sequence[str]:
    """Return the options that were probably meant: every stage of a matrix for its bare name, else the closest option.

    `int8` stands for `int8[per_channel=true]`, `int8.size` for `int8[per_channel=true].size`. No slice of a metric is
    taken for another, whose examples differ.
    """
    options = [option for option in options if SLICE.findall(option) == SLICE.findall(word)]
    of_matrix = [option for option in options if MATRIX_VALUES.sub("", option, count=1) == word]
    return of_matrix or list(filter(None, [find_closest(word, options)]))


def find_similar_path(path: Path, written: str, endings: tuple[str, ...] = ("",)) -> str:
    """Return the probable path in place of one that is not there.

    It is the same path in a folder above, or the nearest name in the same folder. The part of the name before its
    suffix must be alike: `e.yaml` is not meant by `nope.yaml`.

    Args:
        path: the absolute path.
        written: the path as it was typed, which ends in the same name.
        endings: endings of the names that may be meant.
    """
    from difflib import get_close_matches

    if os.path.lexists(path):  # it exists and cannot be read, or is a dangling link
        return ""
    parts = Path(written).parts
    if not {os.sep, os.pardir} & {*parts}:
        for folder in path.parents[len(parts) : len(parts) + ABOVE]:
            if os.path.lexists(folder / written):
                return os.path.relpath(folder / written, path.parents[len(parts) - 1])
    try:
        names = [other.name for other in path.parent.iterdir() if other.name.endswith(endings)]
    except OSError:  # its folder does not exist either
        return ""
    stems = {Path(name).stem.lower() for name in names}
    stem = path.stem.lower()[:LONGEST]
    alike = {*get_close_matches(stem, _list_similar(stem, stems), n=STEMS)}
    name = find_closest(path.name, [name for name in names if Path(name).stem.lower() in alike])
    return f"{written[: len(written) - len(path.name)]}{name}" if name else ""


def _list_similar(word: str, names: Collection[str]) -> Collection[str]:
    """Return the candidates for a misspelt word: if there are very many, those with the most similar start or end."""
    if len(names) <= MANY:
        return names
    similar: list[str] = []
    for step in (1, -1):
        ordered = sorted(name[::step] for name in names)
        at = bisect(ordered, word[::step])
        similar += [name[::step] for name in ordered[max(0, at - MANY // 4) : at + MANY // 4]]
    return similar


def find_misspelt(word: str, options: Iterable[str]) -> str:
    """Return the option that is a letter or two away from a word that is no option; else an empty text."""
    from difflib import get_close_matches

    known = list(options)
    return "" if word in known else next(iter(get_close_matches(word, known, n=1, cutoff=MISSPELT)), "")


def format_choices(options: Iterable[str]) -> str:
    """Return `a`, `a or b`, or `one of a, b, c`; of very many only the first."""
    names = list(options)
    few = 2
    if len(names) > MOST:
        return f"one of {', '.join(names[:MOST])} and {len(names) - MOST} more"
    return f"one of {', '.join(names)}" if len(names) > few else " or ".join(names)


def suggest(word: str, options: Iterable[str], expected: str = "") -> str:
    """Return what was probably meant by a word that is no option, as `did you mean a?`, else what was expected.

    `expected` is what was expected, if not one of the options.
    """
    options = list(options)
    close = list_nearest(word, options)
    return f"did you mean {format_choices(close)}?" if close else f"expected {expected or format_choices(options)}"


class Unknown(UsageError):
    """A kind, file or function that is not there.

    `expected` is what would have been right, `suggestion` the name that was probably meant; each may be empty.
    """

    def __init__(self, problem: str, *, expected: str = "", suggestion: str = "", hint: str = "") -> None:
        why = f"did you mean {suggestion}?" if suggestion else expected and f"expected {expected}"
        super().__init__(problem, why=why, hint=hint)
        self.expected = expected
        self.suggestion = suggestion


def format_settings(overrides: Mapping[str, str]) -> str:
    """Return the `--set` options for these values, to append to a command."""
    import shlex

    return "".join(f" --set {shlex.quote(f'{path}={value}')}" for path, value in overrides.items())


def show_path(path: str) -> str:
    """Return the path as a user would type it here: relative if it is below the working folder."""
    if not path.startswith(os.sep):
        return path
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative
