"""A run is known by the content of all that its releases depend on: what differs in anything is
another run, and is charged again."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import support
import tacenda as tc
from tacenda import sources
from tacenda.content import content_hash
from tacenda.errors import InputError, StateError
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.sources import program

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


@pytest.fixture
def as_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this process had started after the test wrote its modules."""
    monkeypatch.setattr(sources, "_STARTED", time.time() + 3600)


def written(folder: Path, name: str, text: str) -> Any:
    """A module read from a file of its own, as a fresh process would read it."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}.py"
    file.write_text(text, "utf-8")
    sys.modules.pop(name, None)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    exec(compile(text, str(file), "exec"), vars(module))  # no pyc of an older text
    return module


def plugin(
    folder: Path, gain: float = 1.0, helper: float = 1.0, step: float = 1.0, table: Any = None
) -> Any:
    text = PLUGIN.format(gain=gain, helper=helper, step=step)
    return written(folder, "a_plugin", text).Plugin(table)


def sourceless(text: str) -> dict[str, Any]:
    """As in a notebook's cell."""
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(text, space)
    return space


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


@pytest.mark.usefixtures("as_read")
@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_plugin_is_another_run(edit: str, tmp_path: Path) -> None:
    """Found by attack: the name was that of the class, so the difference of two releases was the
    difference of the raw values."""
    one = run(plugin(tmp_path), tmp_path / "book")
    other = run(plugin(tmp_path, **EDITS[edit]), tmp_path / "book")
    assert spent(tmp_path / "book") == 2 * ROUNDS
    plain = [run(plugin(tmp_path, **edits), None).last.ravel() for edits in ({}, EDITS[edit])]
    # Nearly all of it is noise, and without a ledger the noise is the seed's
    assert np.corrcoef(*plain)[0, 1] > 0.99
    # Charged runs share none of it
    assert np.corrcoef(one.last.ravel(), other.last.ravel())[0, 1] < 0.9


@pytest.mark.usefixtures("as_read")
def test_a_plugin_that_was_not_edited_is_the_same_run(tmp_path: Path) -> None:
    one, again = (run(plugin(tmp_path), tmp_path / "book") for _ in range(2))
    np.testing.assert_array_equal(one.last, again.last)
    assert spent(tmp_path / "book") == ROUNDS


def test_code_without_a_source_is_a_new_run_each_time(tmp_path: Path) -> None:
    """The same object, the same seed: charged anew, and the noise is fresh."""
    mine = sourceless(PLUGIN.format(gain=1.0, helper=1.0, step=1.0))["Plugin"]()
    one, again = (run(mine, tmp_path / "book") for _ in range(2))
    assert spent(tmp_path / "book") == 2 * ROUNDS
    assert np.corrcoef(one.last.ravel(), again.last.ravel())[0, 1] < 0.9


def test_a_file_that_was_edited_while_the_process_runs_is_no_source(tmp_path: Path) -> None:
    """The process may have read the text before the edit: then the same text, read by another
    process, would give the same name to another computation."""
    mine = plugin(tmp_path)
    assert content_hash(mine) != content_hash(mine)
    one, again = (run(mine, tmp_path / "book") for _ in range(2))
    assert spent(tmp_path / "book") == 2 * ROUNDS
    assert np.corrcoef(one.last.ravel(), again.last.ravel())[0, 1] < 0.9


@pytest.mark.usefixtures("as_read")
def test_a_value_that_was_set_in_a_module_counts(tmp_path: Path) -> None:
    """The source is the same; what it computes is not."""
    mine = plugin(tmp_path)
    before = content_hash(mine)
    sys.modules["a_plugin"].GAIN = 2.0  # type: ignore[attr-defined]
    assert content_hash(mine) != before
    sys.modules["a_plugin"].GAIN = 1.0  # type: ignore[attr-defined]
    assert content_hash(mine) == before
    sys.modules["a_plugin"].LOCK = threading.Lock()  # type: ignore[attr-defined]
    assert len({content_hash(mine) for _ in range(3)} | {before}) == 4


@pytest.mark.usefixtures("as_read")
def test_code_that_only_says_it_is_of_a_module_is_none_of_it(tmp_path: Path) -> None:
    module = written(tmp_path, "a_plugin", "def f(t):\n    return t\n")
    space = vars(module)
    known = content_hash(module.f)
    assert content_hash(module.f) == known
    exec("def g(t):\n    return t\n", space)
    assert content_hash(space["g"]) != content_hash(space["g"])


@pytest.mark.usefixtures("as_read")
def test_a_number_in_the_middle_of_a_long_array_counts(tmp_path: Path) -> None:
    """Found by attack: long arrays were written with dots in the middle."""
    table = np.zeros(5000)
    other = table.copy()
    other[2500] = 1e-9
    run(plugin(tmp_path, table=table), tmp_path / "book")
    run(plugin(tmp_path, table=other), tmp_path / "book")
    assert spent(tmp_path / "book") == 2 * ROUNDS


@pytest.mark.usefixtures("as_read")
@pytest.mark.parametrize("edits", [{}, {"step": 1.5}, {"table": np.arange(3)}])
def test_a_checkpoint_of_an_edited_plugin_is_not_resumed(
    edits: dict[str, Any], tmp_path: Path
) -> None:
    whole = run(plugin(tmp_path), None, checkpoint=tmp_path / "c")
    resumed = plugin(tmp_path, **edits)
    if edits:
        with pytest.raises(StateError, match="its algorithm differs"):
            run(resumed, None, checkpoint=tmp_path / "c", resume=True)
    else:
        again = run(resumed, None, checkpoint=tmp_path / "c", resume=True)
        np.testing.assert_array_equal(whole.last, again.last)


@pytest.mark.usefixtures("as_read")
def test_a_spread_given_as_a_function_is_known_by_what_it_computes(tmp_path: Path) -> None:
    text = "def made(power):\n    return lambda t: float(t) ** power\n"
    made = written(tmp_path, "a_plugin", text).made
    for power in (1.0, 1.0, 2.0):
        run(tc.algorithms.DPDDA(), tmp_path / "book", tc.Privacy(1.0, spread=made(power)))
    assert spent(tmp_path / "book") == 2 * ROUNDS


def test_what_cannot_be_identified_is_refused_before_anything_is_booked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be identified.*lock"):
        run(plugin(tmp_path, table=threading.Lock()), tmp_path / "book")
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


FUNCTIONS = """
def make(k, d=1.0):
    def f(t, x=d):
        return k * t + x

    return f

PAIR = lambda t: t, lambda t: t + 1
"""


@pytest.mark.usefixtures("as_read")
def test_functions_are_known_by_source_defaults_and_closure(tmp_path: Path) -> None:
    module = written(tmp_path, "a_plugin", FUNCTIONS)
    make = module.make
    assert content_hash(make(1.0)) == content_hash(make(1.0))
    others = (make(1.0), make(2.0), make(1.0, 2.0), *module.PAIR)
    assert len({content_hash(f) for f in others}) == 5


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
        from tacenda.content import content_hash
        from tacenda.sources import program
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
        # What modules usually hold does not make their runs new ones
        "import enum, functools, logging, re\nfrom typing import NamedTuple, TypeVar\n"
        "import numba\nimport numpy as np\n"
        "T, log, word = TypeVar('T'), logging.getLogger(__name__), re.compile('a+')\n"
        "class Pair(NamedTuple):\n    a: int = 1\n"
        "class Colour(enum.Enum):\n    RED = 1\n"
        "@numba.njit\ndef fast(t):\n    return t\n"
        "@functools.lru_cache\ndef slow(t):\n    return np.tanh(t)\n"
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


CLASSES = """
import tacenda as tc

class Mine(tc.algorithms.CDPADMM):
    pass

class Edited(tc.algorithms.CDPADMM):
    def averaging_weight(self, turn: int, rounds: int) -> float:
        return float(turn)

Edited.__qualname__ = Mine.__qualname__
"""


@pytest.mark.usefixtures("as_read")
def test_an_algorithms_class_counts_and_not_only_its_fields(tmp_path: Path) -> None:
    module = written(tmp_path, "a_plugin", CLASSES)
    mine, edited = module.Mine(), module.Edited()
    assert dataclasses.asdict(mine) == dataclasses.asdict(edited)
    assert content_hash(mine) == content_hash(module.Mine())
    assert len({content_hash(a) for a in (tc.algorithms.CDPADMM(), mine, edited)}) == 3


WRAPPED = """
import functools
from tacenda.algorithms.gossip import GossipGD
class Mine(GossipGD):
    @functools.wraps(GossipGD.step)
    def step(self, s, node):
        return {value}
"""


@pytest.mark.usefixtures("as_read")
def test_a_function_is_known_by_where_it_was_written_and_not_by_what_it_calls_itself(
    tmp_path: Path,
) -> None:
    def mine(value: int) -> Any:
        return written(tmp_path, "a_plugin", WRAPPED.format(value=value)).Mine

    assert mine(1).step.__module__ == "tacenda.algorithms.gossip"
    assert content_hash(mine(1)) == content_hash(mine(1)) != content_hash(mine(2))


MADE = """
import dataclasses
import types
import tacenda as tc

def made(make, value):
    def step(self):
        return value

    if make == "new_class":
        return types.new_class(
            "Mine", (tc.algorithms.GossipGD,), {}, lambda space: space.update(step=step)
        )
    return dataclasses.make_dataclass("Mine", [], namespace={"step": step})
"""


@pytest.mark.usefixtures("as_read")
@pytest.mark.parametrize("make", ["new_class", "make_dataclass"])
def test_a_class_that_was_put_together_is_none_of_its_makers(make: str, tmp_path: Path) -> None:
    made = written(tmp_path, "a_plugin", MADE).made
    one, again, other = (content_hash(made(make, value)) for value in (1, 1, 2))
    assert one != other
    if make == "new_class":  # the other says that `types` wrote it
        assert one == again


def test_a_replaced_method_of_an_installed_class_is_seen(monkeypatch: Any) -> None:
    before = content_hash(tc.algorithms.GossipGD())
    monkeypatch.setattr(tc.algorithms.GossipGD, "step", lambda self, s, node: s)
    assert content_hash(tc.algorithms.GossipGD()) != before


WRAPPERS = """
import functools

class Times:
    def __init__(self, inner, factor):
        functools.update_wrapper(self, inner)
        self.factor = factor

def inner(t):
    return t * t + 1.0
"""


@pytest.mark.usefixtures("as_read")
def test_a_wrapper_is_known_by_its_own_state_and_its_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numba
    from numba.core.dispatcher import Dispatcher

    import compile_once

    # Tests' workers replace this method, and code of replaced methods is always a new run
    monkeypatch.setattr(Dispatcher, "compile", compile_once.compile_kernel)
    module = written(tmp_path, "a_plugin", WRAPPERS)
    times, inner = module.Times, module.inner
    assert content_hash(times(inner, 1.0)) == content_hash(times(inner, 1.0))
    assert content_hash(times(inner, 1.0)) != content_hash(times(inner, 2.0))
    assert content_hash(numba.njit(inner)) == content_hash(numba.njit(inner))
    assert content_hash(numba.njit(inner)) != content_hash(numba.njit(fastmath=True)(inner))
    assert content_hash(np.eye(2)) != content_hash(np.eye(2).view(np.recarray))


@pytest.mark.usefixtures("as_read")
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
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names = ("helpers_a", "helpers_b", "a_plugin")

    def found(value: int) -> str:
        (tmp_path / "helpers_a.py").write_text(
            "import helpers_b as inner\nfrom helpers_b import g\n", "utf-8"
        )
        (tmp_path / "helpers_b.py").write_text(f"def g(t):\n    return {value} * t\n", "utf-8")
        importlib.invalidate_caches()
        for name in names:
            sys.modules.pop(name, None)
        return content_hash(written(tmp_path, "a_plugin", reach).f)

    try:
        assert found(1) == found(1) != found(2)
    finally:
        for name in names:
            sys.modules.pop(name, None)


@pytest.mark.usefixtures("as_read")
def test_any_file_of_a_package_counts(tmp_path: Path, monkeypatch: Any) -> None:
    """Also one that the class does not name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "a_package").mkdir()
    (tmp_path / "a_package" / "__init__.py").write_text("def f(t):\n    return t\n", "utf-8")
    try:
        function = importlib.import_module("a_package").f
        before = content_hash(function)
        assert content_hash(function) == before
        (tmp_path / "a_package" / "helper.py").write_text("GAIN = 2\n", "utf-8")
        assert content_hash(function) != before
    finally:
        sys.modules.pop("a_package", None)


def test_a_script_is_known_by_its_file_and_its_values(tmp_path: Path) -> None:
    """Three processes: the same script twice, and with another argument."""
    script = tmp_path / "train.py"
    script.write_text(
        "import sys\nfrom tacenda.content import content_hash\n"
        "GAIN = float(sys.argv[1])\nprint(content_hash(lambda t: GAIN * t))\n",
        "utf-8",
    )

    def found(gain: str) -> str:
        return subprocess.run(
            [sys.executable, str(script), gain], capture_output=True, text=True, check=True
        ).stdout

    assert found("1") == found("1") != found("2")
