"""Statistics: what is declared is made true of every float, and sums move by no more than is
charged; the same sums on one node, on many under masks, and in whole numbers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np
import pytest
from scipy import sparse

import tacenda as tc
from tacenda.algorithms import StatisticRelease
from tacenda.errors import InputError, LeakError, UnsupportedError
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets.bounded import open_values
from tacenda.questions import statistics
from tacenda.questions.blank import BlankQueries
from tacenda.questions.facts import Facts
from tacenda.questions.lattice import LatticeQueries
from tacenda.questions.queries import Queries
from tacenda.questions.statistics import Count, Records, Statistic

ODD = (0.0, 1.0, -0.5, np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324)


@dataclass(frozen=True)
class Echo(Statistic):
    """The record itself, whatever it declares: what a careless author writes."""

    name: ClassVar[str] = "echo"
    norm: float = 1.0
    non_negative: bool = False
    length: int = 2

    def vectors(self, records: Records, model: np.ndarray) -> np.ndarray:
        return records.dense[:, : self.length] * model[0]


def problem_of(rows: np.ndarray, labels: np.ndarray, nodes: int = 1, **options) -> tc.Problem:
    parts = np.array_split(np.arange(len(labels)), nodes)
    shards = [(rows[part], labels[part]) for part in parts]
    return tc.Problem(shards, loss="logistic", strength=0.1, classes=(-1, 1), **options)


def queries_of(problem: tc.Problem, adjacency: str, grid: float | None, common: bool = True):
    own = (problem.store, problem.sizes, np.arange(problem.n_nodes))
    facts = Facts.of(problem, adjacency)
    noise = SimulatedNoise(0)
    if grid is None:
        return Queries(*own, facts, noise)
    return LatticeQueries(*own, facts, noise, grid, common)


@pytest.mark.parametrize("non_negative", [False, True])
@pytest.mark.parametrize("grid", [None, 2.0**-30, 2.0**-3])
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_no_record_of_any_floats_moves_a_sum_by_more_than_is_charged(
    adjacency: str, grid: float | None, non_negative: bool
) -> None:
    """Rows are put into the store behind its checks, as an odd file might bring them there."""
    asked = Echo(norm=0.7, non_negative=non_negative)
    problem = problem_of(np.full((3, 2), 0.1), np.array([1.0, -1.0, 1.0]), public_sizes=[3])
    queries = queries_of(problem, adjacency, grid)
    model = np.array([[1.0, 0.0]])
    found = []
    for row in product(ODD, repeat=2):
        problem.store.rows = np.array([row, (0.3, -0.2), (0.1, 0.4)])
        value = queries.statistic(asked, model)
        found.append(open_values(value)[0])
    sums, bound = np.array(found), float(value.sensitivity[0])
    assert np.isfinite(sums).all()
    factor = {("replace-one", True): 2**0.5, ("replace-one", False): 2.0}
    assert bound == pytest.approx(factor.get((adjacency, non_negative), 1.0) * 0.7, rel=1e-6)
    if adjacency == "replace-one":
        moved = np.linalg.norm(sums[:, None] - sums[None, :], axis=2).max()
    else:
        problem.store.rows = np.array([(0.0, 0.0), (0.3, -0.2), (0.1, 0.4)])
        without = open_values(queries.statistic(asked, model))[0]
        moved = np.linalg.norm(sums - without, axis=1).max()
    assert moved <= bound * (1 + 1e-12)
    assert moved >= 0.7 * bound  # and the bound is not idle


def test_rows_that_keep_to_what_is_declared_are_left_alone() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 3))
    rows /= 1.5 * np.linalg.norm(rows, axis=1).max()
    assert np.array_equal(statistics.enforced(rows, 50, Echo(length=3)), rows)
    one_hot = np.eye(3)[[0, 2, 1]]
    assert np.array_equal(
        statistics.enforced(one_hot, 3, Echo(length=3, non_negative=True)), one_hot
    )


@pytest.mark.parametrize("layout", ["dense", "csr", "float32"])
def test_one_node_many_masked_nodes_and_whole_numbers_give_the_same_sums(layout: str) -> None:
    data = tc.data.make_classification(300, 4, seed=0)
    rows = data.X.astype(np.float32) if layout == "float32" else data.X
    model = np.array([0.5, 0.1, -0.2, 0.3])
    asked = Echo(norm=0.4, length=4)
    expected = statistics.enforced(np.asarray(rows, float) * 0.5, 300, asked).sum(axis=0)
    rows = sparse.csr_array(rows) if layout == "csr" else rows
    sums = []
    for nodes in (1, 7):
        cuts = np.array_split(np.arange(300), nodes)
        shards = [(rows[part], data.y[part]) for part in cuts]
        problem = tc.Problem(shards, loss="logistic", strength=0.1, classes=(0, 1))
        models = np.repeat(model[None], nodes, axis=0)
        plain = queries_of(problem, "replace-one", None).statistic(asked, models)
        whole = queries_of(problem, "replace-one", 2.0**-40).statistic(asked, models)
        own = queries_of(problem, "replace-one", 2.0**-40, False).statistic(asked, models)
        sums += [open_values(value).sum(axis=0) for value in (plain, whole, own)]
        graph = tc.graph.ring(nodes) if nodes > 1 else tc.graph.complete(1)
        for noise, z in (("masked", 1e-4), ("independent", 1e-4)) if nodes > 1 else ():
            result = tc.simulate(
                problem,
                graph,
                StatisticRelease(asked, noise),
                rounds=1,
                privacy=tc.Privacy.from_noise(noise_multiplier=z),
                init=model,
                seed=0,
                metrics=(),
            )
            assert result.released["total"] == pytest.approx(expected, abs=2e-2)
            assert float(result.released["noise"][0]) < 1e-3
            assert result.model == pytest.approx(model)
    for found in sums:
        assert found == pytest.approx(expected, abs=1e-6)


def test_the_stated_noise_is_that_of_the_total() -> None:
    data = tc.data.make_classification(60, 2, seed=0)
    problem = problem_of(data.X, np.where(data.y == data.y[0], 1.0, -1.0), 6)
    for noise in ("masked", "independent"):
        runs = [
            tc.simulate(
                problem,
                tc.graph.ring(6),
                StatisticRelease(Count(), noise),
                rounds=1,
                privacy=tc.Privacy(1.0),
                seed=seed,
                metrics=(),
            ).released
            for seed in range(60)
        ]
        z = [(run["total"][0] - 60.0) / run["noise"][0] for run in runs]
        assert 0.7 < np.std(z) < 1.35
        assert abs(np.mean(z)) < 0.5


def test_weights_count_and_never_lengthen() -> None:
    labels, weights = np.array([1.0, -1.0, 1.0]), [np.array([0.25, 1.0, 0.5])]
    problem = problem_of(np.eye(3), labels, weights=weights)
    value = queries_of(problem, "replace-one", None).statistic(Count(), np.zeros((1, 3)))
    assert open_values(value)[0, 0] == pytest.approx(1.75)


def test_a_rehearsal_knows_the_sensitivity_and_reads_nothing() -> None:
    problem = problem_of(np.eye(2), np.array([1.0, -1.0]))
    facts = Facts.of(problem)
    blank = BlankQueries(facts, full=True).statistic(Count(), np.zeros((1, 2)))
    real = Queries(problem.store, problem.sizes, np.arange(1), facts, SimulatedNoise(0)).statistic(
        Count(), np.zeros((1, 2))
    )
    assert blank.shape == real.shape == (1, 1)
    assert np.array_equal(blank.sensitivity, real.sensitivity)


def test_what_does_not_fit_is_refused_by_name() -> None:
    problem = problem_of(np.eye(2), np.array([1.0, -1.0]))
    queries = queries_of(problem, "replace-one", None)
    with pytest.raises(LeakError):
        queries.statistic(Count(), queries.gradient(np.zeros((1, 2)), 1, 0, None, False, True))
    with pytest.raises(InputError, match=r"shape \(1, 3\)"):
        queries.statistic(Echo(length=3), np.zeros((1, 2)))
    with pytest.raises(InputError, match="norm"):
        queries.statistic(Echo(norm=float("inf")), np.zeros((1, 2)))
    with pytest.raises(InputError, match="length"):
        queries.statistic(Echo(length=1 << 30), np.zeros((1, 2)))
    with pytest.raises(UnsupportedError, match="rounds must be 1"):
        tc.simulate(problem, tc.graph.complete(1), StatisticRelease(Count()), rounds=2)
    with pytest.raises(InputError, match="statistic"):
        tc.algorithms.from_plain({"name": "statistic"})


def test_a_statistic_is_the_same_from_its_plain_values() -> None:
    asked = StatisticRelease(Count(), "independent")
    again = tc.algorithms.from_plain(asked.to_plain())
    assert again == asked
    assert again.statistic.digest() == asked.statistic.digest()
    assert Echo(norm=0.5).digest() != Echo(norm=0.25).digest()
