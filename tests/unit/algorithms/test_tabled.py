"""Tables beside a training: one budget, the same training, and no record that moves the sum by
more than is charged."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.algorithms import IPADMM, GossipGD, Tabled, TreeGD, Whitened
from tacenda.algorithms.registry import from_plain
from tacenda.errors import InputError, UnsupportedError
from tacenda.privacy.accounting.events import merged
from tacenda.questions.tables import ColumnCells, Tables, rows_of

LEVELS, NUMBER = ColumnCells(3, (), False, 1.0), ColumnCells(0, (0.25, 0.5, 0.75), True, 1.0)
ASKED = Tables(((2, (LEVELS,), 0.5), (1, (NUMBER,), 0.25)))


def rows(group: Any, level: Any, place: Any) -> Any:
    one, other = ASKED.sums
    zero = np.zeros(len(group), np.int64)
    return ASKED.together([rows_of(one, group, [level]), rows_of(other, zero, [place])])


def problem(n: int = 800, beside: bool = True) -> Any:
    rng, data = np.random.default_rng(0), tc.data.make_classification(n, 3, seed=0)
    more = rows(rng.integers(0, 2, n), rng.integers(-1, 3, n), rng.uniform(size=n))
    shards = [(data.X[k::4], data.y[k::4]) for k in range(4)]
    own = np.vstack([more[k::4] for k in range(4)]) if beside else None
    return tc.Problem(
        shards, loss="logistic", strength=1e-3, classes=(0, 1), clip_norm=1.0, beside=own
    )


def run(algorithm: Any, privacy: Any, there: Any = None) -> Any:
    there = problem() if there is None else there
    return tc.simulate(
        there, tc.graph.complete(4), algorithm, rounds=3, privacy=privacy, seed=0, progress=False
    )


@pytest.mark.parametrize("inner", [TreeGD(), Whitened(TreeGD()), IPADMM()])
def test_a_share_of_one_budget_pays_for_the_table(inner: Any) -> None:
    asked = Tabled(inner, ASKED, 0.2)
    found = run(asked, tc.Privacy(1.0, coalition=1))
    assert found.privacy.epsilon == pytest.approx(1.0, rel=1e-9)
    squares = [
        (getattr(event, "mu", None) or 1 / event.noise_multiplier) ** 2 * count
        for event, count in merged(found.privacy.charges.events(0))
    ]
    # Of all that was charged, in squares, one release takes its share
    shares = np.array(squares) / sum(squares)
    assert np.any(np.isclose(shares, 0.2, rtol=1e-6))
    total, noise = found.released["tables"], float(found.released["tables_noise"][0])
    exact = problem().store.statistic(np.arange(4), ASKED, np.zeros((4, 3))).sum(axis=0)
    assert 0 < np.abs(total - exact).max() < 6 * noise


def test_a_row_beside_each_record() -> None:
    with pytest.raises(InputError, match="beside has 1 rows for 2 records"):
        tc.Problem([(np.zeros((2, 3)), [0, 1])], classes=(0, 1), beside=np.zeros((1, 2)))


def test_without_privacy_the_table_is_exact_and_the_model_the_same() -> None:
    found, plain = run(Tabled(TreeGD(), ASKED, 0.2), None), run(TreeGD(), None)
    np.testing.assert_array_equal(found.models, plain.models)
    parts = ASKED.apart(found.released["tables"], 0.0)
    assert ASKED.sums[0].parts(parts[0][0])["0"].sum() == pytest.approx(800)
    assert ASKED.sums[1].parts(parts[1][0])["0"].sum() == pytest.approx(800)


def test_no_pair_of_records_moves_the_sum_by_more_than_is_charged() -> None:
    every = list(itertools.product((0, 1), (-1, 0, 1, 2), (np.nan, 0.0, 0.3, 0.573, 1.0)))
    group, level, place = (np.array(x) for x in zip(*every, strict=True))
    liars = np.array([[np.nan] * 4, [1e300] * 4, [-np.inf] * 4, [-5.0] * 4, [0.5, -1, 7, -0.1]])
    given = np.vstack([rows(group, level, place), liars])
    n = len(given)
    there = tc.Problem(
        [(np.zeros((n, 3)), np.arange(n) % 2)], loss="logistic", classes=(0, 1), beside=given
    )
    from tacenda.questions.statistics import enforced

    made = enforced(ASKED.vectors(there.store._records(0, n), np.zeros(3)), n, ASKED)
    norms = np.linalg.norm(made, axis=1)
    assert norms.max() <= 1.0 and norms.max() > 0.99
    moved = np.linalg.norm(made[:, None] - made[None], axis=2).max()
    assert 1.3 < moved <= np.sqrt(2)
    assert not made[len(every)].any()  # a blank row counts nowhere


def test_a_table_is_read_back() -> None:
    asked = Tabled(Whitened(TreeGD()), ASKED, 0.2)
    assert from_plain(asked.to_plain()) == asked


def test_what_does_not_go_together() -> None:
    with pytest.raises(InputError, match="share"):
        Tabled(TreeGD(), ASKED, 1.5)
    with pytest.raises(InputError, match="numbers"):
        run(Tabled(TreeGD(), ASKED, 0.2), None, problem(beside=False))
    with pytest.raises(UnsupportedError, match="table beside it"):
        run(Tabled(GossipGD(noise="correlated"), ASKED, 0.2), tc.Privacy(1.0, coalition=1))
