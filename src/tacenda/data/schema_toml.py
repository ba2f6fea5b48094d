"""A schema as TOML text: the standard library reads the format but does not write it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacenda.data.schema import Schema

UNCONFIRMED = "# read off the data: to be confirmed as public, then set to true"


def to_toml(schema: Schema) -> str:
    """Top-level fields, then [label], then one [[columns]] table each."""
    fields = schema.model_dump(mode="json", exclude_none=True)
    columns, label = fields.pop("columns"), fields.pop("label")
    lines = _pairs(fields)
    lines += ["", "[label]", *_pairs(label)]
    for column in columns:
        lines += ["", "[[columns]]", *_pairs(column)]
    return "\n".join(lines) + "\n"


def _pairs(fields: dict[str, Any]) -> list[str]:
    lines = [f"{key} = {_value(value)}" for key, value in fields.items()]
    return [f"{line}  {UNCONFIRMED}" if line == "confirmed = false" else line for line in lines]


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, str):
        # A JSON string is a TOML basic string, but for DEL, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)
