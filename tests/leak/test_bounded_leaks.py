"""Every way that we could think of to read a Bounded is refused, or tells nothing."""

from __future__ import annotations

import copy
import gc
import io
import json
import marshal
import math
import operator
import pickle
import struct
import sys
import weakref
from typing import Any

import numpy as np
import pytest

from support import make_block, problem
from tacenda.errors import LeakError
from tacenda.privacy.secrets import bounded as module
from tacenda.privacy.secrets.bounded import (
    ALL_RECORDS,
    Bounded,
    Sample,
    bound_of,
    fixed_sensitivity,
    seal,
)

SECRET = np.array([[0.123456789, -7.654321, 3.1], [2.7182818, 1.4142135, -0.5772156]])


@pytest.fixture
def secret() -> Bounded:
    return seal(SECRET.copy(), np.array([1.0, 2.0]))


def into_array(b: Any) -> Any:
    out = np.zeros((2, 3))
    out[:] = b
    return out


class _Reveal:
    """Takes part in arithmetic from the other side, hoping to be handed the values."""

    def __radd__(self, other: Any) -> Any:
        return np.asarray(other)

    __rmul__ = __rsub__ = __rtruediv__ = __radd__


class _Subarray(np.ndarray):
    pass


REFUSED: dict[str, Any] = {
    "np.asarray": np.asarray,
    "np.array": np.array,
    "np.array float": lambda b: np.array(b, dtype=float),
    "np.asanyarray": np.asanyarray,
    "np.ascontiguousarray": np.ascontiguousarray,
    "np.array of a list, as floats": lambda b: np.array([b], dtype=float),
    "np.stack": lambda b: np.stack([b, b]),
    "np.concatenate": lambda b: np.concatenate([b, b]),
    "np.sum": np.sum,
    "np.mean": np.mean,
    "np.linalg.norm": np.linalg.norm,
    "np.copyto": lambda b: np.copyto(np.zeros((2, 3)), b),
    "assignment into an array": into_array,
    "np.where": lambda b: np.where(np.ones((2, 3), bool), b, 0.0),
    "np.einsum": lambda b: np.einsum("ij->j", b),
    "np.fromiter": lambda b: np.fromiter(b, float),
    "np.frombuffer": lambda b: np.frombuffer(b),
    "np.nditer": lambda b: np.nditer(b),
    "np.save": lambda b: np.save(io.BytesIO(), b),
    "np.array_equal": lambda b: np.array_equal(b, b),
    "np.allclose": lambda b: np.allclose(b, 0),
    "np.add": lambda b: np.add(b, 0.0),
    "np.multiply with out": lambda b: np.multiply(b, 1.0, out=np.zeros((2, 3))),
    "np.sqrt": np.sqrt,
    "np.exp": np.exp,
    "np.add.reduce": np.add.reduce,
    "np.add.at": lambda b: np.add.at(np.zeros((2, 3)), slice(None), b),
    "np.dot": lambda b: np.dot(b, np.eye(3)),
    "np.vectorize": lambda b: np.vectorize(float)(b),
    "array += bounded": lambda b: operator.iadd(np.zeros((2, 3)), b).tolist(),
    "float32 + bounded through asarray": lambda b: np.float32(1) + np.asarray(b),
    "memoryview": memoryview,
    "bytes": bytes,
    "bytearray": bytearray,
    "struct.pack": lambda b: struct.pack("d", b),
    "float": float,
    "int": int,
    "complex": complex,
    "bool": bool,
    "not": lambda b: not b,
    "round": round,
    "abs": abs,
    "index": operator.index,
    "len": len,
    "iter": lambda b: next(iter(b)),
    "list": list,
    "tuple": tuple,
    "unpacking": lambda b: (lambda *x: x)(*b),
    "reversed": reversed,
    "in": lambda b: 1.0 in b,
    "index 0": lambda b: b[0],
    "index pair": lambda b: b[0, 0],
    "slice": lambda b: b[:],
    "mask": lambda b: b[np.array([True, False])],
    "set item": lambda b: operator.setitem(b, 0, 1.0),
    "sorted": sorted,
    "max": max,
    "sum": sum,
    "equal": lambda b: b == SECRET,
    "equal to itself": lambda b: b == b,
    "not equal": lambda b: b != SECRET,
    "less": lambda b: b < 0,
    "greater": lambda b: b > SECRET,
    "array less than bounded": lambda b: b >= SECRET,
    "matmul": lambda b: b @ np.eye(3),
    "matmul from the left": lambda b: np.eye(2) @ b,
    "power": lambda b: b**2,
    "power of": lambda b: 2**b,
    "modulo": lambda b: b % 1.0,
    "floor division": lambda b: b // 1.0,
    "number over bounded": lambda b: 1.0 / b,
    "array over bounded": lambda b: np.ones((2, 3)) / b,
    "shift": lambda b: b << 1,
    "and": lambda b: b & 1,
    "product of two": lambda b: b * b,
    "quotient of two": lambda b: b / b,
    "factor that varies within a row": lambda b: b * np.ones((2, 3)),
    "factor of one entry of a row": lambda b: b * np.array([[1.0, 0, 0], [1, 0, 0]]),
    "factor as a row": lambda b: b * np.ones((1, 3)),
    "factor as a vector": lambda b: b * np.ones(2),
    "factor (1, 1)": lambda b: b * np.ones((1, 1)),
    "factor as a list": lambda b: b * [[1.0], [1.0]],
    "factor of objects": lambda b: b * np.array([[1.0], [1.0]], dtype=object),
    "complex factor": lambda b: b * 1j,
    "boolean factor": lambda b: b * True,
    "infinite factor": lambda b: b * np.inf,
    "NaN factor": lambda b: b * np.nan,
    "NaN in a column": lambda b: b * np.array([[1.0], [np.nan]]),
    "text factor": lambda b: b * "2",
    "zero divisor": lambda b: b / 0,
    "zero in a divisor column": lambda b: b / np.array([[1.0], [0.0]]),
    "plus a number": lambda b: b + 1.0,
    "plus a row": lambda b: b + np.ones(3),
    "plus a column": lambda b: b + np.ones((2, 1)),
    "plus a wider array": lambda b: b + np.ones((5, 2, 3)),
    "plus integers": lambda b: b + np.ones((2, 3), int),
    "plus objects": lambda b: b + np.array([[object()] * 3] * 2),
    "plus a list": lambda b: b + [[0.0] * 3] * 2,
    "plus None": lambda b: b + None,
    "plus a subclass of ndarray": lambda b: b + np.zeros((2, 3)).view(_Subarray),
    "plus a masked array": lambda b: b + np.ma.array(np.zeros((2, 3)), mask=True),
    "plus a spy": lambda b: b + _Reveal(),
    "times a spy": lambda b: b * _Reveal(),
    "pickle": pickle.dumps,
    "pickle protocol 0": lambda b: pickle.dumps(b, 0),
    "pickle inside a list": lambda b: pickle.dumps([b]),
    "marshal": marshal.dumps,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "deepcopy inside a dict": lambda b: copy.deepcopy({"secret": b}),
    "reduce": lambda b: b.__reduce__(),
    "reduce_ex": lambda b: b.__reduce_ex__(4),
    "getstate": lambda b: b.__getstate__(),
    "json": json.dumps,
    "vars": vars,
    "dict": lambda b: b.__dict__,
    "set attribute": lambda b: setattr(b, "_sensitivity", np.zeros(2)),
    "new attribute": lambda b: setattr(b, "values", 1),
    "set sensitivity": lambda b: setattr(b, "sensitivity", np.zeros(2)),
    "write into the sensitivity": lambda b: operator.setitem(b._sensitivity, 0, 0.0),
    "weakref": weakref.ref,
    "format with a number's spec": lambda b: float(f"{b:.3f}"),
    "getattr values": lambda b: b.values,
    "T": lambda b: b.T,
    "tolist": lambda b: b.tolist(),
    "make one by hand": lambda b: Bounded(),
}


@pytest.mark.parametrize("how", REFUSED)
def test_refused(secret: Bounded, how: str) -> None:
    with pytest.raises((LeakError, TypeError, AttributeError, ValueError, struct.error)):
        REFUSED[how](secret)


def test_the_common_ones_say_what_to_do(secret: Bounded) -> None:
    for attempt in (
        np.asarray,
        float,
        len,
        copy.copy,
        pickle.dumps,
        lambda b: b[0],
        lambda b: b == 1,
    ):
        with pytest.raises(LeakError, match=r"release it with node.release"):
            attempt(secret)


def test_text_shows_no_value(secret: Bounded) -> None:
    shown = "".join(
        [repr(secret), str(secret), f"{secret}", f"{secret:10.3f}", f"{secret!r}", repr([secret])]
    )
    shown += "".join(str(x) for x in (secret.shape, secret.sensitivity, secret.sample))
    for value in SECRET.ravel():
        assert f"{abs(value):.3f}"[:5] not in shown
    assert "hidden" in shown


def test_no_slot_or_attribute_holds_the_values(secret: Bounded) -> None:
    moved = secret * 2.0 + SECRET
    for b in (secret, moved):
        for name in dir(b):
            try:
                held = getattr(b, name)
            except Exception:
                continue
            assert not (isinstance(held, np.ndarray) and held.shape == (2, 3)), name
        reached = gc.get_referents(b)
        assert not any(isinstance(x, np.ndarray) and x.shape == (2, 3) for x in reached)


def test_an_object_array_holds_the_wrapper_only(secret: Bounded) -> None:
    box = np.empty(1, object)
    box[0] = secret
    for attempt in (
        lambda: box.astype(float),
        lambda: pickle.dumps(box),
        lambda: box.copy().astype(str).astype(float),
    ):
        with pytest.raises((LeakError, TypeError, ValueError)):
            attempt()
    doubled = box * 2.0
    assert isinstance(doubled[0], Bounded)
    assert np.array_equal(doubled[0].sensitivity, [2.0, 4.0])


def test_an_error_does_not_quote_values(secret: Bounded) -> None:
    for how in ("plus a row", "factor that varies within a row", "np.asarray", "power"):
        with pytest.raises((LeakError, TypeError)) as caught:
            REFUSED[how](secret)
        assert not any(f"{abs(v):.4f}"[:6] in str(caught.value) for v in SECRET.ravel())


def test_sensitivity_is_a_copy_and_cannot_be_edited(secret: Bounded) -> None:
    secret.sensitivity[:] = 0.0
    assert np.array_equal(secret.sensitivity, [1.0, 2.0])


def test_a_sample_cannot_be_edited() -> None:
    """A smaller rate would claim amplification that did not happen."""
    sample = Sample("poisson", np.array([0.5, 0.5]))
    with pytest.raises((AttributeError, TypeError)):
        sample.rate = np.array([1e-9, 1e-9])
    with pytest.raises(ValueError, match="read-only"):
        sample.rate[0] = 1e-9


def test_two_samples_are_never_mixed() -> None:
    values, sens = SECRET.copy(), np.ones(2)
    rate = np.array([0.5, 0.5])
    full, first, second = (
        seal(values, sens, s)
        for s in (ALL_RECORDS, Sample("poisson", rate), Sample("poisson", rate))
    )
    for a, b in ((full, first), (first, second), (second, full)):
        with pytest.raises(LeakError, match="different samples"):
            a + b
        with pytest.raises(LeakError, match="different samples"):
            a - b
    data = problem(3)
    block, _, _ = make_block(data)
    w = np.zeros((3, 4))
    with pytest.raises(LeakError, match="different samples"):
        block.gradient(w, 3) - block.gradient(w, 3)
    with pytest.raises(LeakError, match="different samples"):
        block.gradient(w, 3) + block.gradient(w)


def test_different_shapes_are_not_added(secret: Bounded) -> None:
    with pytest.raises(LeakError, match="shapes"):
        secret + seal(np.zeros((2, 4)), np.ones(2))


def test_subclassing_is_refused() -> None:
    with pytest.raises(LeakError, match="subclassed"):
        type("Open", (Bounded,), {"__getitem__": lambda self, k: k})


def test_what_is_allowed_keeps_its_sensitivity(secret: Bounded) -> None:
    """The rows of the table in the module's text, by hand."""
    column = np.array([[3.0], [-0.5]])
    assert np.array_equal((secret * 2).sensitivity, [2, 4])
    assert np.array_equal((-secret).sensitivity, [1, 2])
    assert np.array_equal((secret / -4.0).sensitivity, [0.25, 0.5])
    assert np.array_equal((column * secret).sensitivity, [3, 1])
    assert np.array_equal((secret / column).sensitivity, [1 / 3, 4])
    assert np.array_equal((SECRET - secret).sensitivity, [1, 2])
    assert np.array_equal((secret + secret).sensitivity, [2, 4])
    # Not zero: the rule is by bounds, and errs to safety
    assert np.array_equal((secret - secret).sensitivity, [2, 4])
    assert np.array_equal((secret * np.float32(2) + SECRET).sensitivity, [2, 4])


def test_arithmetic_is_right_behind_the_wrapper(secret: Bounded) -> None:
    column, shift = np.array([[3.0], [-0.5]]), np.arange(6.0).reshape(2, 3)
    value = (shift - secret * column) / 2.0 + secret - shift * 0.25
    assert np.allclose(
        module.open_values(value), (shift - SECRET * column) / 2 + SECRET - shift * 0.25, atol=1e-15
    )


def test_the_vault_is_emptied_with_its_owner(secret: Bounded) -> None:
    gc.collect()  # an earlier test's caught exception may still hold one
    before = len(module._vault)
    values = [secret * 2.0 for _ in range(50)]
    assert len(module._vault) == before + 50
    del values
    gc.collect()
    assert len(module._vault) == before
    assert sys.getsizeof(secret) < 200


@pytest.mark.parametrize("wrong", [math.nan, -1e-300, -math.inf])
def test_a_sensitivity_that_is_no_bound_is_refused(wrong: float) -> None:
    with pytest.raises(LeakError, match="number of at least 0"):
        seal(np.zeros((2, 3)), np.array([1.0, wrong]))


def test_a_sensitivity_is_what_it_was_when_the_value_was_sealed() -> None:
    """Whoever holds the array that was given cannot make it smaller afterwards."""
    given = np.array([1.0, 2.0])
    value = seal(np.zeros((2, 3)), given)
    later = value * 2.0
    given[:] = 0.0
    assert value.sensitivity.tolist() == [1.0, 2.0] and later.sensitivity.tolist() == [2.0, 4.0]
    for held in (bound_of(value), bound_of(later)):
        with pytest.raises(ValueError, match="read-only"):
            held[:] = 0.0
    with pytest.raises(ValueError, match="WRITEABLE"):
        bound_of(value).setflags(write=True)
    given = fixed_sensitivity(np.array([3.0, 4.0]))
    assert bound_of(seal(np.zeros((2, 3)), given)) is given  # fixed already: not looked at again
