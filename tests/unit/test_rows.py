"""Sums of rows against NumPy, and memory that is used again only when nobody holds it."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda import rows
from tacenda.errors import LeakError
from tacenda.rows import combined, new_rows, reused_memory


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([(3, 4), (1, 1), (70, 90), (2, 5000), (4096, 1)]),
    st.sampled_from([np.float64, np.float32]),
    st.lists(st.booleans(), min_size=2, max_size=4),
    st.integers(0, 2**31),
)
def test_as_numpy_to_the_last_bit(
    shape: tuple[int, int], dtype: Any, columns: list[bool], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    tables = [rng.normal(size=shape).astype(dtype) for _ in columns]
    factors: list[Any] = [
        rng.normal(size=(shape[0], 1)).astype(dtype) if column else float(rng.normal())
        for column in columns
    ]
    terms = [part for pair in zip(factors, tables, strict=True) for part in pair]
    expected = None
    for factor, table in zip(factors, tables, strict=True):
        term = (factor if isinstance(factor, np.ndarray) else dtype(factor)) * table
        expected = term if expected is None else expected + term
    found = combined(*terms)
    assert found.dtype == dtype and np.array_equal(found, expected)
    # The other way of adding up gives the same
    threshold = rows._SMALL
    try:
        rows._SMALL = 0 if found.size < threshold else 1 << 60
        assert np.array_equal(combined(*terms), expected)
    finally:
        rows._SMALL = threshold


def test_what_is_not_a_released_array_is_refused() -> None:
    x = np.ones((2, 3))
    for other in (np.ones((2, 4)), x.astype(np.float32), np.ma.masked_array(x), [[1.0] * 3] * 2):
        with pytest.raises(LeakError, match="release a value first"):
            combined(1, x, 1, other)
    with pytest.raises(LeakError):
        combined(1, x.view(np.matrix) if hasattr(np, "matrix") else [1.0], 1, x)


LARGE = (1 << 22, 1)


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def test_memory_is_used_again_when_nobody_holds_it() -> None:
    with reused_memory():
        first = new_rows(LARGE, float)
        where, view = address(first), first[5:7]
        second = new_rows(LARGE, float)
        assert address(second) != where
        del first
        gc.collect()
        third = new_rows(LARGE, float)
        assert address(third) != where  # a view still holds it
        view[:] = 3.0
        del view
        gc.collect()
        assert address(new_rows(LARGE, float)) == where
        assert address(new_rows(LARGE, np.float32)) != where
        held = new_rows((1 << 23, 1), np.float32)
        assert held.dtype == np.float32 and held.shape == (1 << 23, 1)
    assert rows._idle == {}


def test_nothing_is_kept_after_the_last_run() -> None:
    with reused_memory():
        with reused_memory():
            kept = new_rows(LARGE, float)
        del kept  # the outer one is still under way
        gc.collect()
        assert sum(map(len, rows._idle.values())) == 1
        later = new_rows(LARGE, float)
    assert rows._idle == {}
    del later
    gc.collect()
    assert rows._idle == {}


def test_small_arrays_are_numpys_own() -> None:
    assert new_rows((10, 10), float).base is None


def test_threads_never_share_an_array() -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(40):
            mine = new_rows(LARGE, float)
            mine[::4096] = number
            if not (mine[::4096] == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    with reused_memory():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
