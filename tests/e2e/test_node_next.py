"""The next month on real processes: it takes over what is public, records come and go, and no id
passes its cap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from months_stage import Months, ids_of, months_contract
from tacenda.privacy.lasting.rosters import HELD, TRAINED
from tacenda.runtime.result import load

pytestmark = pytest.mark.slow


def result_of(months: Months, name: str) -> Any:
    state = Path(months.crowd._options(name)["state"])
    return load(next((state / "results").glob("*.safetensors")))


def test_three_months_with_records_that_come_and_go(tmp_path: Path) -> None:
    """Ids 0..59, then 20..79, then 40..99. The budget is for three months."""
    months = Months(
        tmp_path,
        months_contract(3, 60, evaluation={"held_out": 0.2}, finish_mixing="exact"),
        budget=4.0,
    )
    months.run()
    first = result_of(months, "m0")
    assert "for_next" in first.released
    sides: dict[str, set[int]] = {TRAINED: set(), HELD: set()}
    for month in (1, 2):
        for name in months.names:
            months.records(name, 20 * month, 60 + 20 * month)
        said = months.next("--reason", f"month {month}")
        assert "It continues the run" in said and "uses its map again" in said
        assert months.contract.continues is not None
        months.run()
        again = result_of(months, "m0")
        # No moment was released again: one charge less than in the first month
        charges = [sum(count for _, count in r.privacy.charges) for r in (first, again)]
        assert charges == [5, 4] and again.privacy.epsilon <= 2.0
    with months.ledger("m1") as store:
        assert store.verify().ok
        rosters = store.rosters_of("m1")
        assert [len(one.ids) for one in rosters.values()] == [48, 12] * 3
        for roster in rosters.values():
            sides[roster.side] |= set(roster.ids.tolist())
        assert not sides[TRAINED] & sides[HELD]  # for ever on one side
        whole = store.spent("m1").curve.epsilon(1e-5)
    lost = {name: months.lost("m1", name) for name in ids_of("m1", 0, 100)}
    assert lost["m1-0"] < lost["m1-30"] <= 4.0 < whole
    assert max(lost.values()) <= 4.0
    # A fourth month on the same ids: those in their third month have no budget left
    said = months.next()
    months.start()
    codes = months.finish(60)
    assert set(codes.values()) == {2}
    words = months.crowd.output("m1")
    assert "used up their budget" in words and "propose the run with --size m1=" in words
