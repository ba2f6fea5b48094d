"""Whether private copies of tables may be kept (`data.table_cache`): the command line says so, and
loads nothing for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLE = "TACENDA_CACHE"  # "off", or the folder of the copies
_allowed = False


@contextmanager
def allowed(wanted: bool) -> Iterator[None]:
    """Within it, copies are used and made, if that is wanted and TACENDA_CACHE is not "off"."""
    global _allowed
    before, _allowed = _allowed, wanted and os.environ.get(VARIABLE, "").lower() != "off"
    try:
        yield
    finally:
        _allowed = before


def are_allowed() -> bool:
    """Return whether this is within `allowed`."""
    return _allowed
