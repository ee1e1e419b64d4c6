"""The JSON schema of `[tool.jitmod]`, made from the dataclasses that hold it. Published in docs/schema/config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from jitmod.source.config import Config


def schema() -> dict[str, Any]:
    """The whole schema. Keys with an underscore may be written with a hyphen, as in the file."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tool.jitmod",
        "description": "The table [tool.jitmod] of pyproject.toml.",
    }
    return {**head, **_of_table(Config)}


def _of_table(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    keys = {key.name: _of_key(key, hints[key.name]) for key in fields(kind)}
    hyphened = {name.replace("_", "-"): value for name, value in keys.items() if "_" in name}
    required = [key.name for key in fields(kind) if key.default is key.default_factory is MISSING]
    table = {"type": "object", "properties": {**keys, **hyphened}, "additionalProperties": False}
    return {**table, "required": required} if required else table


def _of_key(key: Field[Any], hint: Any) -> dict[str, Any]:
    default = {} if key.default in (MISSING, None) else {"default": key.default}
    if isinstance(key.default, tuple):
        default = {"default": list(key.default)}
    about = {"description": key.metadata["about"]}
    return {**about, **_of_type(hint), **key.metadata["limits"], **default}


def _of_type(hint: Any) -> dict[str, Any]:
    if isinstance(hint, UnionType):  # with None, which TOML has not
        (hint,) = (one for one in get_args(hint) if one is not type(None))
    if get_origin(hint) is tuple:
        return {"type": "array", "items": _of_type(get_args(hint)[0])}
    if get_origin(hint) is Mapping:
        return {"type": "object", "additionalProperties": _of_type(get_args(hint)[1])}
    if is_dataclass(hint):
        return _of_table(hint)
    return {"type": "number", "minimum": 0} if hint is float else {"type": "string", "minLength": 1}
