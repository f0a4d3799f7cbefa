"""Models of transformers from a folder or the hub. No code that comes with them is run."""

from __future__ import annotations

from typing import Any


class UnknownClass(LookupError):
    """transformers has no class of that name."""


def load_pretrained(path: str, model_class: str = "", attention: str | None = None, **options: Any) -> Any:
    """Load a model in its own class, or in another one.

    `model_class` is empty for the class that the configuration names, `attention` None for what transformers chooses.
    Options are those of `from_pretrained`, such as `revision`.

    Raises:
        UnknownClass: when transformers has no such class.
    """
    import transformers

    config = transformers.AutoConfig.from_pretrained(path, trust_remote_code=False, **options)
    for part in (config, *(getattr(config, name) for name in config.sub_configs)):
        if part is not None:
            part.use_cache = False  # a model's cache of keys and values is no tensor
    name = model_class or (config.architectures or ["AutoModel"])[0]
    kind = getattr(transformers, name, None)
    if kind is None:
        raise UnknownClass(f"transformers has no class {name!r}")
    return kind.from_pretrained(path, config=config, attn_implementation=attention, trust_remote_code=False, **options)
