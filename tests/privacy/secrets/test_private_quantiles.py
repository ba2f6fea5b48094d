"""Private quantiles: the distance's sensitivity by brute force, the law of the draw against exact
probabilities, the charge before the draw, what the ledger holds afterwards, and where the bounds
are for columns of all kinds."""

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
from scipy.special import ndtri
from scipy.stats import chi2

from tacenda import data
from tacenda.data.encoding import as_read
from tacenda.data.quantile_search import Price, Search, lower_tail, private_cell, rank_distances
from tacenda.data.quantiles import private_bounds
from tacenda.errors import BudgetError, InputError, LedgerWarning, PrivacyError
from tacenda.privacy.accounting.events import Gaussian, Pure
from tacenda.privacy.accounting.judge import judge
from tacenda.privacy.lasting.fingerprints import marks_as_read
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.privacy.noise import choice as sampler
from tacenda.privacy.noise.aes import AesStream
from tacenda.privacy.secrets.door import Choice, release_choice
from tacenda.privacy.secrets.ledger import Ledger
from tacenda.privacy.secrets.mechanisms import CHOICE_MU, choice_charge

EDGES = np.array([-1.0, 0.0, 0.5, 1.0, 2.0])
CELLS = list(itertools.pairwise([-math.inf, *EDGES, math.inf]))
VALUES = [-np.inf, -1.0, 0.0, 0.7, 1.0, np.inf, np.nan]
QUANTILES = [Fraction(1, 20), Fraction(1, 3), Fraction(19, 20)]


def by_definition(values: list[float], cell: tuple[float, float], q: Fraction) -> Fraction:
    """How far q n is from the ranks in the cell, in records; counted one by one."""
    present = [v for v in values if not math.isnan(v)]
    below = sum(v < cell[0] for v in present)
    up_to = len(present) if cell[1] == math.inf else sum(v < cell[1] for v in present)
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
        here = rank_distances(np.array(values), EDGES, q)
        assert [Fraction(int(d), q.denominator) for d in here] == [
            by_definition(list(values), cell, q) for cell in CELLS
        ]
        assert here.min() == 0
        for other in neighbours(values):
            there = rank_distances(np.array(other, float), EDGES, q)
            farthest = max(farthest, int(np.abs(here - there).max()))
    # Close to the bound, and never above it: the distance of one rank is `denominator`
    assert q.denominator / 2 <= farthest <= q.denominator


def chances(distances: np.ndarray, rate: Fraction) -> list[Any]:
    with mpmath.workdps(40):
        weights = [
            mpmath.exp(-mpmath.mpf(int(d)) * rate.numerator / rate.denominator) for d in distances
        ]
        return [w / mpmath.fsum(weights) for w in weights]


def best_powers(here: list[Any], there: list[Any]) -> list[tuple[Any, Any]]:
    """(level, power) of the best tests, of every level that needs no coin (Neyman, Pearson)."""
    pairs = sorted(zip(here, there, strict=True), key=lambda p: p[0] / p[1], reverse=True)
    steps = list(itertools.accumulate(pairs, lambda a, b: (a[0] + b[0], a[1] + b[1])))
    return [(level, power) for power, level in steps[:-1]]


@pytest.mark.parametrize("epsilon", [0.7, 6.0])
def test_neighbours_differ_by_at_most_what_is_charged(epsilon: float) -> None:
    """Exact laws on all neighbouring tables of three records: as pure epsilon and as a Gaussian."""
    q = Fraction(1, 3)
    rate = Fraction(epsilon) / (2 * q.denominator)
    gaussian = 1 / choice_charge(epsilon, pure=False).event(0).noise_multiplier
    pure = choice_charge(epsilon, pure=True).event(0).epsilon
    pairs = {
        tuple(tuple(rank_distances(np.array(t, float), EDGES, q).tolist()) for t in (values, other))
        for values in itertools.combinations_with_replacement(VALUES, 3)
        for other in neighbours(values)
    }
    assert len(pairs) > 100
    worst, furthest = mpmath.mpf(0), 0.0
    laws = {d: chances(np.array(d), rate) for pair in pairs for d in pair}
    for here, there in ((laws[a], laws[b]) for a, b in pairs):
        worst = max(worst, *(abs(mpmath.log(a / b)) for a, b in zip(here, there, strict=True)))
        for level, power in best_powers(here, there):
            furthest = max(furthest, float(ndtri(float(power)) - ndtri(float(level))))
    assert 0.3 * pure < worst <= pure == epsilon
    assert 0.3 * gaussian < furthest <= gaussian


def test_the_gaussian_of_a_choice_is_the_least_for_small_epsilon_and_enough_for_all() -> None:
    """The worst test has log-odds of power and level that differ by epsilon; any two such."""
    for epsilon in (1e-6, 0.01, 0.5, 1.0, 4.0, 20.0):
        with mpmath.workdps(40):
            far = max(
                probit_of_logit(middle + epsilon / 2) - probit_of_logit(middle - epsilon / 2)
                for middle in np.linspace(-20, 20, 41)
            )
            assert far <= CHOICE_MU * epsilon
            if epsilon <= 0.01:
                assert far > 0.99999 * CHOICE_MU * epsilon
    assert math.sqrt(2 * math.pi) / 4 <= CHOICE_MU < math.sqrt(2 * math.pi) / 4 * (1 + 1e-12)


def probit_of_logit(x: float) -> Any:
    half = mpmath.tanh(mpmath.mpf(x) / 2)  # 2 logistic(x) - 1
    return mpmath.sqrt(2) * mpmath.erfinv(half)


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
def test_every_float_gives_a_cell(
    values: list[float], epsilon: float, thousandths: int, key: int
) -> None:
    found = private_cell(
        lambda: np.array(values, float),
        EDGES,
        Fraction(thousandths, 1000),
        epsilon,
        Ledger(None),
        (1, 0),
        pure=bool(key % 2),
    )
    assert found in range(len(CELLS))


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
    release_choice(Choice(asked, 1), 0.25, booked, stream(0), 3, 1, pure=True)
    assert order == [(3, 1, Pure(0.25)), "asked"]
    release_choice(Choice(asked, 1), 0.25, booked, stream(0), 3, 1, pure=False)
    assert order[2:] == [(3, 1, Gaussian(1 / (0.25 * CHOICE_MU))), "asked"]

    def refuse(*_: Any) -> None:
        raise BudgetError("spent")

    order.clear()
    with pytest.raises(BudgetError):
        release_choice(Choice(asked, 1), 0.25, Ledger(None, refuse), stream(0), 1, 0, pure=True)
    for bad in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(InputError, match="epsilon"):
            release_choice(Choice(asked, 1), bad, Ledger(None), stream(0), 1, 0, pure=False)
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
        {"kind": "numeric", "name": "male", "low": 0, "high": 1, "two_valued": True,
         "confirmed": False},
    ]  # fmt: skip
    kind = label or {"classes": ["a", "b"]}
    return data.Schema.build(columns=columns, label={"name": "y", **kind})


def test_bounds_lie_near_the_quantiles_and_are_booked(tmp_path: Path) -> None:
    book = tmp_path / "l.ledger"
    got = private_bounds(
        schema(), TABLE, ledger=book, dataset="us", epsilon=1.0, delta=1e-5,
        within={"year": (1900, 2100)},
    )  # fmt: skip
    for column in got.schema.columns[:2]:
        ranks = [np.mean(TABLE[column.name] < x) for x in (column.low, column.high)]
        slack = 2 * got.rank_error / N  # the chance is 95 %
        assert 0 <= ranks[0] < got.tail + slack and 1 - got.tail - slack < ranks[1] <= 1
        low, high = TABLE[column.name].min(), TABLE[column.name].max()
        assert low - 0.3 * (high - low) < column.low < column.high < high + 0.3 * (high - low)
        assert column.confirmed and column.source.startswith("private ")
    pay = got.schema.columns[0]
    assert pay.low <= pay.impute <= pay.high
    # What the schema calls two-valued is not asked, and stays for somebody to confirm
    assert got.schema.unconfirmed == ("male",) and got.columns == ("pay", "year")
    assert got.schema.columns[2] == schema().columns[2]
    with LedgerStore(book) as store:
        spent = store.spent("us")
        ends, centres = (Gaussian(1 / (got.epsilon_each * s * CHOICE_MU)) for s in (1, 0.5))
        assert dict(spent.events) == {ends: 4, centres: 2} and spent.reserved == []
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
        assert len(store.spent("us").events) == 2
        assert [r["run"] for r in store.runs("us") if r["open"]] == ["fit"]


def test_candidates_are_public_round_and_ascending() -> None:
    for fields, within in itertools.product(
        ({}, {"transform": "log1p"}),
        (None, (1850, 2026), (0.0, 0.1), (-0.5, 1e12), (3.0, math.nextafter(3.0, 4.0))),
    ):
        column = data.NumericColumn(name="x", low=0, high=1, **fields)
        search = Search.of(column, within)
        for found in (search.centres, search.edges(float(search.centres[-2]))):
            assert (np.diff(found) > 0).all() and len(found) >= 2
        # On a logarithmic scale and within known limits the ends are among the centres' numbers
        same = np.array_equal(search.edges(float(search.centres[1])), search.centres)
        assert same == bool(fields or within)
        if within is None:
            least = 0.0 if fields else -1e18
            assert (search.centres[0], search.centres[-1]) == (least, 1e18)
        else:
            assert (search.centres[0], search.centres[-1]) == within and len(search.centres) <= 202
    column = column.model_copy(update={"transform": "clip"})
    assert (Search.of(column, (1850, 2026)).centres % 1 == 0).all()
    search = Search.of(column, None)
    for centre in (*search.centres[::300], 0.0, 2000.0):
        edges = search.edges(float(centre))
        assert centre in edges and 0.0 in edges
        for side in (edges <= centre, edges >= centre):
            assert side.sum() + 1 <= search.end_cells
    assert {1985.0, 2012.0, 2000.00000015} <= set(search.edges(2000.0))


@pytest.mark.parametrize("transform", ["log1p", "clip"])
@pytest.mark.parametrize(
    "within", [(-1.0, 5.0), (-2.0, 5.0), (3.0, 3.0), (4.0, 3.0), (0.0, math.inf), (math.nan, 1.0)]
)
def test_public_limits_that_are_none_are_refused_by_name(
    within: tuple[float, float], transform: str
) -> None:
    column = data.NumericColumn(name="x", low=0, high=1, transform=transform)
    finite = math.isfinite(within[1] - within[0]) and within[0] < within[1]
    if finite and transform == "clip":
        assert Search.of(column, within).limits == within
        return
    with pytest.raises(InputError, match=r"within\['x'\] must be") as refused:
        Search.of(column, within)
    assert ("above -1 for log1p" in str(refused.value)) == finite


def test_a_pure_budget_and_a_number_to_predict(tmp_path: Path) -> None:
    table = {**TABLE, "y": TABLE["pay"] / 2}
    got = private_bounds(
        schema(low=-1, high=1, confirmed=False), table, ledger=tmp_path / "l", dataset="us",
        epsilon=4.0, delta=0.0, share=0.5, columns=["y"],
    )  # fmt: skip
    assert got.epsilon_each == 0.8 and got.epsilon == 2.0 and got.epsilon_left == 2.0
    assert got.schema.label.confirmed and got.schema.label.low < np.median(table["y"])
    assert got.schema.unconfirmed == ("pay", "year", "male")
    # A label has room beyond the two quantiles: half of their distance, on either side
    low, high = np.quantile(table["y"], [got.tail, 1 - got.tail])
    assert got.schema.label.high > high + 0.3 * (high - low) and got.schema.label.low < low


SEARCH = Search.of(data.NumericColumn(name="x", low=0, high=1), None)


def test_the_share_is_that_of_the_squares() -> None:
    for epsilon, delta, columns in ((1.0, 1e-5, 3), (0.5, 1e-6, 6), (8.0, 1e-3, 1)):
        price = Price.of(epsilon, delta, 0.02, (SEARCH,) * columns)
        low, high = 1e-3, 1e3
        for _ in range(60):  # the Gaussian of what is left, by bisection on its curve
            z = math.sqrt(low * high)
            over = judge([(Gaussian(z), 1)]).epsilon(delta) > price.left
            low, high = (z, high) if over else (low, z)
        whole = judge([(Gaussian(high), 1), *price.charges().events(0)]).delta(epsilon)
        assert 0.999 * delta < whole <= delta * (1 + 1e-6)
        assert 0.98 * epsilon < price.left < epsilon
    pure = Price.of(2.0, 0.0, 0.5, (SEARCH,) * 4)
    assert judge(pure.charges().events(0)).epsilon(0) + pure.left == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"epsilon": None}, InputError, "epsilon and delta must be given"),
        ({"adjacency": "add-remove"}, InputError, "tail must be given under add-remove"),
        ({"epsilon": 1e-3}, PrivacyError, "Nothing was spent.*epsilon 0.35; .*fewer columns"),
        ({"tail": 0.02}, PrivacyError, "the 0.02 quantiles.*epsilon 4.4 or a share of 0.28"),
        ({"columns": ["male"]}, InputError, "columns must be one of"),
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


def test_a_budget_that_nobody_knows_is_refused_before_the_file_is_opened(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no budget of 'us'"):
        private_bounds(schema(), tmp_path / "none.csv", ledger=tmp_path / "l", dataset="us")
    assert not (tmp_path / "l").exists()


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

    def noted(
        choice: Any, epsilon: float, ledger: Any, stream: AesStream, *place: int, pure: bool
    ) -> int:
        keys.append(stream.key)
        return release_choice(choice, epsilon, ledger, stream, *place, pure=pure)

    monkeypatch.setattr("tacenda.data.quantile_search.release_choice", noted)
    private_bounds(schema(), TABLE, ledger=tmp_path / "l", dataset="us", epsilon=1.0, delta=1e-5)
    assert len(keys) == 6 == len(set(keys))


def test_a_new_name_in_a_ledger_with_others_is_said(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    given: dict[str, Any] = {"ledger": tmp_path / "l", "epsilon": 4.0, "delta": 1e-5}
    for _ in range(2):  # the first name, and the same again
        private_bounds(schema(), TABLE, dataset="us", columns=["pay"], **given)
    assert not [w for w in recwarn if issubclass(w.category, LedgerWarning)]
    others = {name: list(cells)[1:] for name, cells in TABLE.items()}
    with pytest.warns(LedgerWarning, match="'them' is new to the ledger, which holds 'us'"):
        private_bounds(schema(), others, dataset="them", columns=["pay"], **given)


def test_a_new_name_buys_no_second_budget(tmp_path: Path) -> None:
    """The ledger knows records again whose bounds were looked for, here and in a later fit."""
    given: dict[str, Any] = {"ledger": tmp_path / "l", "epsilon": 1.0, "delta": 1e-5, "share": 0.9}
    private_bounds(schema(), TABLE, dataset="us", columns=["pay"], **given)
    turned = {name: list(cells)[::-1] for name, cells in reversed(TABLE.items())}
    for name in ("them", "others"):
        with (
            pytest.warns(LedgerWarning, match="from now on the two add up"),
            pytest.raises(BudgetError),
        ):
            private_bounds(schema(), turned, dataset=name, columns=["pay"], **given)
    with LedgerStore(tmp_path / "l") as store:
        marks = marks_as_read(as_read(schema(), data.Table.of(TABLE)), store.salt)
        assert store.account_of_marks(marks).name == "us"
        assert set(store.spent("us").names) == {"us", "them", "others"}
        assert store.verify().ok


# ---- where the bounds are

FLOATS = [
    math.inf,
    -math.inf,
    math.nan,
    5e-324,
    -5e-324,
    1e308,
    -1e308,
    1.7976931348623157e308,
    0.0,
]


def bounds_of(values: np.ndarray, tail: Fraction, epsilon: float) -> tuple[float, float]:
    price = Price.of(epsilon, 0.0, 0.5, (SEARCH,))
    return SEARCH.bounds(lambda: values, tail, price, Ledger(None), 1)


def column(kind: str, n: int, size: float, shift: float, seed: int) -> np.ndarray:
    source = np.random.default_rng(seed)
    values = {
        "normal": lambda: source.normal(size=n),
        "heavy": lambda: source.standard_cauchy(n),
        "money": lambda: np.exp(source.normal(0, 2, n)),
        "atoms": lambda: np.where(source.random(n) < 0.7, 0.37123, source.normal(size=n)),
        "two": lambda: source.integers(0, 2, n).astype(float),
        "constant": lambda: np.full(n, 0.37123),
        "gaps": lambda: np.where(source.random(n) < 0.9, np.nan, source.normal(size=n)),
    }[kind]()
    return np.asarray(values * size + shift)


KINDS = ["normal", "heavy", "money", "atoms", "two", "constant", "gaps"]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.floats(-6, 9),
    st.sampled_from([0.0, 1.0, -74.0, 2013.0, 1.6e9]),
    st.lists(st.sampled_from(FLOATS), max_size=20),
    st.integers(0, 2**32),
)
def test_bounds_are_where_the_values_are(
    kind: str, decade: float, shift: float, lies: list[float], seed: int
) -> None:
    """Ranks err by at most what is stated, and no end is far beyond all values, whatever a few
    records hold."""
    n, epsilon = 4000, 40.0  # errors of 20 records: one failure in 60 examples would be a wonder
    honest = column(kind, n, 10.0**decade, shift, seed)
    values = np.append(honest, lies)
    price = Price.of(epsilon, 0.0, 0.5, (SEARCH,))
    tail = Fraction(1, 20)
    assert price.finds(tail, n)
    low, high = bounds_of(values, tail, epsilon)
    assert math.isfinite(low) and math.isfinite(high) and low < high
    present = honest[~np.isnan(honest)]
    inside = np.mean((present >= low) & (present <= high))
    # Of a column of which 9 in 10 values are missing, half of the others may be cut
    share = (1 - 2 * tail * n / len(present)) if kind == "gaps" else 1 - 2 * tail
    assert inside >= float(share) - 6 * price.error / len(present)
    inner = np.quantile(present, [0.04, 0.96])
    reach = inner[1] - inner[0]
    if reach == 0:
        reach = abs(inner[0])
    assert low >= inner[0] - 1.6 * max(reach, abs(inner[0]) * 0.6)
    assert high <= inner[1] + 1.6 * max(reach, abs(inner[1]) * 0.6)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.zeros(4000), (-1.0, 1.0)),
        (np.full(4000, 5.0), (2.5, 7.5)),
        (np.full(4000, math.nan), (-1.0, 1.0)),
        (np.full(4000, math.inf), (1e18, 2e18)),
        (np.full(4000, 1e308), (1e18, 2e18)),
        (np.full(4000, 5e-324), (0.0, 1e-12)),
        (np.repeat([0.0, 1.0], 2000), (0.0, 1.0)),
        (np.repeat([0.0, 3.0, 7.0], [300, 3400, 300]), (0.0, 7.0)),
        (np.arange(1, 13).repeat(400).astype(float), (1.0, 12.0)),
    ],
)
def test_atoms_and_constants_have_exact_bounds(
    values: np.ndarray, expected: tuple[float, float]
) -> None:
    assert bounds_of(values, Fraction(1, 20), 1e4) == expected


def test_absurd_bounds_are_as_rare_as_stated() -> None:
    """The rank is twice the error away from the end. In 100 columns no bound is beyond the values
    by more than a step, and no rank errs by more than is stated more often than in 5 % of them."""
    n = 3000
    values = np.random.default_rng(3).normal(1017, 7, n)
    price = Price.of(0.8, 0.0, 0.5, (SEARCH,))
    tail = price.tail(n)
    assert Fraction(1, 50) < tail < Fraction(1, 5)
    found = [SEARCH.bounds(lambda: values, tail, price, Ledger(None), 1) for _ in range(100)]
    lows, highs = np.array(found).T
    assert (lows > 960).all() and (highs < 1080).all()
    below = np.array([(values < low).sum() for low in lows])
    above = np.array([(values > high).sum() for high in highs])
    wrong = (below > float(tail) * n + price.error) | (above > float(tail) * n + price.error)
    assert wrong.mean() <= 0.05


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([*FLOATS, 1.0, 2.5, -3.0]), max_size=6), st.floats(1e-3, 1e3))
def test_few_records_give_finite_bounds_and_are_refused_by_the_query(
    values: list[float], epsilon: float
) -> None:
    low, high = bounds_of(np.array(values, float), Fraction(1, 20), epsilon)
    assert math.isfinite(high - low) and low < high
    price = Price.of(min(epsilon, 10.0), 0.0, 0.02, (SEARCH,))
    assert not price.finds(Fraction(1, 5), len(values))


def test_the_epsilon_that_is_named_is_enough_and_hardly_more(tmp_path: Path) -> None:
    given: dict[str, Any] = {"ledger": tmp_path / "l", "dataset": "us", "delta": 1e-5}
    small = {name: values[:1000] for name, values in TABLE.items()}
    with pytest.raises(PrivacyError, match="1000 records") as refused:
        private_bounds(schema(), small, epsilon=0.3, **given)
    named = float(str(refused.value).split("would take epsilon ")[1].split()[0].strip(";"))
    with pytest.raises(PrivacyError):
        private_bounds(schema(), small, epsilon=0.9 * named, **given)
    assert private_bounds(schema(), small, epsilon=named, **given).tail <= 0.2


def test_of_many_records_the_outer_hundredths_are_cut_off() -> None:
    price = Price.of(8.0, 1e-5, 0.5, (Search.of(schema().columns[0], None),))
    assert price.tail(10**7) < Fraction(1, 100)
    assert lower_tail(None, price, 10**7) == Fraction(1, 100)
    assert lower_tail(0.003, price, 10**7) == Fraction(3, 1000)  # as asked


def test_money_on_a_logarithmic_scale_keeps_its_low_end(tmp_path: Path) -> None:
    logs = data.Schema.build(
        columns=[{"kind": "numeric", "name": "pay", "low": 0, "high": 1, "transform": "log1p",
                  "confirmed": False}],
        label={"name": "y", "classes": ["a", "b"]},
    )  # fmt: skip
    given: dict[str, Any] = {"dataset": "us", "epsilon": 4.0, "delta": 1e-5, "share": 0.5}
    pay = private_bounds(logs, TABLE, ledger=tmp_path / "l", **given).schema.columns[0]
    ends = np.quantile(TABLE["pay"], [0.005, 0.995])
    assert 0.6 * ends[0] < pay.low < 2 * ends[0] and 0.5 * ends[1] < pay.high < 1.6 * ends[1]
