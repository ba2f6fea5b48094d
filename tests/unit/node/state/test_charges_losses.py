"""Losses that are paid for beforehand: the ledger's arithmetic over several of them, and what is
refused once they are used."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from node_stage import small_contract
from tacenda.errors import BudgetError
from tacenda.privacy.accounting.events import event_from_dict
from tacenda.privacy.accounting.judge import judge
from tacenda.privacy.noise.key_chain import KeyChain
from tacenda.privacy.noise.keyed import KeyedNoise
from tacenda.problem.problem import Problem
from tacenda.questions.lattice import LatticeQueries
from tacenda_node.peer.run_plan import RunPlan, make_plan
from tacenda_node.state.charges import NodeLedger

WHITENING = {"name": "whitening", "share": 0.1}
TERMS = {"epsilon": 1.0, "delta": 1e-5, "coalition": 1}
ROUNDS = 20


@lru_cache
def plan_of(losses: int, whitened: bool = True) -> RunPlan:
    return made_plan(losses, **({"prepare": WHITENING} if whitened else {}))


def made_plan(losses: int, **more: Any) -> RunPlan:
    known = {"algorithm": {"name": "treegd"}, "privacy": TERMS}
    absence = {"policy": "continue", "losses": losses}
    return make_plan(small_contract(5, rounds=ROUNDS, absence=absence, **{**known, **more}))


def scale(plan: RunPlan) -> float:
    return float(plan.calibration.plan.scale[0])


@pytest.mark.parametrize("losses", [1, 2, 5])
def test_the_price_of_a_loss_is_that_of_the_dearest_release(losses: int) -> None:
    """mu^2 of all releases is 1: the moment has .1 of it, each of 20 rounds .045 or .05."""
    for whitened, dearest in ((True, 0.1), (False, 1 / ROUNDS)):
        ratio = scale(plan_of(losses, whitened)) / scale(plan_of(0, whitened))
        assert ratio == pytest.approx(math.sqrt(1 + losses * dearest), rel=1e-9)
    reserved = plan_of(losses).reservation("m0")  # the smallest
    assert judge(reserved).epsilon(1e-5) == pytest.approx(1.0, rel=1e-8)
    assert sum(count for _, count in reserved) == ROUNDS + 1 + losses


def test_a_round_of_two_releases_reserves_two_for_each_loss() -> None:
    own = {"name": "ipadmm", "penalty": 0.1, "inner_steps": 2}
    plan = made_plan(3, algorithm=own, privacy={"epsilon": 5.0, "delta": 1e-5})
    assert len(plan.spare) == 6
    assert judge(plan.reservation("m0")).epsilon(1e-5) == pytest.approx(5.0, rel=1e-4)
    assert judge(plan.reservation("m0")).epsilon(1e-5) <= 5.0


def test_a_contract_says_what_it_reserves() -> None:
    assert small_contract(3).absence.reserved_losses == 0
    assert small_contract(3, absence={"policy": "continue"}).absence.reserved_losses == 1
    assert small_contract(3, absence={"policy": "stop", "losses": 2}).absence.reserved_losses == 2


class Member:
    """A member's ledger through views in which rounds are made again."""

    def __init__(self, plan: RunPlan, name: str = "m0") -> None:
        self.plan, self.name = plan, name
        self.booked: dict[tuple[int, int, int], dict[str, Any]] = {}
        at = np.array([plan.contract.position(name)])
        self._charges = plan.calibration.reserved.rows(at)
        self.ledger = NodeLedger(
            self._charges,
            plan.releases,
            False,
            self._book,
            plan.booked.rows(at),
            plan.spare.rows(at),
        )
        self.view, self.round = 0, 1

    def _book(self, turn: int, call: int, event: Any, asked: bytes) -> None:
        key = (self.view, turn, call)
        assert self.booked.get(key, event.to_dict()) == event.to_dict()
        self.booked[key] = event.to_dict()

    def release(self, turn: int, *releases: int) -> None:
        """Make these releases of a round."""
        first = sum(self.plan.releases[: turn - 1])
        self.ledger.go_to(turn, releases[0])
        for which in releases:
            charge = list(self._charges.each())[first + which]
            self.ledger.charge(turn, which, charge, b"")

    def regroup(self) -> None:
        self.view += 1
        self.ledger.enter(self.view, list(self.booked.items()))

    def check_within_reservation(self) -> None:
        left = dict(self.plan.reservation(self.name))
        for event in self.booked.values():
            left[event_from_dict(event)] -= 1
        assert min(left.values()) >= 0


@pytest.mark.parametrize("losses", [1, 3])
def test_rounds_made_again_stay_within_the_reservation(losses: int) -> None:
    """Of every mix of losses in round 1, before and after the map, and in later rounds; in the end
    everything that was reserved may be spent, and not one release more."""
    rng = np.random.default_rng(losses)
    for _ in range(20):
        member = Member(plan_of(losses))
        where = sorted(int(t) for t in rng.integers(1, 6, losses))
        member.release(1, 0)
        while where and where[0] == 1 and rng.random() < 0.5:  # before the map is known
            where.pop(0)
            member.regroup()
            member.release(1, 0)
        member.release(1, 1)
        for turn in range(1, ROUNDS + 1):
            if turn > 1:
                member.release(turn, 0)
            while where and where[0] == turn:
                where.pop(0)
                member.regroup()
                member.release(turn, int(turn == 1))
                member.check_within_reservation()
        assert len(member.booked) == ROUNDS + 1 + losses
        member.check_within_reservation()
        member.regroup()
        with pytest.raises(BudgetError, match=f"reserves {losses} releases for losses"):
            member.release(3, 0)


def test_a_stop_in_a_round_made_again_charges_it_once() -> None:
    member = Member(plan_of(1))
    member.release(1, 0)
    member.regroup()
    member.release(1, 0)
    member.ledger.enter(1, list(member.booked.items()))  # killed, and started again
    member.release(1, 0, 1)
    assert len(member.booked) == 3
    member.check_within_reservation()


def test_who_has_not_released_a_round_pays_nothing_for_making_it_again() -> None:
    member = Member(plan_of(0))
    member.regroup()
    member.release(1, 0, 1)
    member.check_within_reservation()
    member.regroup()
    with pytest.raises(BudgetError, match="reserves 0 releases"):
        member.release(1, 1)


def test_the_spare_releases_of_some_losses() -> None:
    """As many as a round makes, for each loss, and never more than there are."""
    own = {"name": "ipadmm", "penalty": 0.1, "inner_steps": 2}
    plan = made_plan(3, algorithm=own, privacy={"epsilon": 5.0, "delta": 1e-5})
    at = np.zeros(1, np.int64)
    mine, spare = plan.calibration.reserved.rows(at), plan.spare.rows(at)
    ledger = NodeLedger(mine, plan.releases, True, lambda *_: None, plan.booked.rows(at), spare, 3)
    assert [len(ledger.spare_for(losses)) for losses in range(6)] == [0, 2, 4, 6, 6, 6]
    none = NodeLedger(mine, plan.releases, True, lambda *_: None)
    assert none.spare_for(2) == []


def test_the_map_is_part_of_the_question() -> None:
    """Another map, another noise and other masks: who was handed a wrong one learns nothing."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20, 3)) / 5
    problem = Problem([(X, np.sign(X[:, 0]))], classes=(-1, 1), public_sizes=[20.0])
    from tacenda.privacy.secrets.bounded import question_of
    from tacenda.questions.facts import Facts, RecordMap

    noise = KeyedNoise(KeyChain.begin(bytes(32)), "run", floating_point=False)
    here = np.zeros(1, np.int64)
    own = (problem.store, problem.sizes, here, Facts.of(problem), noise)
    asked = set()
    maps = [np.eye(3), np.eye(3) * (1 + 1e-15), np.ones(3), np.array([1.0, 1.0, 1 + 1e-15])]
    for matrix in maps:
        mapped = LatticeQueries(*own, 2.0**-20, common=True).mapped(RecordMap(matrix, 1.0))
        value = mapped.gradient(np.zeros((1, 3)), 1, 0, None, False, False)
        asked.add(question_of(value)[0])
    assert len(asked) == len(maps)
