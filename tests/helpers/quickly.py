"""Which cases of a parametrised test run every time; the others wait for `make test-full`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def cases(values: Iterable[Any], quick: Callable[[Any], bool], **named: Any) -> list[Any]:
    """`values` for `parametrize`: those that are not `quick` are marked slow."""
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=() if quick(value) else pytest.mark.slow,
            **{key: of(value) for key, of in named.items()},
        )
        for value in values
    ]
