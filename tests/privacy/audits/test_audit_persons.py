"""Audits of persons with several records: the worlds differ by all of a person's records."""

from __future__ import annotations

from typing import Any

import pytest

import tacenda as tc
from tacenda.auditing import audit
from tacenda.privacy import adjacency

A = tc.algorithms


def audited(relation: str, trials: int = 3000) -> Any:
    return audit(
        A.DPDDA(),
        privacy=tc.Privacy(4.0, 1e-5, relation),
        rounds=3,
        trials=trials,
        records_per_person=3,
        seed=1,
    )


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_a_person_is_seen_as_well_as_is_charged(relation: str) -> None:
    found = audited(relation)
    assert found.verdict == "consistent"
    assert found.mu_fit.mu == pytest.approx(found.mu_claimed, rel=0.12)


def test_noise_for_one_record_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = adjacency.records_changed
    for module in ("tacenda.privacy.adjacency", "tacenda.questions.facts"):
        monkeypatch.setattr(
            f"{module}.records_changed", lambda relation, most=1: honest(relation, 1)
        )
    assert audited("add-remove").verdict == "broken"
