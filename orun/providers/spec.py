"""Declaration of an execution provider, in orun's table or by a package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

# A provider gets text: a `bool` as `true` or `false`, a `flag` as `1` or `0`. A tuple lists the values of an option.
OptionType = Literal["bool", "flag", "int", "str"] | tuple[str, ...]
Options = Mapping[str, OptionType]


class ProviderSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Declaration of an execution provider.

    Attributes:
        options: its options with their types; None where they are not listed, so that any are accepted.
        libraries: distributions whose version decides what an engine that it has compiled is valid for.
        nvidia_gpu: whether it computes on a GPU of NVIDIA: a stage takes one, and model and driver are in the key.
        plugin: module with a function `get_library_path`, which returns its library; only for a package's provider.
        module: module of the package that declares it; orun fills it in.
    """

    options: Options | None = None
    libraries: tuple[str, ...] = ()
    nvidia_gpu: bool = False
    plugin: str = ""
    module: str = ""
