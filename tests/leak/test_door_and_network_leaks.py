"""No value gets past the door unpaid, past the network unreleased,
or out of a query at a hidden point."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from support import TUNED, make_block, problem
from tacenda.errors import InputError, LeakError, NetworkError, PrivacyError, StateError
from tacenda.privacy.noise.sources import SimulatedNoise

SOURCE = Path(tc.__file__).parent


def sources() -> dict[str, Path]:
    """Every source file of the three packages; those of the library by their path within it."""
    found = sorted(file for one in SOURCE.parent.glob("tacenda*") for file in one.rglob("*.py"))
    names = [file.relative_to(SOURCE.parent).as_posix() for file in found]
    return {name.removeprefix("tacenda/"): file for name, file in zip(names, found, strict=True)}


# None of them holds values
PUBLIC = {
    "as_column",
    "same_numbers",
    "Bounded",
    "Sample",
    "ALL_RECORDS",
    "fixed",
    "fixed_sensitivity",
    "bound_of",
    "question_of",
    "require_bounded",
}
MAY_OPEN = {
    # The way out
    "privacy/secrets/door.py": {"open_values", "open_parts"},
    # The way in, and arguments that are secret themselves
    "questions/queries.py": {"open_values", "seal"},
    # Zeros in the place of records, for a rehearsal
    "questions/blank.py": {"seal"},
    # The same queries on a node's integer lattice
    "questions/lattice.py": {"seal"},
    # The adversary, who compares what is secret with what was released
    "auditing/wiretap.py": {"open_values", "open_parts"},
}


@pytest.fixture
def block() -> Any:
    return make_block(problem(4), scale=1.0)[0]


W = np.zeros((4, 4))
Q = np.ones((4, 1))


def test_release_takes_bounded_values_only(block: Any) -> None:
    for value in (
        W,
        [[0.0] * 4] * 4,
        1.0,
        None,
        np.matrix(np.zeros((4, 4))) if False else np.float64(3),
    ):
        with pytest.raises(LeakError, match="takes a Bounded"):
            block.release(value)


def test_release_without_privacy_also_takes_bounded_values_only() -> None:
    block, _, _ = make_block(problem(4))
    with pytest.raises(LeakError, match="takes a Bounded"):
        block.release(W)


@pytest.mark.parametrize("send", ["neighbour_sum", "mix", "average"])
def test_the_network_sends_released_arrays_only(block: Any, send: str) -> None:
    hidden = block.gradient(W)
    box = np.empty((4, 4), object)
    box[:] = 0.0
    for value in (
        hidden,
        hidden * 2.0 + W,
        box,
        W.astype(np.float32),
        W.astype(int),
        W.tolist(),
        W.view(np.recarray),
        None,
    ):
        with pytest.raises(LeakError, match="release it first"):
            getattr(block, send)(value)


def test_the_network_refuses_wrong_shapes_and_sends_no_infinite_values(block: Any) -> None:
    for value in (np.zeros(4), np.zeros((3, 4)), np.zeros((4, 4, 1))):
        with pytest.raises(NetworkError, match="one row per node"):
            block.neighbour_sum(value)
    network = block._neighbours
    for bad, sent in (
        (np.nan, 0.0),
        (np.inf, 1e9),
        (-np.inf, -1e9),
        (-1.79e308, -1e9),
        (1e9 + 1, 1e9),
    ):
        network.reached_radius = None
        # A ring: two neighbours
        assert np.array_equal(block.neighbour_sum(np.full((4, 4), bad)), np.full((4, 4), 2 * sent))
        assert network.reached_radius == 1
    network.reached_radius = None
    block.mix(np.full((4, 4), 1e9))
    assert network.reached_radius is None


def test_a_tree_takes_no_unreleased_value_on_its_way(block: Any) -> None:
    """Neither as floats nor as whole numbers, nor a released part joined to a secret one."""
    hidden, network = block.gradient(W), block._neighbours
    with pytest.raises((LeakError, TypeError, ValueError)):
        block.average(np.hstack([W, hidden]))
    for value in (hidden, W, W.astype(np.int64), (hidden * 2.0)):
        with pytest.raises(LeakError, match="release it first"):
            network.total(value, (1, 0))
    assert network.traffic.messages == 0


def test_senders_and_degrees_cannot_be_secret(block: Any) -> None:
    with pytest.raises((LeakError, TypeError, AttributeError)):
        block.neighbour_sum(W, senders=block.gradient(W))


def test_gradients_are_asked_at_public_points_only(block: Any) -> None:
    hidden = block.gradient(W)
    for point in (hidden, hidden - W, W.tolist(), None):
        with pytest.raises(LeakError, match="public point"):
            block.gradient(point)
        with pytest.raises(LeakError, match="public point"):
            block.gradient(point, 3)


def test_noise_in_the_objective_wants_a_public_linear_term(block: Any) -> None:
    """A centre may be unreleased, and its charge knows how far a record moves it."""
    hidden = block.gradient(W)
    with pytest.raises(LeakError, match="public point"):
        block.release_argmin(hidden, Q, W)
    with pytest.raises(LeakError, match="public point"):
        block.release_argmin(W, Q, [[0.0]])
    sampled = block.gradient(W, 3)
    with pytest.raises(LeakError, match="sample of the records"):
        block.release_argmin(W, Q, sampled)


def test_an_unreleased_centre_is_charged_as_one() -> None:
    """The round's epsilon stays, so that the noise is larger by how far a record moves the centre;
    in one direction, which the noise does not know."""
    charges = []
    for centre in (lambda block: W, lambda block: 3.0 * block.gradient(W)):
        block, _, ledger = make_block(problem(4), scale=2.0)
        terms = block._queries.question(W, Q, centre(block)).terms
        block.release_argmin(W, Q, centre(block))
        ((charge, _),) = ledger.charges
        charges.append((charge, terms.slope))
    (released, slope), (hidden, wider) = charges
    assert np.all(wider > 2 * slope)
    assert set(hidden.entries["directions"]) == set(released.entries["directions"]) == {1}
    assert np.allclose(hidden.entries["inner"], released.entries["inner"])


def test_a_quadratic_weight_cannot_be_secret(block: Any) -> None:
    with pytest.raises((LeakError, TypeError)):
        block.argmin(W, block.gradient(W), W)


def test_prox_and_dual_step_act_on_released_values(block: Any) -> None:
    hidden = block.gradient(W)
    with pytest.raises((LeakError, TypeError)):
        block.prox(hidden, Q)
    with pytest.raises((LeakError, TypeError)):
        make_block(problem(4, regulariser="l1"))[0].dual_step(hidden, 1.0, 1.0)


def test_unbounded_values_are_never_released() -> None:
    block, _, ledger = make_block(problem(4, task="regression", loss="squared"), scale=1.0)
    with pytest.raises(PrivacyError, match=r"clip_norm"):
        block.release(block.gradient(W))
    assert len(ledger.charges) == 0


def test_l2_laplace_on_a_sample_is_refused(block: Any) -> None:
    with pytest.raises(PrivacyError, match="no accountant"):
        block.release(block.gradient(W, 3), noise="l2-laplace")


def test_unknown_noise_is_refused(block: Any) -> None:
    with pytest.raises(InputError, match="gaussian"):
        block.release(block.gradient(W), noise="gausian")


def test_a_scaled_down_value_gets_scaled_down_noise_and_the_same_charge() -> None:
    """Shrinking a secret before the door buys nothing:
    its noise shrinks with it, and the charge stays."""
    charges = []
    for factor in (1.0, 1e-6):
        block, _, ledger = make_block(problem(4), scale=1.0)
        block.release(block.gradient(W) * factor)
        charges.append(next(iter(ledger.charges))[0].parameters["noise_multiplier"])
    assert np.allclose(*charges, rtol=1e-12)


def test_a_value_times_zero_is_not_released_for_free(block: Any) -> None:
    """Nothing of the records is left in it, and no charge could describe it."""
    with pytest.raises(PrivacyError):
        block.release(block.gradient(W) * 0.0)


def test_a_state_with_an_unreleased_value_is_not_written(tmp_path: Path) -> None:
    algorithm, budget = tc.algorithms.PVP(centre="hidden"), tc.Privacy.from_noise(round_epsilon=1.0)
    with pytest.raises(StateError, match="unreleased"):
        tc.simulate(
            problem(4), tc.graph.ring(4), algorithm, 3, budget, 0, checkpoint=tmp_path / "run.ckpt"
        )
    assert list(tmp_path.iterdir()) == []


def test_a_callback_sees_released_arrays() -> None:
    seen: list[Any] = []
    tc.simulate(
        problem(4),
        tc.graph.ring(4),
        tc.algorithms.PVP(centre="hidden"),
        2,
        tc.Privacy.from_noise(round_epsilon=1.0),
        0,
        callback=lambda t, models: seen.append(models),
    )
    assert all(type(models) is np.ndarray for models in seen)


def test_stores_and_problems_do_not_show_records() -> None:
    data = problem(4)
    value = f"{abs(float(np.ravel(data.store.rows)[0])):.4f}"
    assert value not in repr(data) + repr(data.store) + str(vars(data.store).keys())


def opened_in(path: Path) -> set[str]:
    """What a file takes from the module of secrets beyond its public names."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "tacenda.privacy.secrets.bounded":
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "tacenda.privacy":
            names |= {"the whole module" for alias in node.names if alias.name == "bounded"}
        elif isinstance(node, ast.Import):
            names |= {
                "the whole module"
                for alias in node.names
                if alias.name.startswith("tacenda.privacy.secrets.bounded")
            }
        elif isinstance(node, ast.Attribute) and node.attr in {
            "open_values",
            "open_parts",
            "_vault",
        }:
            names.add(node.attr)
    return names - PUBLIC


def test_only_the_door_and_the_queries_open_secrets() -> None:
    found = {where: opened_in(path) for where, path in sources().items()}
    assert {name.partition("/")[0] for name in found} >= {"tacenda_node", "tacenda_papers"}
    assert {
        where: names - MAY_OPEN.get(where, set())
        for where, names in found.items()
        if names - MAY_OPEN.get(where, set())
    } == {}
    # The check itself can see
    assert found["privacy/secrets/door.py"] == MAY_OPEN["privacy/secrets/door.py"]


def test_algorithms_import_neither_runtime_nor_randomness_nor_records() -> None:
    for path in sorted((SOURCE / "algorithms").glob("*.py")):
        tree = ast.parse(path.read_text())
        modules = [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
        modules += [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
        forbidden = ("runtime", "random", "store", "privacy.noise", "privacy.lasting")
        assert not [m for m in modules if any(word in m for word in forbidden)], path.name
        assert "random" not in {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}, (
            path.name
        )


def test_numpy_random_is_used_only_where_draws_belong() -> None:
    allowed = ("privacy/noise", "data/", "graph/", "tacenda_papers/experiments/generated.py")
    for where, path in sources().items():
        lines = path.read_text().splitlines()
        text = "\n".join(line for line in lines if not line.lstrip().startswith(">>> "))
        if not where.startswith(allowed):
            assert "np.random" not in text and "numpy.random" not in text, where


@pytest.mark.parametrize("name", [name for name in TUNED if TUNED[name].private])
def test_no_algorithm_releases_without_a_charge(name: str) -> None:
    """Between the records and the wire stands the door:
    as many draws as charges, for every algorithm."""
    from support import graph_for, privacy_for

    draws: list[str] = []

    class Counting(SimulatedNoise):
        def add_gaussian(self, *args: Any) -> Any:
            draws.append("release")
            return super().add_gaussian(*args)

        def l2_laplace(self, nodes: Any, turn: int, call: int, *args: Any) -> Any:
            draws.append("release")
            return super().l2_laplace(nodes, turn, call, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tacenda.runtime.simulate.SimulatedNoise", Counting)
        # One draw per charge, also inside the objective
        patch.setattr("tacenda.privacy.secrets.mechanisms.GAP_SHARE", 0.0)
        with pytest.warns() if name == "radmm" else pytest.MonkeyPatch.context():
            result = tc.simulate(problem(6), graph_for(name), TUNED[name], 4, privacy_for(name), 0)
    assert len(draws) == len(result.privacy.charges) > 0
