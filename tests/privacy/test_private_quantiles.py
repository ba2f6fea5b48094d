"""Private quantiles: the distance's sensitivity by brute force, the law of the draw against exact
probabilities, the charge before the draw, and what the ledger holds afterwards."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from tacenda import data
from tacenda.data.quantiles import private_bounds, private_quantile, rank_distances
from tacenda.errors import BudgetError, InputError, LedgerWarning, PrivacyError
from tacenda.privacy.accounting.events import Gaussian, Pure
from tacenda.privacy.accounting.judge import judge
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.privacy.noise import choice as sampler
from tacenda.privacy.noise.aes import AesStream
from tacenda.privacy.secrets.door import Choice, release_choice
from tacenda.privacy.secrets.ledger import Ledger

CANDIDATES = np.array([-1.0, 0.0, 0.5, 1.0, 2.0])
VALUES = [-np.inf, -1.0, 0.0, 0.7, 1.0, np.inf, np.nan]
QUANTILES = [Fraction(1, 20), Fraction(1, 3), Fraction(19, 20)]


def by_definition(values: list[float], x: float, q: Fraction) -> Fraction:
    """How far q n is from [number below x, number up to x], in records; counted one by one."""
    present = [v for v in values if not math.isnan(v)]
    below, up_to = sum(v < x for v in present), sum(v <= x for v in present)
    target = q * len(present)
    return max(Fraction(0), below - target, target - up_to)


def neighbours(values: tuple[float, ...]) -> list[tuple[float, ...]]:
    """One record replaced (also by a missing value) or removed."""
    found = []
    for k in range(len(values)):
        found += [(*values[:k], other, *values[k + 1 :]) for other in VALUES]
        found.append((*values[:k], *values[k + 1 :]))
    return found


@pytest.mark.parametrize("q", QUANTILES)
def test_one_record_moves_every_distance_by_at_most_one_rank(q: Fraction) -> None:
    farthest = 0
    for values in itertools.combinations_with_replacement(VALUES, 3):
        here = rank_distances(np.array(values), CANDIDATES, q)
        assert [Fraction(int(d), q.denominator) for d in here] == [
            by_definition(list(values), x, q) for x in CANDIDATES
        ]
        for other in neighbours(values):
            there = rank_distances(np.array(other, float), CANDIDATES, q)
            farthest = max(farthest, int(np.abs(here - there).max()))
    # Close to the bound, and never above it: the distance of one rank is `denominator`
    assert q.denominator / 2 <= farthest <= q.denominator


def chances(distances: np.ndarray, rate: Fraction) -> list[Any]:
    with mpmath.workdps(40):
        weights = [
            mpmath.exp(-mpmath.mpf(int(d)) * rate.numerator / rate.denominator) for d in distances
        ]
        return [w / mpmath.fsum(weights) for w in weights]


def test_neighbours_differ_by_at_most_the_charged_epsilon() -> None:
    q, epsilon = Fraction(1, 3), 0.7
    rate = Fraction(epsilon) / (2 * q.denominator)
    worst = mpmath.mpf(0)
    for values in itertools.combinations_with_replacement(VALUES, 3):
        here = chances(rank_distances(np.array(values), CANDIDATES, q), rate)
        for other in neighbours(values):
            there = chances(rank_distances(np.array(other, float), CANDIDATES, q), rate)
            worst = max(worst, *(abs(mpmath.log(a / b)) for a, b in zip(here, there, strict=True)))
    assert 0.3 * epsilon < worst <= epsilon


def stream(k: int) -> AesStream:
    return AesStream(k.to_bytes(32, "big"))


def test_the_draw_follows_the_exact_probabilities() -> None:
    distances = np.array([7, 0, 2, 40, 3, 0])
    rate, draws = Fraction(1, 4), 6000
    source = stream(1)
    counts = np.bincount(
        [sampler.choose(distances, rate, source) for _ in range(draws)], minlength=6
    )
    expected = draws * np.array([float(c) for c in chances(distances, rate)])
    rare = expected < 5
    seen, due = counts[~rare], expected[~rare]
    assert counts[rare].sum() <= 10
    assert ((seen - due) ** 2 / due).sum() < chi2.isf(1e-6, len(due) - 1)


def test_the_quick_comparison_and_the_exact_one_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    distances, rate = np.arange(30) ** 2, Fraction(0.013)
    quick = [sampler.choose(distances, rate, stream(k)) for k in range(40)]
    monkeypatch.setattr(sampler, "MARGIN", 2.0)  # every comparison is settled by exact arithmetic
    assert [sampler.choose(distances, rate, stream(k)) for k in range(40)] == quick
    assert len(set(quick)) > 5


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(), max_size=8),
    st.floats(1e-300, 1e300),
    st.integers(1, 999),
    st.integers(0, 2**60),
)
def test_every_float_gives_a_candidate(
    values: list[float], epsilon: float, thousandths: int, key: int
) -> None:
    found = private_quantile(
        lambda: np.array(values, float),
        CANDIDATES,
        Fraction(thousandths, 1000),
        epsilon,
        Ledger(None),
        stream(key),
        1,
        0,
    )
    assert found in CANDIDATES


def test_a_wrong_question_is_refused() -> None:
    for distances, rate, words in (
        (np.array([0.5]), Fraction(1), "whole numbers"),
        (np.array([], int), Fraction(1), "k > 0"),
        (np.array([1]), Fraction(0), "rate must be above 0"),
    ):
        with pytest.raises(InputError, match=words):
            sampler.choose(distances, rate, stream(0))


def test_the_charge_comes_before_the_records_are_asked() -> None:
    order = []

    def asked() -> np.ndarray:
        order.append("asked")
        return np.array([0, 1])

    booked = Ledger(None, lambda turn, call, charge: order.append((turn, call, charge.event(0))))
    release_choice(Choice(asked, 1), 0.25, booked, stream(0), 3, 1)
    assert order == [(3, 1, Pure(0.25)), "asked"]

    def refuse(*_: Any) -> None:
        raise BudgetError("spent")

    order.clear()
    with pytest.raises(BudgetError):
        release_choice(Choice(asked, 1), 0.25, Ledger(None, refuse), stream(0), 1, 0)
    for bad in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(InputError, match="epsilon"):
            release_choice(Choice(asked, 1), bad, Ledger(None), stream(0), 1, 0)
    assert order == []


# ---- the whole query

N = 20_000
rng = np.random.default_rng(11)
TABLE = {
    "pay": np.exp(rng.normal(10, 0.6, N)),
    "year": rng.integers(1950, 2010, N).astype(float),
    "y": rng.choice(["a", "b"], N).astype(object),
}


def schema(**label: Any) -> data.Schema:
    """What a draft would say, with bounds that must not be looked at."""
    columns = [
        {"kind": "numeric", "name": "pay", "low": -5, "high": 7, "confirmed": False, "impute": 0},
        {"kind": "numeric", "name": "year", "low": 0, "high": 1, "confirmed": False},
    ]
    kind = label or {"classes": ["a", "b"]}
    return data.Schema.build(columns=columns, label={"name": "y", **kind})


def test_bounds_lie_near_the_quantiles_and_are_booked(tmp_path: Path) -> None:
    book = tmp_path / "l.ledger"
    got = private_bounds(
        schema(), TABLE, ledger=book, dataset="us", epsilon=1.0, delta=1e-5,
        within={"year": (1900, 2100)},
    )  # fmt: skip
    for column in got.schema.columns:
        ranks = [np.mean(TABLE[column.name] < x) for x in (column.low, column.high)]
        slack = 2 * got.rank_error / N + 0.02  # candidates are steps, and the chance is 95 %
        assert abs(ranks[0] - got.tail) < slack and abs(ranks[1] - 1 + got.tail) < slack
        assert column.confirmed and column.source.startswith("private ")
    pay = got.schema.columns[0]
    assert pay.low <= pay.impute <= pay.high
    assert got.schema.unconfirmed == () and got.columns == ("pay", "year")
    with LedgerStore(book) as store:
        spent = store.spent("us")
        assert spent.events == [(Pure(got.epsilon_each), 4)] and spent.reserved == []
        assert [run["open"] for run in store.runs("us")] == [False]
        assert (store.budget("us").epsilon, store.budget("us").delta) == (1.0, 1e-5)
        # The fit that is proposed fits; one with the whole budget does not
        store.open_run("fit", "us")
        whole = Gaussian(1 / 0.26805)
        with pytest.raises(BudgetError):
            store.reserve("fit", [(whole, 1)])
        left = Gaussian(1 / (0.26805 * math.sqrt(0.98)))
        assert judge([(left, 1)]).epsilon(1e-5) == pytest.approx(got.epsilon_left, rel=1e-3)
        store.reserve("fit", [(left, 1)])
    assert got.epsilon_left > 0.98 and got.epsilon < 0.12
    # The budget is full now: nothing more is booked, nothing drawn, and the run is not left open
    with pytest.raises(BudgetError, match="'us'"):
        private_bounds(schema(), TABLE, ledger=book, dataset="us")
    with LedgerStore(book) as store:
        assert len(store.spent("us").events) == 1
        assert [r["run"] for r in store.runs("us") if r["open"]] == ["fit"]


def test_candidates_are_public_round_and_ascending() -> None:
    from tacenda.data.quantiles import _candidates

    for fields, within in itertools.product(
        ({}, {"transform": "log1p"}),
        (None, (1850, 2026), (0.0, 0.1), (-0.5, 1e12), (3.0, math.nextafter(3.0, 4.0))),
    ):
        column = data.NumericColumn(name="x", low=0, high=1, **fields)
        found = _candidates(column, within)
        assert (np.diff(found) > 0).all() and len(found) >= 2
        if within is None:
            least = 0.0 if fields else -1e9
            assert (found[0], found[-1]) == (least, 1e9)
        else:
            assert (found[0], found[-1]) == within and len(found) <= 202
    assert (
        _candidates(column.model_copy(update={"transform": "clip"}), (1850, 2026)) % 1 == 0
    ).all()


def test_a_pure_budget_and_a_number_to_predict(tmp_path: Path) -> None:
    table = {**TABLE, "y": TABLE["pay"] / 2}
    got = private_bounds(
        schema(low=-1, high=1, confirmed=False), table, ledger=tmp_path / "l", dataset="us",
        epsilon=4.0, delta=0.0, share=0.5, columns=["y"],
    )  # fmt: skip
    assert got.epsilon_each == 1.0 and got.epsilon == 2.0 and got.epsilon_left == 2.0
    assert got.schema.label.confirmed and got.schema.label.low < np.median(table["y"])
    assert got.schema.unconfirmed == ("pay", "year")
    # A label has room beyond the two quantiles: half of their distance, on either side
    low, high = np.quantile(table["y"], [got.tail, 1 - got.tail])
    assert got.schema.label.high > high + 0.3 * (high - low) and got.schema.label.low < low


def test_the_share_is_that_of_the_squares() -> None:
    from tacenda.data.quantiles import _price

    for epsilon, delta, count in ((1.0, 1e-5, 6), (0.5, 1e-6, 12)):
        each, left = _price(epsilon, delta, 0.02, count, "replace-one")
        z = 1 / math.sqrt(2)
        low, high = 1e-3, 1e3
        for _ in range(60):  # the Gaussian of that epsilon, by bisection on its curve
            z = math.sqrt(low * high)
            low, high = (z, high) if judge([(Gaussian(z), 1)]).epsilon(delta) > left else (low, z)
        assert judge([(Gaussian(z), 1), (Pure(each), count)]).delta(epsilon) <= delta * (1 + 1e-6)
        assert left > 0.985 * epsilon


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"epsilon": None}, InputError, "epsilon and delta must be given"),
        ({"adjacency": "add-remove"}, InputError, "tail must be given under add-remove"),
        ({"epsilon": 1e-3}, PrivacyError, "nothing was spent.*fewer columns"),
        ({"columns": ["y"]}, InputError, "columns must be one of"),
        ({"within": {"z": (0, 1)}}, InputError, r"within names \['z'\]"),
        ({"within": {"pay": (1, 1)}}, InputError, "low below high"),
        ({"share": 1.0}, InputError, "share"),
        ({"tail": 0.5}, InputError, "tail"),
    ],
)
def test_refusals_spend_nothing(
    tmp_path: Path, changes: dict[str, Any], error: type[Exception], words: str
) -> None:
    fields: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, **changes}
    with pytest.raises(error, match=words):
        private_bounds(schema(), TABLE, ledger=tmp_path / "l", dataset="us", **fields)
    with LedgerStore(tmp_path / "l") as store:
        assert store.datasets() == []


def test_unreadable_numbers_are_refused_before_anything_is_charged(tmp_path: Path) -> None:
    table = {**TABLE, "pay": np.array(["1", "x"] * (N // 2), object)}
    with pytest.raises(InputError, match="'pay' must be numeric, but record 2"):
        private_bounds(
            schema(), table, ledger=tmp_path / "l", dataset="us", epsilon=1.0, delta=1e-5
        )
    assert not (tmp_path / "l").exists()
    confirmed = schema().confirmed()
    with pytest.raises(InputError, match="no number whose bounds are not confirmed"):
        private_bounds(confirmed, TABLE, ledger=tmp_path / "l", dataset="us")


def test_the_notes_of_a_draft_do_not_come_along(tmp_path: Path) -> None:
    draft = data.draft_schema({**TABLE, "y": ["a", "b"] * (N // 2)}, label="y")
    assert draft.notes
    given: dict[str, Any] = {"dataset": "us", "epsilon": 4.0, "delta": 1e-5, "share": 0.5}
    got = private_bounds(draft, TABLE, ledger=tmp_path / "l", **given)
    assert got.schema.notes == ""
    own = data.Schema.build(**{**dict(draft), "notes": "of the second survey"})
    got = private_bounds(own, TABLE, ledger=tmp_path / "other", **given)
    assert got.schema.notes == "of the second survey"


def test_no_two_choices_share_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = []

    def noted(choice: Any, epsilon: float, ledger: Any, stream: AesStream, *place: int) -> int:
        keys.append(stream.key)
        return release_choice(choice, epsilon, ledger, stream, *place)

    monkeypatch.setattr("tacenda.data.quantiles.release_choice", noted)
    private_bounds(schema(), TABLE, ledger=tmp_path / "l", dataset="us", epsilon=1.0, delta=1e-5)
    assert len(keys) == 4 == len(set(keys))


def test_a_new_name_in_a_ledger_with_others_is_said(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    given: dict[str, Any] = {"ledger": tmp_path / "l", "epsilon": 4.0, "delta": 1e-5}
    for _ in range(2):  # the first name, and the same again
        private_bounds(schema(), TABLE, dataset="us", columns=["pay"], **given)
    assert not [w for w in recwarn if issubclass(w.category, LedgerWarning)]
    with pytest.warns(LedgerWarning, match="'them' is new to the ledger, which holds 'us'"):
        private_bounds(schema(), TABLE, dataset="them", columns=["pay"], **given)
