"""A run is known by the content of all that its releases depend on: what differs in anything is
another run, and is charged again."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
import subprocess
import sys
import textwrap
import threading
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import support
import tacenda as tc
from tacenda.content import content_hash, program
from tacenda.errors import InputError, StateError
from tacenda.privacy.lasting.ledger_store import LedgerStore

ROUNDS = 3
PLUGIN = """
from dataclasses import dataclass, field
from typing import ClassVar
import numpy as np
from tacenda.algorithms.base import Algorithm

GAIN = {gain}

def helper(g):
    return g * {helper}

@dataclass(frozen=True)
class State:
    w: object

@dataclass(frozen=True)
class Plugin(Algorithm):
    name: ClassVar[str] = "plugin"
    title: ClassVar[str] = "Plugin"
    source: ClassVar[str] = "a test"
    table: object = None

    def init(self, node, w):
        return State(w)

    def step(self, s, node):
        w = node.release(node.gradient(s.w) * {step})
        return State(GAIN * helper(w))

    def iterate(self, s):
        return s.w
"""


def plugin(gain: float = 1.0, helper: float = 1.0, step: float = 1.0, table: Any = None) -> Any:
    space: dict[str, Any] = {"__name__": "a_plugin"}
    sys.modules.setdefault("a_plugin", type(sys)("a_plugin"))
    exec(PLUGIN.format(gain=gain, helper=helper, step=step), space)
    return space["Plugin"](table)


def spent(book: Path, name: str = "d") -> int:
    with LedgerStore(book) as store:
        return sum(count for _, count in store.spent(name).events)


def run(algorithm: Any, book: Path | None, privacy: Any = None, **more: Any) -> tc.RunResult:
    budget = tc.Privacy.from_noise(noise_multiplier=500.0) if privacy is None else privacy
    return tc.simulate(
        support.problem(4),
        tc.graph.ring(4),
        algorithm,
        ROUNDS,
        budget,
        seed=0,
        record_every=0,
        ledger=book,
        dataset=None if book is None else "d",
        **more,
    )


EDITS = {
    "its step": {"step": 1.5},
    "a function of its module": {"helper": 2.0},
    "a constant of its module": {"gain": 2.0},
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_plugin_is_another_run(edit: str, tmp_path: Path) -> None:
    """Found by attack: the name was that of the class, so the difference of two releases was the
    difference of the raw values."""
    one, other = run(plugin(), tmp_path / "book"), run(plugin(**EDITS[edit]), tmp_path / "book")
    assert spent(tmp_path / "book") == 2 * ROUNDS
    plain = [run(p, None).last.ravel() for p in (plugin(), plugin(**EDITS[edit]))]
    # Nearly all of it is noise, and without a ledger the noise is the seed's
    assert np.corrcoef(*plain)[0, 1] > 0.99
    # Charged runs share none of it
    assert np.corrcoef(one.last.ravel(), other.last.ravel())[0, 1] < 0.9


def test_a_plugin_that_was_not_edited_is_the_same_run(tmp_path: Path) -> None:
    one, again = run(plugin(), tmp_path / "book"), run(plugin(), tmp_path / "book")
    np.testing.assert_array_equal(one.last, again.last)
    assert spent(tmp_path / "book") == ROUNDS


def test_a_number_in_the_middle_of_a_long_array_counts(tmp_path: Path) -> None:
    """Found by attack: long arrays were written with dots in the middle."""
    table = np.zeros(5000)
    other = table.copy()
    other[2500] = 1e-9
    run(plugin(table=table), tmp_path / "book")
    run(plugin(table=other), tmp_path / "book")
    assert spent(tmp_path / "book") == 2 * ROUNDS


@pytest.mark.parametrize("resumed", [plugin(step=1.5), plugin(table=np.arange(3))])
def test_a_checkpoint_of_an_edited_plugin_is_not_resumed(resumed: Any, tmp_path: Path) -> None:
    run(plugin(), None, checkpoint=tmp_path / "c")
    with pytest.raises(StateError, match="its algorithm differs"):
        run(resumed, None, checkpoint=tmp_path / "c", resume=True)


def test_a_spread_given_as_a_function_is_known_by_what_it_computes(tmp_path: Path) -> None:
    def privacy(power: float) -> Any:
        return tc.Privacy(1.0, spread=lambda t: float(t) ** power)

    for power in (1.0, 1.0, 2.0):
        run(tc.algorithms.DPDDA(), tmp_path / "book", privacy(power))
    assert spent(tmp_path / "book") == 2 * ROUNDS


def test_what_cannot_be_identified_is_refused_before_anything_is_booked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be identified.*lock"):
        run(plugin(table=threading.Lock()), tmp_path / "book")
    assert not (tmp_path / "book").exists() or spent(tmp_path / "book") == 0


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(VALUES, VALUES)
@settings(max_examples=300, deadline=None)
def test_other_values_have_other_hashes(a: Any, b: Any) -> None:
    same = repr(a) == repr(b) or (_ordered(a) == _ordered(b))
    assert (content_hash(a) == content_hash(b)) == same


def _ordered(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{k!r}:{_ordered(value[k])}" for k in sorted(value)) + "}"
    return "[" + ",".join(map(_ordered, value)) + "]" if isinstance(value, list) else repr(value)


@given(st.integers(1, 4000), st.data())
@settings(max_examples=100, deadline=None)
def test_every_bit_of_an_array_counts(size: int, data: Any) -> None:
    array = np.random.default_rng(size).normal(size=size)
    other = array.copy()
    place, bit = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, 63))
    other.view(np.uint64)[place] ^= np.uint64(1) << np.uint64(bit)
    assert content_hash(array) == content_hash(array.copy()) != content_hash(other)


def test_shape_and_type_count() -> None:
    a = np.arange(6.0)
    kinds = [
        a,
        a.reshape(2, 3),
        a.astype(np.float32),
        a.view(np.int64),
        a.tolist(),
        tuple(a.tolist()),
    ]
    assert len({content_hash(k) for k in kinds}) == len(kinds)


def test_functions_are_known_by_code_defaults_and_closure() -> None:
    def make(k: float, d: float = 1.0) -> Any:
        def f(t: float, x: float = d) -> float:
            return k * t + x

        return f

    assert content_hash(make(1.0)) == content_hash(make(1.0))
    assert (
        len(
            {
                content_hash(f)
                for f in (make(1.0), make(2.0), make(1.0, 2.0), lambda t: t, lambda t: t + 1)
            }
        )
        == 5
    )


def test_only_the_globals_that_code_reads_count() -> None:
    """An attribute that is called like a global of a notebook does not bring it in."""

    def made(**space: Any) -> Any:
        exec("def f(node):\n    return node.lock + number", space)
        return space["f"]

    one = content_hash(made(lock=threading.Lock(), number=1, __name__="__main__"))
    assert (
        one
        == content_hash(made(lock=3, number=1, __name__="__main__"))
        != content_hash(made(number=2, __name__="__main__"))
    )


def test_circles_end() -> None:
    a: list[Any] = [1]
    a.append(a)
    b: list[Any] = [1]
    b.append(b)
    assert content_hash(a) == content_hash(b)


def test_another_process_finds_the_same(tmp_path: Path) -> None:
    code = textwrap.dedent("""
        import numpy as np
        import tacenda as tc
        from tacenda.content import content_hash, program
        import theirs
        thing = theirs.Thing(np.arange(3.0))
        parts = [tc.algorithms.IPADMM(), thing, {"b", "a", "c"}, tc.Privacy(1.0)]
        print(content_hash(parts), program())
    """)
    (tmp_path / "theirs.py").write_text(
        "from dataclasses import dataclass\n"
        "SET = frozenset(['x', 'y', 'z'])\n"
        "@dataclass(frozen=True)\nclass Thing:\n    a: object\n"
        "    def f(self):\n        return self.a in {'p', 'q', 'r'} or SET\n"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            env=env,
        ).stdout
        for env in ({**os.environ, "PYTHONHASHSEED": str(k)} for k in range(2))
    }
    assert len(found) == 1 and program() in found.pop()


def test_an_algorithms_class_counts_and_not_only_its_fields() -> None:
    class Mine(tc.algorithms.CDPADMM):
        pass

    class Edited(tc.algorithms.CDPADMM):
        def averaging_weight(self, turn: int, rounds: int) -> float:
            return float(turn)

    Edited.__qualname__ = Mine.__qualname__
    assert dataclasses.asdict(Mine()) == dataclasses.asdict(Edited())
    assert len({content_hash(a) for a in (tc.algorithms.CDPADMM(), Mine(), Edited())}) == 3


WRAPPED = """
import functools
from tacenda.algorithms.gossip import GossipGD
class Mine(GossipGD):
    @functools.wraps(GossipGD.step)
    def step(self, s, node):
        return {value}
"""


def _mine(value: int) -> Any:
    space: dict[str, Any] = {"__name__": "a_plugin"}
    exec(WRAPPED.format(value=value), space)
    return space["Mine"]


def test_a_function_is_known_by_where_it_was_written_and_not_by_what_it_calls_itself() -> None:
    assert _mine(1).step.__module__ == "tacenda.algorithms.gossip"
    assert content_hash(_mine(1)) == content_hash(_mine(1)) != content_hash(_mine(2))


@pytest.mark.parametrize("make", ["new_class", "make_dataclass"])
def test_a_class_that_was_put_together_is_none_of_its_makers(make: str) -> None:
    def made(value: int) -> Any:
        def step(self: Any) -> int:
            return value

        if make == "new_class":
            return types.new_class(
                "Mine", (tc.algorithms.GossipGD,), {}, lambda space: space.update(step=step)
            )
        return dataclasses.make_dataclass("Mine", [], namespace={"step": step})

    assert content_hash(made(1)) == content_hash(made(1)) != content_hash(made(2))


def test_a_replaced_method_of_an_installed_class_is_seen(monkeypatch: Any) -> None:
    before = content_hash(tc.algorithms.GossipGD())
    monkeypatch.setattr(tc.algorithms.GossipGD, "step", lambda self, s, node: s)
    assert content_hash(tc.algorithms.GossipGD()) != before


class _Times:
    """A callable that looks like the function inside it."""

    def __init__(self, inner: Any, factor: float) -> None:
        functools.update_wrapper(self, inner)
        self.factor = factor


def test_a_wrapper_is_known_by_its_own_state_and_its_options() -> None:
    import numba

    def inner(t: float) -> float:
        return t * t + 1.0

    assert content_hash(_Times(inner, 1.0)) != content_hash(_Times(inner, 2.0))
    assert content_hash(numba.njit(inner)) != content_hash(numba.njit(fastmath=True)(inner))
    assert content_hash(np.eye(2)) != content_hash(np.eye(2).view(np.recarray))


@pytest.mark.parametrize(
    "reach",
    [
        "import helpers_a\ndef f(t):\n    return helpers_a.inner.g(t)",
        "def f(t):\n    import helpers_a\n    return helpers_a.g(t)",
    ],
)
def test_what_is_reached_through_a_module_counts(
    reach: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    names = ("helpers_a", "helpers_b")

    def found(value: int) -> str:
        (tmp_path / "helpers_a.py").write_text(
            "import helpers_b as inner\nfrom helpers_b import g\n", "utf-8"
        )
        (tmp_path / "helpers_b.py").write_text(f"def g(t):\n    return {value} * t\n", "utf-8")
        importlib.invalidate_caches()
        for name in names:
            sys.modules.pop(name, None)
        space: dict[str, Any] = {"__name__": "a_plugin"}
        exec(reach, space)
        return content_hash(space["f"])

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    try:
        assert found(1) == found(1) != found(2)
    finally:
        for name in names:
            sys.modules.pop(name, None)
