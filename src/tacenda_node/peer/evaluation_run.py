"""The closing run: all members evaluate the finished model on the records that they held out.

It follows the training inside the same `tacenda node run`, as a run of one round with a contract,
a state folder and a reservation of its own:

    contract       derived by every member from the one that all signed and from the model, whose
                   digest is in it: members with different models do not meet, and read in which
                   field they differ
    records        those that were held out; the training never saw them
    state          `evaluation` inside the training's state folder, with keys of its own
    reservation    in the account NAME/held-out, before round 1 of the training

Who was absent when the training ended is not in it. It waits for a member that stays away, as long
as the contract says, and can be started again. A member that does not come back leaves by an
amendment. The others then vote, each saying whether it has released its counts:

    nobody has      they make the one round without who has left, at the reserved price
    somebody has    the evaluation ends without a result, because a second release would have to be
                    paid again; nothing stays reserved but what was released

It ends in the same way where the sum of the counts is beyond what honest members can release.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from tacenda.errors import StateError
from tacenda.evaluation.private import PrivateEvaluation
from tacenda.evaluation.score_bins import score_edges, score_spread
from tacenda.evaluation.units import Units
from tacenda.runtime.block import ImpossibleSum
from tacenda.runtime.lasting_run import data_digest
from tacenda.runtime.result import RunResult
from tacenda_node.identity.contract import Contract
from tacenda_node.peer.evaluation_plan import (
    IMPOSSIBLE,
    TITLE,
    closing_contract,
    closing_plan,
    evaluated_model,
    is_possible,
    model_digest,
    offsets_of_contract,
    statistic_of,
)
from tacenda_node.peer.member import Member
from tacenda_node.peer.member_records import MemberRecords
from tacenda_node.peer.peer import Peer
from tacenda_node.peer.run_plan import RunPlan, make_plan
from tacenda_node.peer.session import Session
from tacenda_node.peer.watchdog import EvaluationEnded
from tacenda_node.state.accounts import claim_held_out, require_covered
from tacenda_node.state.database import Key, NodeState
from tacenda_node.state.spending import Spending
from tacenda_node.watch.observer import EVALUATION_STATE, Observer

LEAVE_TAKEN = "all finished"  # note: no neighbour needs a message of this run any more
BOOKED_AS = "booked as"  # note: the run of the lasting ledger to which this state's charges belong
ENDED = "evaluation ended"  # note: why it ended without a result


@dataclass(frozen=True)
class Evaluated:
    """What the closing run found, and what it really cost."""

    found: PrivateEvaluation
    model: str


@dataclass(frozen=True)
class FinishedModel:
    """What the closing run's contract says of the model: its digest, and the bins that follow from
    where its scores lie."""

    digest: str
    edges: tuple[float, ...]

    @classmethod
    def of(cls, result: RunResult) -> FinishedModel:
        return cls(model_digest(result.models[0]), score_edges(score_spread(result)))


class EvaluationRun:
    """`with EvaluationRun(...)` around the training: opens the closing run's state before round 1.
    Then `reserve`, and after the training `run`; `give_back` for a member that leaves."""

    def __init__(self, member: Member) -> None:
        self._member, self._options, self._contract = member, member.options, member.contract
        self._identity, self._log = member.identity, member.log
        self.plan = closing_plan(member.contract)
        self._state = NodeState(member.options.state / EVALUATION_STATE)
        self._spending: Spending | None = None

    def __enter__(self) -> EvaluationRun:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._spending is not None:
            self._spending.__exit__(kind, error, trace)
        self._state.close()

    def claim(self, ledger: Path, account: str, records: MemberRecords) -> list[str]:
        """Bind the state to the held-out records, and find their account; what to tell the
        operator."""
        assert records.held_out is not None
        self._ledger, name, self._records = ledger, self._identity.name, records.held_out
        self._roster = None if records.chosen is None else records.chosen.rosters[1]
        if self._records.loss.stacked:
            self._records = self._records.of_records()
        run = f"{self._contract.run_id()}{TITLE}"
        self._key = self._state.bind(run, name, data_digest(self._records))
        self.account, notes = claim_held_out(
            ledger,
            account,
            records.trained,
            records.held_out,
            named=self._options.dataset is not None,
        )
        return notes

    def _booked(self, plan: RunPlan) -> Spending:
        return Spending(
            self._ledger,
            plan,
            self._identity.name,
            self._key,
            self.account,
            rehearsal=self._options.rehearsal,
            closes=self._contract,
            roster=self._roster,
        )

    def require_covered(self, account: str, training: Spending, plan: RunPlan) -> None:
        """Refuse, before anything is reserved, a run that could not pay for its evaluation."""
        name, mine = self._identity.name, self._booked(self.plan)
        require_covered(
            self._ledger,
            account,
            self.account,
            (training.run, plan.unit, plan.reservation(name)),
            (mine.run, self.plan.unit, self.plan.reservation(name)),
            None if self._roster is None else self._roster.ids,
        )

    def reserve(self) -> None:
        """Set aside in the ledger what the evaluation costs."""
        self._spending = self._booked(self.plan).__enter__()
        self._state.keep_mark(self._spending.mark)

    def give_back(self) -> None:
        """Free what was reserved and will not be needed, once what was released is booked, also
        before a kill; destroy the keys."""
        spending = self._spending
        if spending is None:
            return
        self._state.destroy_keys()
        booked_as = self._state.noted(BOOKED_AS, spending.run)
        self._settle_what_is_there(spending, final=True, run=str(booked_as))
        if booked_as != spending.run:  # the reservation for all members is not needed
            spending.give_back()

    def texts(self, model: FinishedModel, absent: frozenset[str]) -> list[Contract]:
        """The closing run's contract, as derived from each text of the contract so far; the one in
        force is the last."""
        amendments = self._member.amendments
        noise = self.plan.contract.algorithm.model_dump()["noise"]
        return [
            closing_contract(text, model.digest, noise, absent, model.edges)
            for text in [*amendments.former, amendments.current]
        ]

    def run(self, result: RunResult, absent: frozenset[str], observer: Observer) -> Evaluated | str:
        """Evaluate the model with the others; started again, it goes on where it stopped. In words,
        why there is no evaluation, where a member has left it."""
        if self._state.noted(ENDED):
            return str(self._state.noted(ENDED))
        name, model = self._identity.name, evaluated_model(self._contract, result.models[0])
        finished = FinishedModel.of(result)
        plan = make_plan(self.texts(finished, absent)[-1])
        if absent:  # fewer members hide each other less: another noise, and another reservation
            assert self._spending is not None
            # What was charged under the first one, before this start, stays spent
            booked = self._booked(plan)
            before = charged_otherwise(
                self._state.charges(), self._state.noted(BOOKED_AS), booked.run
            )
            if before:
                self._spending.settle(before, final=False)
            self._spending.give_back()
            self._spending.__exit__(None, None, None)
            self._spending = booked.__enter__()
        spending = self._spending
        assert spending is not None
        self._state.note(BOOKED_AS, spending.run)
        amendments = self._member.amendments
        noise = plan.contract.algorithm.model_dump()["noise"]

        def derived(text: Contract) -> Contract:
            session.handshake.closes |= {text.hash()}
            return closing_contract(text, finished.digest, noise, absent, finished.edges)

        texts = self.texts(finished, absent)
        session = Session(self._member, plan, self._state, texts, derived)
        session.handshake.closes = frozenset(
            text.hash() for text in [*amendments.former, amendments.current]
        )
        session.show_state(self._key)
        self._log.info("evaluation begins", message=f"of the model {finished.digest[:16]}")
        with session.display.open():
            observer.watch(session.display, session.exchange)
            try:
                peer = Peer(
                    plan,
                    name,
                    self._records,
                    self._state,
                    session.exchange,
                    session.handshake.edges,
                    start=model,
                )
                peer.restore(session.agreement.absent_in)
                if peer.round < plan.contract.rounds:
                    spending.require_open()
                session.meet(peer)
                try:
                    session.run(peer, spending.anew, self._member.policy)
                except ImpossibleSum:
                    raise EvaluationEnded(IMPOSSIBLE) from None
                self._state.destroy_keys()
                found = peer.result(session.display.seconds)
                total, noise = found.released["total"], float(found.released["noise"][0])
                if not is_possible(plan, session.exchange.absent, total, noise):
                    raise EvaluationEnded(IMPOSSIBLE)
                spending.settle(self._state.charges(), final=True)
                if not self._state.noted(LEAVE_TAKEN):
                    missing = session.take_leave(self._contract.absence.limit_seconds)
                    self._state.note(LEAVE_TAKEN, not missing)
            except EvaluationEnded as ended:
                self._state.destroy_keys()
                spending.settle(self._state.charges(), final=True)
                session.take_leave(self._contract.absence.limit_seconds)
                self._state.note(ENDED, str(ended))
                self._log.warning("evaluation ended", message=str(ended))
                return str(ended)
            except BaseException:
                self._settle_what_is_there(spending)
                raise
            finally:
                session.stop()
        read = self._read(found, plan, finished, session.exchange.absent)
        offsets = offsets_of_contract(self._contract, model)
        return Evaluated(replace(read, offsets=offsets), finished.digest)

    def _settle_what_is_there(
        self, spending: Spending, *, final: bool = False, run: str | None = None
    ) -> None:
        try:
            spending.settle(self._state.charges(), final=final, run=run)
        except (StateError, sqlite3.Error) as failed:
            self._log.warning("spending not settled yet", reason=type(failed).__name__)

    def _read(
        self, found: RunResult, plan: RunPlan, model: FinishedModel, left: frozenset[str]
    ) -> PrivateEvaluation:
        """Measures and intervals: from released values alone. left: who took no part in the end."""

        contract, terms = self._contract, self._contract.evaluation
        assert terms is not None
        public = contract.privacy.adjacency == "replace-one"
        members = [member for member in plan.contract.members if member.name not in left]
        sizes = [member.size for member in members]
        return PrivateEvaluation(
            statistic_of(contract, model.edges),
            found.released["total"],
            float(found.released["noise"][0]),
            sum(sizes) if public else None,
            found.privacy,
            None if contract.problem.classes is None else tuple(contract.problem.classes),
            Units.of(self._member.schema.label),
            terms.confidence,
            {
                "name": contract.title,
                "data": f"{terms.held_out:.3g} of each of {len(sizes)} members' records, held out",
                "contract": contract.hash(),
                "model": model.digest,
                "members": [member.name for member in members],
                "held_out": terms.held_out,
            },
        )


def charged_otherwise(
    charges: list[tuple[Key, dict[str, Any]]], booked_as: str | None, run: str
) -> list[tuple[Key, dict[str, Any]]]:
    """What a state has charged to another run of the lasting ledger than `run`. Which one it was is
    noted before anything is released; two runs may charge equal events."""
    return charges if booked_as is not None and booked_as != run else []
