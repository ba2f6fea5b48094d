"""A claim's verdict follows from its findings alone."""

from __future__ import annotations

import pytest

from tacenda_papers.experiments import claims
from tacenda_papers.experiments.headline import Headline
from tacenda_papers.experiments.registry import CLAIMS, EXPERIMENTS
from tacenda_papers.experiments.spec import PUBLISHED, SOUND, Claim, Finding

ABOUT = Claim("A (2020)", "abstract", "It is better.", (("one", "is better"),), "The size.")


def finding(mode: str, holds: bool, sure: bool = True, claim: str = "it is better") -> Finding:
    return Finding(mode, claim, holds, f"Value {holds}.", sure)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ([finding(PUBLISHED, True), finding(SOUND, True)], "holds"),
        ([finding(SOUND, False)], "does not hold"),
        ([finding(SOUND, True), finding(SOUND, False)], "depends: 1 of 2 hold"),
        ([finding(SOUND, False, False), finding(SOUND, True, False)], "undecided"),
        ([finding(SOUND, True), finding(SOUND, True, False)], "holds (not all clear)"),
        (
            [finding(PUBLISHED, True), finding(SOUND, False)],
            "as published holds; at equal epsilon does not hold",
        ),
        ([finding(SOUND, True, claim="another statement")], "not run"),
    ],
)
def test_the_verdict_counts_what_holds(found: list[Finding], verdict: str) -> None:
    assert claims.decide(ABOUT, {"one": found}).verdict == verdict


def test_what_was_not_run_is_said() -> None:
    both = Claim("A (2020)", "abstract", "Better.", (("one", "is"), ("two", "is")), "The size.")
    decided = claims.decide(both, {"one": [finding(SOUND, True)]})
    assert decided.verdict == "holds" and decided.missing == ("two",)
    line = claims.table([decided], "Claims", str.upper).rows[0]
    assert line == [
        "Better. (abstract)",
        "holds",
        "The size. Not run at this size: two.",
        "Value True",
        "ONE, TWO",
    ]
    assert claims.decide(both, {}).verdict == "not run"


def test_many_findings_are_counted_and_shown_by_one_of_each_kind() -> None:
    found = [finding(SOUND, k % 3 > 0, k != 1) for k in range(9)]
    told = claims.decide(ABOUT, {"one": found}).figures
    count = "in 6 of 9 settings (5 clearly; 3 of the others clearly not)"
    assert told == f"{count}, for example Value True; Value False"


def test_a_stated_epsilon_holds_where_the_true_one_is_no_larger() -> None:
    rows = [
        Headline("A (2020)", "s", 1.0, 1e-5, true, True, "replace-one", "")
        for true in (0.75, 1.0, 1.01)
    ]
    assert [f.holds for f in claims.from_headlines(rows)] == [True, True, False]


def test_an_upper_bound_above_the_claim_accuses_nobody() -> None:
    (found,) = claims.from_headlines(
        [Headline("A (2020)", "s", 1.0, 1e-5, 38.5, False, "replace-one", "")]
    )
    assert not found.sure and "accounted ≤ 38.5" in found.detail
    about = Claim("A (2020)", "abstract", "Private.", (("headline", "A (2020)"),), "The size.")
    assert claims.decide(about, {"headline": [found]}).verdict == "undecided"


def test_every_claim_names_findings_that_exist() -> None:
    known = {*EXPERIMENTS, claims.HEADLINE, claims.FORMULAS}
    for claim in CLAIMS:
        assert {name for name, _ in claim.findings} <= known, claim.words
        assert claim.words.endswith(".") and claim.setting.endswith("."), claim.words
