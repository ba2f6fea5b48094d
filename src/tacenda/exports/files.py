"""One file for each format, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tacenda import checks
from tacenda.exports.portable import Portable
from tacenda.formats.files import write_bytes


def _json(model: Portable) -> bytes:
    return (json.dumps(model.to_plain(), indent=1, ensure_ascii=False) + "\n").encode()


def _r(model: Portable) -> bytes:
    from tacenda.exports.r_script import script

    return script(model).encode()


def _onnx(model: Portable) -> bytes:
    from tacenda.exports.onnx_graph import onnx_bytes

    return onnx_bytes(model)


def _pmml(model: Portable) -> bytes:
    from tacenda.exports.pmml import document

    return document(model)


def _sklearn(model: Portable) -> bytes:
    from tacenda.exports.pipeline import skops_bytes

    return skops_bytes(model)


WRITERS: dict[str, tuple[str, Callable[[Portable], bytes]]] = {
    "onnx": (".onnx", _onnx),
    "sklearn": (".skops", _sklearn),
    "json": (".json", _json),
    "pmml": (".pmml", _pmml),
    "r": (".R", _r),
}
FORMATS = tuple(WRITERS)


def write(model: Portable, to: str, path: str | Path | None = None) -> Path:
    """Write a model in one of the formats.

    Parameters
    ----------
    model : Portable
        The model as terms.
    to : {"onnx", "sklearn", "json", "pmml", "r"}
        The format.
    path : path or None, default=None
        The file; by default `model` with the format's ending, in the current folder.

    Returns
    -------
    path : Path
        The file that was written.
    """
    ending, made = WRITERS[checks.one_of("to", to, FORMATS)]
    found = Path(f"model{ending}") if path is None else Path(path)
    write_bytes(found, made(model))
    return found
