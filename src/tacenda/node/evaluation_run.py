"""The closing run: all members evaluate the finished model on the records that they held out.

It follows the training inside the same `tacenda node run`, as a run of one round with a contract,
a state folder and a reservation of its own:

    contract       derived by every member from the one that all signed and from the model, whose
                   digest is in it: members with different models do not meet, and read in which
                   field they differ
    records        those that were held out; the training never saw them
    state          `evaluation` inside the training's state folder, with a noise key of its own
    reservation    in the account NAME/held-out, before round 1 of the training

Who was absent when the training ended is not in it. Nobody can be left out later: the one round has
one noise, and a second attempt with other members would have to be paid again. So it waits for a
member that stays away, as long as the contract says, and can be started again.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from tacenda._types import Array
from tacenda.errors import InputError, StateError, UnsupportedError
from tacenda.evaluation.measures import PROBABILITIES
from tacenda.node.identity.certificates import Identity
from tacenda.node.identity.contract import Contract
from tacenda.node.member_records import MemberRecords
from tacenda.node.membership.amendments import Amendments
from tacenda.node.observer import EVALUATION_STATE, Observer
from tacenda.node.peer import Peer
from tacenda.node.policy import PolicyFile
from tacenda.node.run_plan import RunPlan, make_plan
from tacenda.node.session import Session
from tacenda.node.settings import NodeSettings
from tacenda.node.state.accounts import claim_held_out, require_covered
from tacenda.node.state.database import NodeState
from tacenda.node.state.spending import Spending
from tacenda.node.watchdog import Signals
from tacenda.problem import losses
from tacenda.runtime.lasting_run import data_digest
from tacenda.runtime.result import RunResult

if TYPE_CHECKING:
    from tacenda.evaluation.private import PrivateEvaluation
    from tacenda.problem.statistics import Statistic

LEAVE_TAKEN = "all finished"  # note: no neighbour needs a message of this run any more
UNKNOWN = "0" * 64  # in the place of the model's digest, before there is a model
TITLE = ": evaluation"
# What a closing run does not take over from its contract
_OF_TRAINING = (
    "evaluation",
    "amendment",
    "follows",
    "left",
    "prepare",
    "output",
    "mixing",
    "finish_mixing",
)


def model_digest(model: Array) -> str:
    """SHA-256 of a model, the same on every machine."""
    plain = np.ascontiguousarray(model, "<f8").reshape(-1)
    return hashlib.sha256(f"model of {len(plain)} numbers\n".encode() + plain.tobytes()).hexdigest()


def statistic_of(contract: Contract) -> Statistic:
    """What is asked of every held-out record, from the contract alone."""
    from tacenda.problem.counts import ClassCounts, ValueSums

    terms, problem = contract.evaluation, contract.problem
    assert terms is not None
    loss = losses.by_name(problem.loss)
    if problem.classes is None:
        if terms.low is None or terms.high is None:
            raise InputError(
                "contract field evaluation.low: for a label that is a number the contract must "
                "hold its bounds, low and high; `tacenda consortium draft` takes them from the "
                "schema."
            )
        return ValueSums(terms.low, terms.high, terms.residual_bound)
    given = {
        "edges": None if terms.edges is None else tuple(terms.edges),
        "log_loss_bound": terms.log_loss_bound,
    }
    known = {name: value for name, value in given.items() if value is not None}
    chances = loss.name in PROBABILITIES
    return ClassCounts(len(problem.classes), probabilities=chances, **known)


def closing_contract(
    contract: Contract, model: str, noise: str, absent: Iterable[str] = ()
) -> Contract:
    """The text of the closing run, the same at every member. model: the digest of what it
    evaluates; absent: who took no part in the training's end."""
    terms, gone = contract.evaluation, frozenset(absent)
    assert terms is not None
    plain = {k: v for k, v in contract.to_plain().items() if k not in _OF_TRAINING}
    room = 200 - len(TITLE)
    sizes = {name: contract.held_out_size(name) for name in contract.names}
    return Contract.build(
        {
            **plain,
            "title": f"{contract.title[:room]}{TITLE}",
            "rounds": 1,
            "algorithm": {
                "name": "statistic",
                "statistic": statistic_of(contract).to_plain(),
                "noise": noise,
            },
            "privacy": {
                **plain["privacy"],
                "epsilon": terms.epsilon or contract.privacy.epsilon,
                "delta": terms.delta or contract.privacy.delta,
            },
            "absence": {**plain["absence"], "policy": "stop"},
            "edges": [edge for edge in plain["edges"] if not gone & set(edge)],
            "members": [
                {**member, "size": sizes[member["name"]]}
                for member in plain["members"]
                if member["name"] not in gone
            ],
            "evaluates": {"run": contract.run_id(), "model": model},
        }
    )


def closing_plan(contract: Contract, model: str = UNKNOWN, absent: Iterable[str] = ()) -> RunPlan:
    """The public half of the closing run: under masks where the contract says how many members may
    combine what they know and the graph allows it, otherwise with noise that needs no trust."""
    plans = ["masked", "independent"]
    if contract.privacy.coalition is None:
        plans = ["independent"]
    while True:
        try:
            return make_plan(closing_contract(contract, model, plans[0], absent))
        except UnsupportedError:
            plans.pop(0)
            if not plans:
                raise


@dataclass(frozen=True)
class Evaluated:
    """What the closing run found, and what it really cost."""

    found: PrivateEvaluation
    model: str


class EvaluationRun:
    """`with EvaluationRun(...)` around the training: opens the closing run's state before round 1.
    Then `reserve`, and after the training `run`; `give_back` for a member that leaves."""

    def __init__(
        self,
        options: NodeSettings,
        contract: Contract,
        identity: Identity,
        log: Any,
        stop: Signals,
        policy: PolicyFile | None,
    ) -> None:
        self._options, self._contract, self._identity = options, contract, identity
        self._log, self._stop, self._policy = log, stop, policy
        self.plan = closing_plan(contract)
        self._state = NodeState(options.state / EVALUATION_STATE)
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
        self._records, self._ledger, name = records.held_out, ledger, self._identity.name
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
            self._records,
            self._key,
            self.account,
            rehearsal=self._options.rehearsal,
            closes=self._contract,
        )

    def require_covered(self, account: str, training: Spending, plan: RunPlan) -> None:
        """Refuse, before anything is reserved, a run that could not pay for its evaluation."""
        name, mine = self._identity.name, self._booked(self.plan)
        require_covered(
            self._ledger,
            account,
            self.account,
            (training.run, plan.events(name)),
            (mine.run, self.plan.events(name)),
        )

    def reserve(self) -> None:
        """Set aside in the ledger what the evaluation costs."""
        self._spending = self._booked(self.plan).__enter__()
        self._state.keep_mark(self._spending.mark)

    def give_back(self) -> None:
        """Free what was reserved and will not be needed."""
        if self._spending is not None:
            self._spending.settle(self._state.charges(), final=True)

    def texts(self, amendments: Amendments, model: str, absent: frozenset[str]) -> list[Contract]:
        """The closing run's contract, as derived from each text of the contract so far; the one in
        force is the last."""
        noise = self.plan.contract.algorithm.model_dump()["noise"]
        return [
            closing_contract(text, model, noise, absent)
            for text in [*amendments.former, amendments.current]
        ]

    def run(
        self, result: RunResult, amendments: Amendments, absent: frozenset[str], observer: Observer
    ) -> Evaluated:
        """Evaluate the model with the others; started again, it goes on where it stopped."""
        name, model = self._identity.name, np.asarray(result.models[0], float).reshape(-1)
        digest = model_digest(model)
        plan = make_plan(self.texts(amendments, digest, absent)[-1])
        if absent:  # fewer members hide each other less: another noise, and another reservation
            self.give_back()
            assert self._spending is not None
            self._spending.__exit__(None, None, None)
            self._spending = self._booked(plan).__enter__()
        spending = self._spending
        assert spending is not None
        *former, in_force = self.texts(amendments, digest, absent)
        session = Session(
            self._options,
            plan,
            self._identity,
            self._state,
            self._log,
            self._stop,
            in_force,
            former,
        )
        session.handshake.closes = frozenset(
            text.hash() for text in [*amendments.former, amendments.current]
        )
        session.show_state(self._key)
        self._log.info("evaluation begins", message=f"of the model {digest[:16]}")
        with session.display.open():
            observer.watch(session.display, session.exchange)
            try:
                edges = session.handshake.edges
                peer = Peer(
                    plan,
                    name,
                    self._records,
                    self._key,
                    self._state,
                    session.exchange,
                    edges,
                    start=model,
                )
                peer.restore()
                if peer.round < plan.contract.rounds:
                    spending.require_open()
                session.meet(peer)
                session.run(peer, spending.anew, self._policy)
                found = peer.result(session.display.seconds)
                spending.settle(self._state.charges(), final=True)
                if not self._state.noted(LEAVE_TAKEN):
                    missing = session.take_leave(self._contract.absence.limit_seconds)
                    self._state.note(LEAVE_TAKEN, not missing)
            except BaseException:
                self._settle_what_is_there(spending)
                raise
            finally:
                session.stop()
        return Evaluated(self._read(found, plan, digest), digest)

    def _settle_what_is_there(self, spending: Spending) -> None:
        try:
            spending.settle(self._state.charges(), final=False)
        except (StateError, sqlite3.Error) as failed:
            self._log.warning("spending not settled yet", reason=type(failed).__name__)

    def _read(self, found: RunResult, plan: RunPlan, digest: str) -> PrivateEvaluation:
        """Measures and intervals: from released values alone."""
        from tacenda.evaluation.private import PrivateEvaluation

        contract, terms = self._contract, self._contract.evaluation
        assert terms is not None
        public = contract.privacy.adjacency == "replace-one"
        sizes = [member.size for member in plan.contract.members]
        return PrivateEvaluation(
            statistic_of(contract),
            found.released["total"],
            float(found.released["noise"][0]),
            sum(sizes) if public else None,
            found.privacy,
            None if contract.problem.classes is None else tuple(contract.problem.classes),
            level=terms.confidence,
            about={
                "title": contract.title,
                "contract": contract.hash(),
                "model": digest,
                "members": plan.contract.names,
                "held_out": terms.held_out,
            },
        )
