"""Files that are written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any


def write_text(path: Path, text: str) -> Path:
    """Write beside the target, flush to the disk, then take its place in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(beside, 0o666 & ~_umask())
        os.replace(beside, path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
    return path


def write_json(path: Path, values: Any) -> Path:
    """Indented JSON; a number that is not finite is written as a word, which strict readers accept."""
    return write_text(path, json.dumps(strict(values), indent=2, ensure_ascii=False) + "\n")


def json_lines(rows: list[dict[str, Any]]) -> str:
    """One JSON object per line."""
    return "".join(json.dumps(strict(row), ensure_ascii=False) + "\n" for row in rows)


def strict(value: Any) -> Any:
    """The same values for strict JSON: NumPy numbers as Python's, infinities and NaN as words."""
    if isinstance(value, dict):
        return {str(k): strict(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(v) for v in value]
    if hasattr(value, "tolist"):
        return strict(value.tolist())
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value


def _umask() -> int:
    """The process's umask; there is no way to read it without setting it."""
    current = os.umask(0o022)
    os.umask(current)
    return current
