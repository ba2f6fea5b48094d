"""What the lasting ledger says a person has lost is never less than what the person has lost: over
runs of one unit, of several units, masked or not, in simulations and on nodes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import tacenda as tc
from tacenda.errors import BudgetError, LedgerWarning, PrivacyError
from tacenda.privacy.accounting.events import (
    CorrelatedGaussian,
    DiscreteGaussian,
    Gaussian,
    MaskedSum,
    PoissonGaussian,
    Pure,
)
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.privacy.lasting.units import Unit

DELTA = 1e-5


def epsilon_of(mu: float, delta: float = DELTA) -> float:
    """Of a Gaussian of parameter mu, from its trade-off alone."""

    def rest(epsilon: float) -> float:
        a = norm.cdf(mu / 2 - epsilon / mu)
        b = norm.logcdf(-mu / 2 - epsilon / mu)
        return float(a - math.exp(epsilon + b) - delta)

    return float(brentq(rest, 0.0, 10 * mu**2 + 40 * mu))


def persons_problem(nodes: int, people: int, most: int, members: int) -> tc.Problem:
    """Every person has a record at `members` nodes, or fewer."""
    rng = np.random.default_rng(3)
    shards, ids = [], []
    for node in range(nodes):
        x = rng.normal(size=(people, 3))
        x /= np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True))
        shards.append((x, rng.integers(0, 2, people)))
        ids.append([f"p{node // members}/{k // most}" for k in range(people)])
    return tc.Problem(
        shards,
        classes=(0, 1),
        persons=ids,
        records_per_person=most,
        members_per_person=members,
        public_sizes=float(people),
    )


def run(problem: tc.Problem, ledger: Path, seed: int, epsilon: float = 1.0, **more: Any) -> Any:
    settings: dict[str, Any] = {
        "algorithm": tc.algorithms.TreeGD(),
        "rounds": 2,
        "privacy": tc.Privacy(epsilon, DELTA, adjacency="add-remove", coalition=1),
        **more,
    }
    return tc.simulate(
        problem,
        tc.graph.complete(problem.n_nodes),
        seed=seed,
        ledger=ledger,
        dataset="us",
        metrics=(),
        **settings,
    )


def test_of_nine_masked_runs_for_persons_at_three_members_one_passes(tmp_path: Path) -> None:
    ledger, problem = tmp_path / "ledger", persons_problem(6, 40, 1, 3)
    with LedgerStore(ledger) as store:
        store.set_budget("us", 1.0, DELTA, "add-remove")
    run(problem, ledger, 0)
    for seed in range(1, 9):
        with pytest.raises(BudgetError, match="a person with at most 1 record at each of at most"):
            run(problem, ledger, seed)
    with LedgerStore(ledger) as store:
        found = store.spent("us")
        assert found.unit == Unit(1, 3)
        assert found.curve_with_reserved.epsilon(DELTA) == pytest.approx(1.0, rel=1e-6)
        assert store.verify().ok


@pytest.mark.parametrize("masked", [True, False])
def test_the_ledger_says_what_a_person_at_all_members_loses(masked: bool, tmp_path: Path) -> None:
    """Composed by hand from the runs' own charges: under masks the q members' mu add up, otherwise
    their squares do, at the worst node of each release."""
    ledger, problem = tmp_path / "ledger", persons_problem(4, 30, 2, 2)
    how: dict[str, Any] = {} if masked else {"algorithm": "dpdda"}
    squares = 0.0
    for seed, epsilon in enumerate((0.3, 0.2, 0.4)):
        found = run(problem, ledger, seed, epsilon, **how)
        for charge, count in found.privacy.charges:
            values = charge.parameters
            if masked:
                squares += count * (2 * float(values["mu"].max())) ** 2
            else:
                squares += count * 2 * float(values["noise_multiplier"].min()) ** -2.0
    with LedgerStore(ledger) as store:
        said = store.spent("us").curve.epsilon(DELTA)
    assert said == pytest.approx(epsilon_of(math.sqrt(squares)), rel=1e-6)


def test_evaluations_for_persons_at_four_members_stop_at_the_budget(tmp_path: Path) -> None:
    ledger, problem = tmp_path / "ledger", persons_problem(8, 40, 1, 4)
    with LedgerStore(ledger) as store:
        store.set_budget("us", 1.0, DELTA, "add-remove")
    terms = tc.Privacy(1.0, DELTA, adjacency="add-remove", coalition=1)

    def evaluate(seed: int) -> None:
        tc.evaluate_privately(
            np.zeros(3),
            problem,
            tc.graph.complete(8),
            terms,
            seed=seed,
            ledger=ledger,
            dataset="us",
        )

    evaluate(0)
    with pytest.raises(BudgetError):
        evaluate(1)
    with LedgerStore(ledger) as store:
        assert store.spent("us/held-out").curve.epsilon(DELTA) == pytest.approx(1.0, rel=1e-6)


def test_a_run_for_records_counts_for_all_records_of_a_person(tmp_path: Path) -> None:
    """mu of k q records: k q times that of one."""
    ledger = tmp_path / "ledger"
    with LedgerStore(ledger) as store:
        store.set_budget("us", 10.0, DELTA, "add-remove", Unit(3, 2))
        store.open_run("records", "us", adjacency="add-remove", reserve=[(Gaussian(20.0), 4)])
        store.open_run(
            "persons", "us", adjacency="add-remove", reserve=[(Gaussian(5.0), 2)], unit=Unit(3, 2)
        )
        square = 4 * (6 / 20) ** 2 + 2 * 2 * (1 / 5) ** 2
        found = store.spent("us").curve_with_reserved.epsilon(DELTA)
        assert found == pytest.approx(epsilon_of(math.sqrt(square)), rel=1e-6)
        # A larger unit makes what was booked before count for more
        before = store.spent("us").curve_with_reserved.epsilon(DELTA)
        store.open_run("more", "us", adjacency="add-remove", unit=Unit(5, 2), reserve=[])
        assert store.spent("us").unit == Unit(5, 2)
        assert store.spent("us").curve_with_reserved.epsilon(DELTA) > before


def test_a_record_run_in_a_persons_account_is_said(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    run(persons_problem(4, 30, 3, 1), ledger, 0, 0.5)
    rng = np.random.default_rng(0)
    shards = [(rng.uniform(-0.5, 0.5, (30, 3)), rng.integers(0, 2, 30)) for _ in range(4)]
    plain = tc.Problem(shards, classes=(0, 1), public_sizes=30.0)
    with pytest.warns(LedgerWarning, match="single records.*a person with at most 3 records"):
        run(plain, ledger, 0, 0.5)


def test_samples_of_records_are_refused_in_a_persons_account(tmp_path: Path) -> None:
    with LedgerStore(tmp_path / "ledger") as store:
        store.open_run("p", "us", adjacency="add-remove", unit=Unit(2, 1))
        with pytest.raises(PrivacyError, match="samples single records"):
            store.open_run(
                "s", "us", adjacency="add-remove", reserve=[(PoissonGaussian(2.0, 0.1), 5)]
            )
        assert [row["run"] for row in store.runs()] == ["p"]
        # Nor does a person's run come into the account of a sample, by a join or by itself
        store.open_run(
            "t", "them", adjacency="add-remove", reserve=[(PoissonGaussian(2.0, 0.1), 5)]
        )
        with pytest.raises(PrivacyError, match="samples single records"):
            store.join("us", "them")
        with pytest.raises(PrivacyError, match="samples single records"):
            store.open_run("q", "them", adjacency="add-remove", unit=Unit(2, 1))
        with pytest.raises(PrivacyError, match="samples single records"):
            store.set_budget("them", 1.0, DELTA, "add-remove", Unit(2, 1))
        assert store.spent("them").unit == Unit()
        assert store.verify().ok


@pytest.mark.parametrize(
    "event",
    [
        Gaussian(3.0),
        DiscreteGaussian(3.0),
        Pure(0.2),
        CorrelatedGaussian(0.3, 2),
        MaskedSum(0.3, 1),
    ],
)
def test_no_unit_counts_less_than_a_smaller_one(event: Any) -> None:
    from tacenda.privacy.accounting.judge import judge

    def loss(whole: Unit, own: Unit) -> float:
        return judge(whole.counts(own, [(event, 3)]), "add-remove").epsilon(DELTA)

    for own in (Unit(), Unit(1, 1), Unit(2, 1), Unit(2, 3)):
        for k in (2, 3, 4):
            for q in (1, 2, 3):
                assert loss(Unit(k, q), own) >= loss(Unit(2, 1), own) * (1 - 1e-9)
    # Records that may all be at one node cost at least what they cost spread over nodes
    spread = judge(Unit(2, 3).counts(Unit(2, 3), [(event.grouped(2), 3)]), "add-remove")
    assert loss(Unit(2, 3), Unit()) >= spread.epsilon(DELTA) * (1 - 1e-9)


def test_records_held_out_are_about_the_same_persons(tmp_path: Path) -> None:
    """A person with three records is held out as a whole: an evaluation for single records costs
    that person three times its mu, though only the other account names persons."""
    with LedgerStore(tmp_path / "ledger") as store:
        store.set_budget("us", 2.0, DELTA, "add-remove")
        store.set_budget("us/held-out", 2.0, DELTA, "add-remove")
        store.open_run(
            "fit", "us", adjacency="add-remove", reserve=[(Gaussian(20.0), 1)], unit=Unit(3)
        )
        store.open_run("check", "us/held-out", adjacency="add-remove", reserve=[(Gaussian(8.0), 1)])
        found = store.spent("us/held-out")
        assert found.unit == Unit(3)
        assert found.curve_with_reserved.epsilon(DELTA) == pytest.approx(epsilon_of(3 / 8))
        with pytest.raises(BudgetError, match="a person with at most 3 records"):
            store.open_run(
                "again", "us/held-out", adjacency="add-remove", reserve=[(Gaussian(8.0), 2)]
            )
        # Whose loss a sample of records is, nobody can say: on either side
        with pytest.raises(PrivacyError, match="cannot be counted"):
            store.open_run(
                "sampled",
                "us/held-out",
                adjacency="add-remove",
                reserve=[(PoissonGaussian(9.0, 0.1), 1)],
            )
