"""Which of a member's records take part in a run, and on which side, by the ids that the schema
declares (its `person`).

Months of entry and exit are public where one record is replaced by another (replace-one): then
neighbouring data sets have the same ids, and differ in values. Where somebody is there or not
(add-remove), who takes part follows from each id by itself, so that nobody else's part in it
changes. In both, an id whose budget does not cover the run takes no part, and one that was trained
on, or held out, stays on its side for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tacenda._types import Array, Flags
from tacenda.data.holding_out import held_out_by_coin
from tacenda.errors import InputError
from tacenda.privacy.lasting.accounts import HELD_OUT
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.privacy.lasting.rosters import HELD, TRAINED, Roster, first_seen, sides_of
from tacenda.privacy.noise.held_out import keyed_ids
from tacenda_node.identity.contract import Contract
from tacenda_node.peer.evaluation_plan import closing_plan
from tacenda_node.peer.run_plan import RunPlan
from tacenda_node.state.spending import is_evaluation_of, is_run_of


@dataclass(frozen=True, eq=False)
class TakingPart:
    """(records,) flags, and what is noted in the ledger. words: for the operator alone."""

    trained: Flags
    held_out: Flags
    words: str
    rosters: tuple[Roster, Roster]


@dataclass(frozen=True)
class ByIds:
    """A member's account in which every id has a budget of its own."""

    ledger: Path
    account: str
    plan: RunPlan
    name: str

    @classmethod
    def of(cls, ledger: Path | None, dataset: str | None, plan: RunPlan, name: str) -> ByIds | None:
        """None where ids are not declared, or nobody has named the account to which they belong:
        then a run is charged to the whole account."""
        contract = plan.contract
        if contract.privacy.records_per_person is None or not contract.has_training:
            return None
        if dataset is None or ledger is None:
            return None
        return cls(ledger, dataset, plan, name)

    def choose(self, persons: Array, key: bytes) -> TakingPart:
        """persons: (records,) each one's id. key: of the coins, the ledger's."""
        names, whose = np.unique(persons, return_inverse=True)
        with LedgerStore(self.ledger) as store:
            ids = store.hashed(names)
            known = self._known(store, ids)
            trained, held, words = known or self._choose(store, ids, names, whose, key)
        rosters = (Roster(ids[trained], TRAINED), Roster(ids[held], HELD))
        return TakingPart(trained[whose], held[whose], words, rosters)

    def _known(self, store: LedgerStore, ids: Array) -> tuple[Flags, Flags, str] | None:
        """As this contract's run was begun before."""
        trained = held = None
        for run, roster in store.rosters_of(self.account).items():
            if is_run_of(run, self.plan.contract, self.name):
                trained = np.isin(ids, roster.ids)
            if is_evaluation_of(run, self.plan.contract, self.name):
                held = np.isin(ids, roster.ids)
        if trained is None:
            return None
        return trained, np.zeros(len(ids), bool) if held is None else held, ""

    def _choose(
        self, store: LedgerStore, ids: Array, names: Array, whose: Array, key: bytes
    ) -> tuple[Flags, Flags, str]:
        contract, rosters = self.plan.contract, list(store.rosters_of(self.account).values())
        was_trained, was_held = sides_of(rosters, ids)
        asked = asked_for(contract, first_seen(rosters, ids))
        events = [(self.plan.unit, self.plan.reservation(self.name))]
        fits = fits_held = store.covered(self.account, ids, events)
        if contract.evaluation is not None:
            closing = closing_plan(contract)
            events = [(closing.unit, closing.reservation(self.name))]
            fits_held = store.covered(f"{self.account}{HELD_OUT}", ids, events)
        used_up = asked & ~((fits & ~was_held) | (fits_held & ~was_trained))
        new = asked & ~was_trained & ~was_held & fits & fits_held
        trained = asked & was_trained & ~was_held & fits
        held = asked & was_held & ~was_trained & fits_held
        if contract.evaluation is None:
            held[:] = False
        words = (
            f"{int((trained | held | new).sum())} of {len(ids)} ids take part; "
            f"{int(used_up.sum())} have used up their budget, and {int((~asked).sum())} are not "
            "those that the contract asks for"
        )
        self._check_size(int((trained | held | new)[whose].sum()), len(whose), words)
        if contract.evaluation is None:
            trained |= new
        else:
            drawn = np.zeros(len(ids), bool)
            drawn[new] = self._drawn(names[new], int(held.sum()), int(trained.sum()), key)
            held, trained = held | (new & drawn), trained | (new & ~drawn)
        return trained, held, words

    def _drawn(self, names: Array, held: int, trained: int, key: bytes) -> Flags:
        """Which new ids are held out, beside those that are on either side."""
        contract = self.plan.contract
        assert contract.evaluation is not None
        if contract.privacy.adjacency == "add-remove":
            return held_out_by_coin(names, contract.evaluation.held_out, key)
        wanted = contract.held_out_size(self.name) - held
        if not 0 <= wanted <= len(names):
            raise InputError(
                f"contract field evaluation.held_out: of {len(names) + held + trained} ids that "
                f"take part {held} were held out before and {trained} were trained on, and an id "
                f"never changes its side. The contract holds out "
                f"{contract.held_out_size(self.name)} of {contract.member(self.name).size}; agree "
                f"on a share that gives {held} to {held + len(names)}, or on other records."
            )
        return keyed_ids(key, names, wanted)

    def _check_size(self, found: int, there: int, words: str) -> None:
        contract = self.plan.contract
        size = contract.member(self.name).size
        if contract.privacy.adjacency == "replace-one" and found != size:
            why = f" ({words})" if words else ""
            raise InputError(
                f"contract field members.{self.name}.size is {size}, and {found} of {there} "
                f"records take part{why}; under replace-one the number is public and must agree: "
                f"propose the run with --size {self.name}={found}, or correct the data."
            )
        if not found:
            raise InputError(f"No record of {self.name} takes part: {words}.")


def asked_for(contract: Contract, seen: Array) -> Flags:
    """(n,) whether the contract asks for ids that first took part so many trainings ago, 0 in
    none."""
    terms = contract.continues
    asked = np.ones(len(seen), bool)
    if terms is None:
        return asked
    if terms.records != "all":
        asked = (seen == 0) == (terms.records == "new")
    return asked if terms.window is None else asked & (seen < terms.window)
