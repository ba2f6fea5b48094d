"""Values as text: JSON and TOML."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any


def canonical_json(value: Any) -> str:
    """The one form that is hashed and signed: keys sorted, no spaces, ASCII, finite numbers."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def readable_json(values: Any) -> str:
    """Indented JSON; a number that is not finite is a word, which strict readers accept."""
    return json.dumps(strict(values), indent=2, ensure_ascii=False)


def json_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    """One JSON object per line."""
    return "".join(json.dumps(strict(row), ensure_ascii=False) + "\n" for row in rows)


def strict(value: Any) -> Any:
    """The same values for strict JSON: NumPy numbers as Python's, infinities and NaN as words."""
    if isinstance(value, Mapping):
        return {str(k): strict(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(v) for v in value]
    if hasattr(value, "tolist"):
        return strict(value.tolist())
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value


MOST_DEPTH = 50  # of tables and arrays in each other, where people write them


def from_toml(text: str) -> dict[str, Any]:
    """The values of a TOML text, which may come from anybody: TOMLDecodeError whatever is wrong
    with it, also where it is nested too deeply or has a number that is too long."""
    import tomllib

    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise tomllib.TOMLDecodeError("it is nested too deeply") from None
    except ValueError as wrong:
        raise tomllib.TOMLDecodeError(str(wrong)) from None
    inside: list[Any] = [values]
    for _ in range(MOST_DEPTH):
        parts = [part.values() if isinstance(part, dict) else part for part in inside]
        inside = [v for part in parts for v in part if isinstance(v, (dict, list))]
    if inside:
        raise tomllib.TOMLDecodeError("it is nested too deeply")
    return values


def toml(values: Mapping[str, Any]) -> str:
    """Values as TOML; what is None or an empty table is left out."""
    import tomllib

    import tomli_w

    kept = _without_nothing(values)
    text = tomli_w.dumps(kept, multiline_strings=True)
    # Text over several lines reads better, but may lose its kind of line ends: then it is escaped.
    return text if tomllib.loads(text) == kept else tomli_w.dumps(kept)


def _without_nothing(value: Any) -> Any:
    if isinstance(value, Mapping):
        inner = {k: _without_nothing(v) for k, v in value.items()}
        return {k: v for k, v in inner.items() if v is not None and v != {}}
    if isinstance(value, (list, tuple)):
        return [_without_nothing(v) for v in value]
    return value
