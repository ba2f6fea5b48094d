"""In mode "as-published" every algorithm gets its own paper's noise, or is refused;
none gets another paper's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import support
import tacenda as tc
from tacenda.algorithms.registry import ALGORITHMS
from tacenda.errors import UnsupportedError
from tacenda.privacy.settings import Privacy

A = tc.algorithms
ROUNDS, EPSILON, DELTA = 5, 2.0, 1e-5
LOG = math.log(1 / DELTA)
# What each paper prints, computed here by hand: the claim (epsilon, delta) for the whole run or, in
# Zhang and Zhu (2016), for a round.
CLAIMS = {
    "ipadmm": (EPSILON, DELTA),
    "dpdda": (EPSILON, DELTA),
    "radmm": (EPSILON, 0.0),
    "madmm": (EPSILON, 0.0),
    "dvp": (EPSILON, 0.0),
    "pvp": (EPSILON, 0.0),
    "cdpadmm": (EPSILON, DELTA),
    "ddpadmm": (EPSILON, DELTA),
    "dpadmm": (EPSILON, DELTA),
}


def planned(algorithm: Any, name: str) -> Any:
    """What a run states: its claim and every release."""
    problem, graph = support.problem(4), support.graph_for(name, 4)
    privacy = Privacy(EPSILON, DELTA, mode="as-published")
    return tc.simulate(
        problem, graph, algorithm, ROUNDS, privacy, seed=0, record_every=0
    ).privacy, problem


@pytest.mark.filterwarnings("ignore::tacenda.errors.ConvergenceWarning")
@pytest.mark.parametrize("name", [n for n in support.TUNED if ALGORITHMS[n].private])
def test_every_algorithm_has_its_own_print_or_is_refused(name: str) -> None:
    algorithm = support.TUNED[name]
    if name not in CLAIMS:
        with pytest.raises(UnsupportedError, match=r"no paper .* publishes|publishes no noise"):
            planned(algorithm, name)
        return
    found, _ = planned(algorithm, name)
    assert found.claimed == pytest.approx(CLAIMS[name])


def test_the_gaussian_formulas_are_those_of_their_own_papers() -> None:
    """Huang and Gong (2020): z = sqrt(2 T l ln(1.25/delta))/epsilon. Gauthier et al. (2020): from
    phi.

    Liu et al. (2022): std = L sqrt(12 T ln(1/delta))/(q epsilon) with q = min m_i, against 2L/m_i.
    """
    found, problem = planned(support.TUNED["ipadmm"], "ipadmm")
    z = found.ledger(0)[0][0].noise_multiplier
    assert z == pytest.approx(math.sqrt(2 * ROUNDS * 3 * math.log(1.25 / DELTA)) / EPSILON)
    found, problem = planned(support.TUNED["dpdda"], "dpdda")
    z = found.ledger(0)[0][0].noise_multiplier
    sizes = problem.sizes
    assert sizes[0] > min(sizes)
    assert z == pytest.approx(math.sqrt(12 * ROUNDS * LOG) / EPSILON / 2 * sizes[0] / min(sizes))
    phi = (math.sqrt(LOG + EPSILON) - math.sqrt(LOG)) ** 2
    for name in ("cdpadmm", "ddpadmm", "dpadmm"):
        found, problem = planned(support.TUNED[name], name)
        for node in range(problem.n_nodes):
            total = sum(count / event.noise_multiplier**2 for event, count in found.ledger(node))
            assert total / 2 == pytest.approx(phi)


def test_dual_averaging_takes_the_smallest_nodes_records_at_every_node() -> None:
    """Liu et al. (2022), Theorem 1: q = min q_i. So the larger node is protected better than
    claimed: its full gradient is a mean over four times the records."""
    method, privacy = tc.Method(A.DPDDA(), ROUNDS), Privacy.from_paper(epsilon=EPSILON, delta=DELTA)
    sizes = [100, 400]
    found = tc.accounting.account(sizes, 5, tc.graph.complete(2), method, privacy)
    std = math.sqrt(12 * ROUNDS * LOG) / (100 * EPSILON)
    for node, size in enumerate(sizes):
        ((event, count),) = found.curve(node).events
        assert event.noise_multiplier == pytest.approx(std * size / 2) and count == ROUNDS
    assert found.worst_node == 0


@dataclass(frozen=True)
class Plugin(A.CDPADMM):
    """Somebody's own change of a published method: no paper publishes its noise."""

    name: ClassVar[str] = "theirs"
    title: ClassVar[str] = "Their method"


@pytest.mark.parametrize(
    "algorithm", [A.GossipGD(noise="independent"), A.GossipGD(), Plugin(), A.DDA()]
)
def test_what_no_paper_prints_is_refused_by_a_run_too(algorithm: Any) -> None:
    """Found by attack: whatever had no formula of its own was given Gauthier et al.'s (2020)."""
    with pytest.raises(UnsupportedError) as refused:
        tc.simulate(
            support.problem(4),
            tc.graph.ring(4),
            algorithm,
            2,
            Privacy(1.0, mode="as-published"),
            seed=0,
        )
    assert algorithm.title in str(refused.value) and "mode='sound'" in str(refused.value)


def test_what_is_derived_inherits_neither_print_nor_verdict_but_may_have_its_own() -> None:
    assert A.CDPADMM.verdict is not None and Plugin.verdict is None

    @dataclass(frozen=True)
    class Printed(Plugin):
        published_noise = A.CDPADMM.published_noise

    found, _ = planned(Printed(variance_decay=0.9), "cdpadmm")
    assert found.claimed == pytest.approx(CLAIMS["cdpadmm"])


def test_noise_shared_by_neighbours_is_printed_nowhere() -> None:
    with pytest.raises(
        UnsupportedError, match=r"publishes noise shared by neighbours .* noise='independent'"
    ):
        tc.algorithms.DPDDA(noise="correlated").published_form()
    with pytest.raises(UnsupportedError, match="or one of MADMM, DVP, PVP"):
        tc.algorithms.GossipGD().published_form()


def test_a_plugin_is_not_refused_when_sound() -> None:
    result = tc.simulate(
        support.problem(4), tc.graph.ring(4), Plugin(), 2, Privacy(1.0), seed=0, record_every=0
    )
    assert result.privacy is not None and np.isfinite(result.privacy.epsilon)


@pytest.mark.parametrize(
    ("batch", "truth"),
    [
        (45, 0.7507),
        pytest.param(5, 0.8685, marks=pytest.mark.slow),
        pytest.param(2, 6.963, marks=pytest.mark.slow),
    ],
)
def test_note_1_keeps_the_noise_of_all_records(batch: int, truth: float) -> None:
    """452 records a node, T = l = 10, epsilon 1: the noise on a gradient is 2 G z/m = 0.2144 with
    batches and without. The true epsilon stays the same until a batch has a handful of records;
    with two it is seven times the claim."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(904, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    shards = [(x[:452], np.ones(452)), (x[452:], -np.ones(452))]
    problem = tc.Problem(shards, strength=1e-6, classes=(-1, 1))

    def std_and_truth(size: int | None) -> tuple[float, float]:
        result = tc.simulate(
            problem,
            tc.graph.complete(2),
            tc.algorithms.IPADMM(batch_size=size),
            10,
            tc.Privacy(1.0, 1e-5, mode="as-published"),
            seed=0,
        )
        ((event, count),) = result.privacy.curve().events
        assert count == 100 and result.privacy.claimed == (1.0, 1e-5)
        moved = 2 / 452 if size is None else 2 / size
        return event.noise_multiplier * moved, result.privacy.epsilon

    full, true_full = std_and_truth(None)
    small, true_small = std_and_truth(batch)
    assert full == pytest.approx(0.2144, abs=1e-4)
    assert small == pytest.approx(full)
    assert true_full == pytest.approx(0.751, abs=0.002)
    assert true_small == pytest.approx(truth, rel=2e-3)


@pytest.mark.parametrize("name", tc.algorithms.ALGORITHMS)
def test_what_is_derived_from_a_published_method_is_not_published(name: str) -> None:
    """Not even its form: another step behind the same class would run under the paper's name."""
    derived = type("Derived", (tc.algorithms.ALGORITHMS[name],), {})
    with pytest.raises(UnsupportedError, match="no paper here publishes noise"):
        derived().published_form()
