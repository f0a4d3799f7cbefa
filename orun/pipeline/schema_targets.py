"""Parts of the schema for targets with their providers, and for environments."""

from __future__ import annotations

from collections.abc import Mapping

from orun.pipeline.fragments import Fragment, build_choice, build_fragment, build_object, build_value, describe_param
from orun.pipeline.grammar import EnvironmentKeys, PluginProvider, Session, TargetKeys
from orun.providers.spec import Options, OptionType, ProviderSpec
from orun.stages.params import ParamType, list_params

PINNED = r"^[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._, -]+\])?==[A-Za-z0-9][A-Za-z0-9.+!_-]*$"


def build_target(providers: Mapping[str, ProviderSpec]) -> Fragment:
    """Return the schema of a target with these providers."""
    session = build_object(list_params(Session), "session option")
    session["patternProperties"] = {
        r"^[a-z_]+\.[A-Za-z0-9_.]+$": {
            "type": ["string", "number", "boolean"],
            "description": "Configuration entry of ONNX Runtime, such as session.intra_op.allow_spinning.",
        }
    }
    keys = {param.name: describe_param(param) for param in list_params(TargetKeys)}
    return {
        "type": "object",
        "x-noun": "key of a target",
        "patternErrorMessage": "expected a mapping with `providers`, and as needed `session` and `fallback`",
        "additionalProperties": False,
        "properties": {
            "providers": {
                "description": "Execution providers, best first, each by name, as `Name: {option: value}`, or as the"
                " library of a plug-in: `{library: ./libmy_ep.so, name: MyExecutionProvider}`.",
                "type": "array",
                "minItems": 1,
                "patternErrorMessage": "expected a list of execution providers",
                "items": _build_provider(providers),
            },
            "session": session | {"description": "Session options of ONNX Runtime."},
            **keys,
        },
    }


def build_environment() -> Fragment:
    """Return the schema of an environment: pinned packages."""
    schema = build_object(list_params(EnvironmentKeys), "key of an environment")
    schema["properties"]["packages"] |= {
        "minItems": 1,
        "patternErrorMessage": "expected a list of packages with their versions",
        "items": build_value([], PINNED, "a package with its version, such as onnxruntime-openvino==1.24.1"),
    }
    return schema | {"patternErrorMessage": "expected a mapping with `packages` or `requirements`"}


def _build_provider(providers: Mapping[str, ProviderSpec]) -> Fragment:
    noun = "execution provider of ONNX Runtime"
    in_library = build_object(list_params(PluginProvider), "key of a provider in a library")
    in_library["patternErrorMessage"] = "expected a mapping with `library`, `name`, and as needed `options`"
    in_library["properties"]["options"]["additionalProperties"] = {"type": ["string", "number", "boolean"]}
    single = {
        "minProperties": 1,
        "maxProperties": 1,
        "patternErrorMessage": "expected one provider an item, as `Name: {option: value}`, or a plug-in, as"
        " `{library: ./libmy_ep.so, name: MyExecutionProvider}`",
    }
    known = {
        "type": "object",
        "x-noun": noun,
        "additionalProperties": False,
        "properties": {name: _build_options(name, spec.options) for name, spec in providers.items()},
    }
    with_options = {"if": single, "then": known, "else": single}
    by_mapping = {"if": {"required": ["library"]}, "then": in_library, "else": with_options}
    return {"if": {"type": "object"}, "then": by_mapping, "else": build_choice(list(providers), noun)}


def _build_options(provider: str, options: Options | None) -> Fragment:
    schema: Fragment = {
        "type": "object",
        "x-noun": f"option of {provider}",
        "patternErrorMessage": "expected a mapping of options",
    }
    if options is None:
        return schema | {"additionalProperties": {"type": ["string", "number", "boolean"]}}
    properties = {name: _build_option(kind) for name, kind in options.items()}
    return schema | {"additionalProperties": False, "properties": properties}


def _build_option(kind: OptionType) -> Fragment:
    if isinstance(kind, tuple):
        return build_choice(kind)
    return build_fragment(ParamType("bool" if kind == "flag" else kind))
