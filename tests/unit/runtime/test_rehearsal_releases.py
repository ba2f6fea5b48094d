"""What a rehearsal notes of releases, which are one line, and the grid of masked ones."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from support import TUNED, problem, run_spec
from tacenda.algorithms.moments import MomentRegression
from tacenda.errors import LeakError, UnsupportedError
from tacenda.graph.topology import Topology
from tacenda.privacy.noise.discrete import LARGEST_SCALE
from tacenda.privacy.secrets.bounded import Sample, seal
from tacenda.privacy.secrets.mechanisms import NoiseKind, ObjectiveTerms, Site
from tacenda.privacy.secrets.noise_plan import ScaledPlan
from tacenda.questions.facts import Facts
from tacenda.runtime import budget, rehearsal
from tacenda.runtime.budget import masked_grid
from tacenda.runtime.rehearsal import Notebook, Silence, releases_by_round

A = tc.algorithms


def terms(slope: float = 1.0, convexity: float = 2.0) -> ObjectiveTerms:
    same = np.ones(2)
    return ObjectiveTerms(
        slope * same, convexity * same, lambda kappa: kappa, lambda goal: goal, 1e-8
    )


def sample(kind: str = "poisson", rate: float = 0.1) -> Sample:
    return Sample(kind, np.full(2, rate))


def test_two_releases_are_one_line_if_all_is_equal_that_noise_follows_from() -> None:
    plain = Site(1, 1.0, 3, NoiseKind.GAUSSIAN, np.array([0.1, 0.2]), sample(), None)
    same = replace(plain, turn=2, sensitivity=np.array([0.1, 0.2]), sample=sample())
    assert rehearsal._alike(plain, same) and rehearsal._alike(same, plain)
    for other in (
        replace(plain, noise=NoiseKind.L2_LAPLACE),
        replace(plain, weight=2.0),
        replace(plain, relative_std=1.0),
        replace(plain, sensitivity=np.array([0.1, 0.3])),
        replace(plain, sample=sample("one")),
        replace(plain, sample=sample(rate=0.2)),
        replace(plain, sample=None),
    ):
        assert not rehearsal._alike(plain, other) and not rehearsal._alike(other, plain)
    objective = Site(1, 1.0, 3, NoiseKind.OBJECTIVE, objective=terms())
    assert rehearsal._alike(objective, replace(objective, turn=5, objective=terms()))
    for wrong in (terms(slope=1.5), terms(convexity=1.5)):
        assert not rehearsal._alike(objective, replace(objective, objective=wrong))
    assert not rehearsal._alike(objective, replace(objective, weight=0.5))
    bare = replace(plain, sample=None)
    assert rehearsal._alike(bare, replace(bare, sensitivity=np.array([0.1, 0.2])))


def test_a_release_has_its_share_of_its_rounds_share() -> None:
    notebook = Notebook(3, np.array([0.5, 2.0]), np.float32)
    value = seal(np.zeros((2, 4)), np.array([0.1, 0.2]))
    answer = notebook.release(value, 2, 0, "gaussian", None, weight=3.0)
    whole, unit = notebook.release_masked(value, 1, 1, weight=3.0)
    notebook.release_masked(value, 1, 2, weight=3.0)
    assert answer.shape == (2, 4) and answer.dtype == np.float32 and not answer.any()
    assert whole.shape == (2, 4) and whole.dtype == np.uint64 and not whole.any()
    assert unit == 1.0
    (first, once), (second, twice) = notebook.sites
    assert (first.turn, first.weight, first.dim, first.noise) == (2, 6.0, 3, "gaussian")
    assert (second.turn, second.weight, second.dim, second.noise) == (1, 1.5, 3, "masked")
    assert (once, twice) == (1, 2)
    for site in (first, second):
        assert np.array_equal(site.sensitivity, [0.1, 0.2]) and site.sample.kind == "all"
        assert site.relative_std is None
    with pytest.raises(LeakError, match="release_masked takes a Bounded"):
        notebook.release_masked(np.zeros((2, 4)), 1, 0, 1.0)  # type: ignore[arg-type]


def test_a_sample_is_noted_once() -> None:
    for masked in (False, True):
        notebook, drawn = Notebook(3, np.ones(1)), Sample("poisson", np.full(2, 0.1))
        value = seal(np.zeros((2, 4)), np.array([0.1, 0.2]), drawn)

        def ask(notebook: Any = notebook, value: Any = value, masked: bool = masked) -> None:
            if masked:
                notebook.release_masked(value, 1, 0, 1.0)
            else:
                notebook.release(value, 1, 0, "gaussian", None)

        ask()
        with pytest.raises(LeakError, match="released before"):
            ask()


def test_silent_neighbours_say_nothing() -> None:
    silence, row = Silence(), np.ones((2, 3), np.uint64)
    assert silence.average(row, (1, 0)) is row
    total = silence.total(row, (1, 0))
    assert total.shape == (2, 3) and total.dtype == np.int64 and not total.any()


@pytest.mark.parametrize("name", [name for name, kind in TUNED.items() if kind.private])
def test_every_round_makes_its_releases(name: str) -> None:
    spec = run_spec(
        TUNED[name],
        Topology.of(tc.graph.star(6) if name == "dpadmm" else tc.graph.ring(6)),
        Facts.of(problem(6)),
        3,
        tc.Privacy(1.0),
    ).checked()
    steps = TUNED[name].traits.steps_per_round
    assert releases_by_round(spec) == (steps,) * 3


def test_a_whitened_run_makes_one_release_more_in_round_1() -> None:
    spec = run_spec(
        A.Whitened(A.TreeGD()), Topology.of(tc.graph.ring(6)), Facts.of(problem(6)), 3
    ).checked()
    assert releases_by_round(spec) == (2, 1, 1)
    data = problem(6, task="regression", loss="squared", clip_norm=1.0)
    spec = replace(spec.changed(algorithm=MomentRegression()), facts=Facts.of(data)).checked()
    assert releases_by_round(spec) == (1, 1, 1)


def site(weight: float, sensitivity: list[float]) -> Site:
    return Site(1, weight, 3, NoiseKind.MASKED, np.array(sensitivity), Sample("all"))


def test_the_grid_of_masked_sums_by_hand() -> None:
    """A power of two, of which the sum's noise spans at least 2^26 and less than 2^27."""
    plan = ScaledPlan(np.full(2, 3.0), np.ones(1))
    for n in (2, 5, 100):
        for weights in ([1.0], [1.0, 2.0, 0.5]):
            sites = [(site(w, [1e-3, 2e-3]), 1) for w in weights]
            step = masked_grid(plan, sites, n, np.array([10.0, 20.0]))
            least = math.sqrt(n) * 3.0 / math.sqrt(max(weights))
            assert math.frexp(step)[0] == 0.5
            assert 2.0**26 <= least / step < 2.0**27
    other = Site(1, 1.0, 3, NoiseKind.GAUSSIAN, np.array([9.0, 9.0]), Sample("all"))
    both = masked_grid(plan, [(site(1.0, [1e-3] * 2), 1), (other, 1)], 4, np.full(2, 5.0))
    assert both == masked_grid(plan, [(site(1.0, [1e-3] * 2), 1)], 4, np.full(2, 5.0))


def test_sums_that_whole_numbers_cannot_hold_are_refused() -> None:
    plan, n = ScaledPlan(np.ones(2), np.ones(1)), 4
    step = masked_grid(plan, [(site(1.0, [1.0, 2.0]), 1)], n, np.array([1.0, 1.0]))
    tail = math.sqrt(2 * 101 * math.log(2)) * math.sqrt(n)
    most = (2.0**63 * step - tail) / 3.0  # of records, at each of two rows
    for factor, fits in ((0.999, True), (1.001, False)):
        records = np.full(2, most * factor)
        if fits:
            assert masked_grid(plan, [(site(1.0, [1.0, 2.0]), 1)], n, records) == step
        else:
            with pytest.raises(UnsupportedError, match="A masked sum may reach"):
                masked_grid(plan, [(site(1.0, [1.0, 2.0]), 1)], n, records)
    # One release with so little of the budget that its own noise leaves the sampler's range
    quiet = 2.0**26 / math.sqrt(n) / LARGEST_SCALE
    for factor, fits in ((2.1, True), (0.45, False)):
        sites = [(site(1.0, [1e-9] * 2), 1), (site((quiet * factor) ** 2, [1e-9] * 2), 1)]
        if fits:
            masked_grid(plan, sites, n, np.ones(2))
        else:
            with pytest.raises(UnsupportedError, match="Spread the budget more evenly"):
                masked_grid(plan, sites, n, np.ones(2))


def test_leverages_are_rounded_up_by_less_than_a_millionth() -> None:
    values = np.array([1e-7, 1 / 3, 0.5, 0.999_999_9, 1.0])
    found = budget._rounded_up(values)
    assert (found >= values).all() and (found <= np.minimum(values + 1.0001e-6, 1.0)).all()
    assert found[2] == 0.5 and np.array_equal(budget._rounded_up(found), found)


def test_rounding_keeps_twelve_digits() -> None:
    values = np.array([0.0, 1 / 3, -123.456, 1e-300, math.inf, 2.0])
    found = budget._rounded(values)
    np.testing.assert_allclose(found, values, rtol=1e-12)
    assert np.array_equal(budget._rounded(values * (1 + 1e-15))[1:3], found[1:3])
    assert not np.array_equal(budget._rounded(values * (1 + 3e-12))[1:3], found[1:3])
