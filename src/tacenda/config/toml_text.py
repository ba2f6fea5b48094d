"""Plain values as TOML text: the standard library reads the format but does not write it."""

from __future__ import annotations

import json
import math
from typing import Any


def dumps(values: dict[str, Any]) -> str:
    """Sections as tables, lists of tables as [[arrays]], deeper tables inline; what is None or empty is left out."""
    lines = [f"{_key(k)} = {_value(v)}" for k, v in values.items() if not _is_table(v) and not _is_tables(v) and _there(v)]
    for name, section in values.items():
        if _is_tables(section):
            for table in section:
                lines += ["", f"[[{_key(name)}]]", *_pairs(table)]
        elif _is_table(section) and section:
            lines += ["", f"[{_key(name)}]", *_pairs(section)]
    return "\n".join(lines).lstrip("\n") + "\n"


def _pairs(table: dict[str, Any]) -> list[str]:
    return [f"{_key(k)} = {_value(v)}" for k, v in table.items() if _there(v)]


def _there(value: Any) -> bool:
    return value is not None and value != {}


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _key(key: str) -> str:
    bare = key.replace("_", "").replace("-", "")
    return key if bare.isalnum() and bare.isascii() else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(_pairs(value)) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # inf, -inf and nan are TOML's own words too
    return json.dumps(value)


def _text(value: str) -> str:
    """A JSON string is a TOML basic string, but for DEL, which TOML wants escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
