"""A person with at most k records moves no answer by more than was declared, whatever those records
are; the bounds are nearly attained; and the cap comes before everything else.

Every node is a neighbouring pair of its own, as in test_sensitivity.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from privacy.secrets.test_sensitivity import (
    ARGMIN,
    CASES,
    RELATIONS,
    classes_of,
    kind_of,
    moved,
    points,
    random_records,
    worst_pairs,
)
from support import TUNED, make_block, run_spec
from tacenda import losses, regularisers
from tacenda.errors import InputError, UnsupportedError
from tacenda.privacy.noise.persons import kept_records, person_names, persons_over
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets.bounded import open_parts
from tacenda.privacy.secrets.mechanisms import objective_charge, objective_noise
from tacenda.questions.constants import Constants
from tacenda.questions.facts import Facts
from tacenda.questions.lattice import LatticeQueries
from tacenda.questions.queries import Queries
from tacenda.questions.statistics import Statistic
from tacenda.questions.store import DenseStore

MOST = (2, 3)


def build(parts: list[Any], most: int, settings: dict[str, Any], divisor: float) -> Any:
    """Nodes whose last person is "x", with whatever is behind the first four records."""
    persons = [
        [f"{k}/{j}" for j in range(4)] + [f"{k}/x"] * (len(part[1]) - 4)
        for k, part in enumerate(parts)
    ]
    return tc.Problem(
        parts,
        classes=classes_of(kind_of(settings)),
        public_sizes=divisor,
        persons=persons,
        records_per_person=most,
        **{"strength": 0.05, **settings},
    )


def random_persons(
    settings: dict[str, Any], relation: str, most: int, count: int = 60
) -> tuple[Any, Any]:
    """Two problems: a person of up to 2k records is another one of another number, or absent."""
    rng = np.random.default_rng(11)
    first, second = [], []
    for _ in range(count):
        x, y = random_records(rng, 4, 3, settings)
        for found, there in ((first, True), (second, relation == "replace-one")):
            own = random_records(rng, int(rng.integers(1, 2 * most + 1)), 3, settings)
            found.append((np.vstack([x, own[0]]), np.concatenate([y, own[1]])) if there else (x, y))
    return build(first, most, settings, 6.0), build(second, most, settings, 6.0)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", CASES)
def test_a_person_moves_a_gradient_by_no_more_than_declared(name: str, relation: str) -> None:
    rng = np.random.default_rng(1)
    for most in MOST:
        first, second = random_persons(CASES[name], relation, most)
        for size in (0.1, 1000.0):
            w = points(rng, first, size)
            distance, declared = moved(
                first, second, lambda block, w=w: block.gradient(w), relation
            )
            assert np.all(distance <= declared * (1 + 1e-9))


def repeated(data: Any, most: int) -> Any:
    """A problem of `worst_pairs` with its last record k times, all of them one person's."""
    parts, persons = [], []
    for a, b in zip(data.store.offsets[:-1], data.store.offsets[1:], strict=True):
        rows, labels = data.store.rows[a:b], data.store.labels[a:b]
        again = most - 1 if b - a == 5 else 0
        parts.append(
            (np.vstack([rows, *[rows[-1:]] * again]), np.append(labels, [labels[-1]] * again))
        )
        here = len(parts)
        persons.append([f"{here}/{min(j, 4)}" for j in range(len(parts[-1][1]))])
    return tc.Problem(
        parts,
        loss=data.loss,
        regulariser=data.regulariser,
        strength=data.strength,
        loss_scale=data.loss_scale,
        data_norm=data.data_norm,
        clip_norm=data.clip_norm,
        classes={"binary": (-1, 1), "multiclass": (0, 1, 2), "regression": None}[data.loss.kind],
        public_sizes=5.0,
        persons=persons,
        records_per_person=most,
    )


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", CASES)
def test_a_persons_gradient_bound_is_nearly_attained(name: str, relation: str) -> None:
    first, second, w = worst_pairs(CASES[name], relation, count=2)
    for most in MOST:
        distance, declared = moved(
            repeated(first, most), repeated(second, most), lambda block: block.gradient(w), relation
        )
        assert distance.max() >= 0.98 * declared[0]
        assert np.all(distance <= declared * (1 + 1e-9))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", ARGMIN)
def test_a_person_moves_a_minimiser_by_no_more_than_declared(name: str, relation: str) -> None:
    rng = np.random.default_rng(2)
    for most in MOST:
        first, second = random_persons(CASES[name], relation, most, count=30)
        for q in (0.02, 20.0):
            linear, centre = points(rng, first, 0.5), points(rng, first, 1.0)
            column = np.full((first.n_nodes, 1), q)

            def ask(
                block: Any, linear: Any = linear, column: Any = column, centre: Any = centre
            ) -> Any:
                w = block.argmin(linear, column, centre)
                return block.argmin(w * 0.5, column, w + np.zeros_like(centre))

            distance, declared = moved(first, second, ask, relation)
            assert np.all(distance <= declared * (1 + 1e-9))


def moment(records: list[Any], most: int, relation: str, way: str, diagonal: bool) -> Any:
    """(core rows, their sensitivity) of second moments over these rows of norm up to 1.5."""
    rows = np.concatenate(records)
    offsets = np.concatenate([[0], np.cumsum([len(x) for x in records])]).astype(np.int64)
    n, labels = len(records), np.tile([1.0, -1.0], len(rows))[: len(rows)]
    constants = Constants(
        losses.Squared(), regularisers.NoRegulariser(), 0.0, 1.3, 1.5, clip_norm=0.9
    )
    facts = Facts(np.full(n, 6.0), 3, constants, relation, records_per_person=most)
    store = DenseStore(
        rows,
        labels,
        offsets,
        n_features=3,
        n_outputs=1,
        loss=constants.loss,
        regulariser=constants.regulariser,
        strength=0.0,
        loss_scale=1.3,
        divisors=facts.sizes,
    )
    given: Any = (store, np.diff(offsets), np.arange(n), facts, SimulatedNoise(1))
    queries = (
        Queries(*given)
        if way == "floats"
        else LatticeQueries(*given, 2.0**-16, common=way == "common grid")
    )
    found = queries.second_moment(0.0, 1.0, diagonal)
    core, factor, _ = open_parts(found)
    return core, found.sensitivity / np.broadcast_to(np.asarray(factor).reshape(-1), (n,))


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("way", ["floats", "own grid", "common grid"])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("most", MOST)
def test_a_person_moves_second_moments_by_no_more_than_declared_and_nearly_so(
    most: int, relation: str, way: str, diagonal: bool
) -> None:
    rng = np.random.default_rng(3)
    first, second = [], []
    for case in range(60):
        size = rng.choice([1.5, 1.5, 4.0, 0.3])  # longer rows are cut
        rest = rng.normal(size=(3, 3))
        own = rng.normal(size=(int(rng.integers(1, most + 1)), 3))
        new = rng.normal(size=(int(rng.integers(1, most + 1)), 3))
        if case == 0:  # k copies of two records at right angles
            own, new = np.tile([[1.0, 0.0, 0.0]], (most, 1)), np.tile([[0.0, 1.0, 0.0]], (most, 1))
            size = 1.5
        own, new = (v * size / np.linalg.norm(v, axis=1, keepdims=True) for v in (own, new))
        first.append(np.vstack([rest, own]))
        second.append(np.vstack([rest, new]) if relation == "replace-one" else rest)
    (one, declared), (other, _) = (
        moment(records, most, relation, way, diagonal) for records in (first, second)
    )
    distance = np.linalg.norm(np.asarray(one, float) - np.asarray(other, float), axis=1)
    assert np.all(distance <= declared * (1 + 1e-9))
    assert distance[0] >= 0.999 * declared[0]


def test_declared_values_by_hand() -> None:
    data = build(
        [random_records(np.random.default_rng(0), 9, 3, {"loss": "logistic"})] * 1,
        3,
        {"loss": "logistic", "loss_scale": 3.0},
        5,
    )
    w, q = np.zeros((1, 3)), np.full((1, 1), 0.4)
    for relation, factor in (("replace-one", 6), ("add-remove", 3)):
        block, _, _ = make_block(data, adjacency=relation)
        assert np.allclose(block.gradient(w).sensitivity, factor * 3 / 5)
        assert np.allclose(
            block.argmin(w, q, w).sensitivity, (factor * 3 / 5 + 2e-8) / (0.05 + 0.8), rtol=1e-12
        )
        assert np.allclose(
            block.second_moment().sensitivity, {6: math.sqrt(2) * 3, 3: 3}[factor] / 5
        )
        with pytest.raises(UnsupportedError, match="up to 3 records"):
            block.gradient(w, 2)
        with pytest.raises(UnsupportedError, match="up to 3 records"):
            block.gradient(w, 1, one=True)


def log_density(x: Any, y: Any, divisor: float, w: Any, rate: float, kappa: float) -> float:
    """ln of the density at w of argmin f + e.w + kappa/2 |w|^2, up to a constant, by hand."""
    slope = -y / (1 + np.exp(y * (x @ w)))
    curve = np.exp(-np.logaddexp(0, x @ w) - np.logaddexp(0, -(x @ w)))
    gradient = x.T @ slope / divisor + kappa * w
    hessian = (x.T * curve) @ x / divisor + kappa * np.eye(len(w))
    return float(-rate * np.linalg.norm(gradient) + np.linalg.slogdet(hessian)[1])


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("most", MOST)
def test_noise_inside_an_objective_covers_a_person(most: int, relation: str) -> None:
    """The ratio of the two densities at many points, and for records that all agree."""
    rng = np.random.default_rng(4)
    constants = Constants.declared(loss="logistic", strength=0.05)
    facts = Facts(
        np.array([6.0]), 3, constants, relation, tolerance=1e-300, records_per_person=most
    )
    worst = 0.0
    for epsilon in (0.3, 2.0):
        terms = facts.objective_terms(np.array([0.1]))
        noise = objective_noise(np.array([epsilon]), terms)
        assert objective_charge(noise, terms, 3).event(0).epsilon == pytest.approx(epsilon)
        rate, kappa = float(noise.amount[0]), 0.05 + 0.2 + float(noise.extra[0])
        for case in range(300):
            rest = rng.normal(size=(3, 3))
            own = rng.normal(size=(most, 3))
            if case % 3 == 0:
                own[:] = own[0]
            if case % 3 == 1:
                own = np.linalg.qr(rng.normal(size=(3, 3)))[0][:most]
            new = -own if case % 2 else rng.normal(size=(most, 3))
            rest, own, new = (
                v / np.linalg.norm(v, axis=1, keepdims=True) for v in (rest, own, new)
            )
            labels = rng.choice([-1.0, 1.0], 3 + most)
            w = rng.normal(size=3) * rng.choice([0.0, 1.0, 30.0])
            one = log_density(np.vstack([rest, own]), labels, 6.0, w, rate, kappa)
            other = (
                log_density(np.vstack([rest, new]), labels, 6.0, w, rate, kappa)
                if relation == "replace-one"
                else log_density(rest, labels[:3], 6.0, w, rate, kappa)
            )
            worst = max(worst, abs(one - other) / epsilon)
    assert 0.3 < worst <= 1 + 1e-9


@pytest.mark.parametrize("most", MOST)
def test_gaussian_noise_inside_an_objective_covers_a_person(most: int) -> None:
    """The privacy loss of real minimisers in one dimension, by integration, against the charge."""
    from scipy.integrate import quad

    from tacenda.privacy.accounting.judge import judge
    from tacenda.privacy.secrets.ledger import Charges
    from tacenda.privacy.secrets.mechanisms import (
        gaussian_objective_charge,
        gaussian_objective_noise,
    )

    divisor = 8.0
    constants = Constants.declared(loss="logistic", strength=0.05)
    facts = Facts(np.array([divisor]), 1, constants, records_per_person=most, tolerance=1e-300)
    terms = facts.objective_terms(np.array([0.2]))
    noise = gaussian_objective_noise(np.array([1.0]), terms)
    std, kappa = float(noise.amount[0]), 0.05 + 0.4 + float(noise.extra[0])

    def density(w: float, x: Any) -> float:
        p = 1 / (1 + np.exp(-x * w))
        gradient = float(np.sum(-x * (1 - p)) / divisor + kappa * w)
        curved = float(np.sum(x * x * p * (1 - p)) / divisor + kappa)
        return curved * math.exp(-(gradient**2) / (2 * std**2)) / (std * math.sqrt(2 * math.pi))

    rest = np.array([0.5, -0.3, 1.0])
    pair = [np.append(rest, np.full(most, sign)) for sign in (1.0, -1.0)]
    curve = judge(Charges([(gaussian_objective_charge(noise, terms), 1)]).events(0))
    for epsilon in (0.2, 1.0, 2.0):
        for one, other in (pair, pair[::-1]):
            true = quad(
                lambda w, one=one, other=other, epsilon=epsilon: max(
                    0.0, density(w, one) - math.exp(epsilon) * density(w, other)
                ),
                -40,
                40,
                limit=400,
                points=[0],
            )[0]
            assert true <= curve.delta(epsilon) + 1e-9


@pytest.mark.parametrize("name", ["ipadmm", "cdpadmm", "dpdda", "pvp", "treegd", "gossipgd"])
def test_every_release_of_a_run_is_planned_for_k_times_the_sensitivity(name: str) -> None:
    from tacenda.runtime.rehearsal import rehearse

    topology = tc.graph.Topology.of(tc.graph.ring(4))
    constants = Constants.declared(loss="logistic", strength=0.05)
    found = []
    for most in (1, 3):
        facts = Facts(np.full(4, 50.0), 3, constants, tolerance=1e-12, records_per_person=most)
        sites = rehearse(run_spec(TUNED[name], topology, facts, 3), np.arange(4))
        unit = facts.worst_gradient_sensitivity if name == "treegd" else 1.0
        found.append(np.asarray(sites[0][0].sensitivity) * unit)
    assert np.allclose(found[1], 3 * found[0], rtol=1e-9)


def test_kept_records_depend_on_one_person_alone() -> None:
    """Another person more, less, or with other records changes nothing for the others."""
    rng = np.random.default_rng(5)
    ids = person_names(rng.integers(0, 12, 120))
    key = b"a secret"
    kept = kept_records(ids, 3, key)
    assert max(np.unique(ids[kept], return_counts=True)[1]) == 3
    assert set(ids[kept]) == set(ids)  # nobody is lost
    for gone in np.unique(ids):
        rest = np.flatnonzero(ids != gone)
        again = rest[kept_records(ids[rest], 3, key)]
        assert np.array_equal(again, [k for k in kept if ids[k] != gone])
    assert not np.array_equal(kept, kept_records(ids, 3, b"another"))


def test_kept_records_are_drawn_evenly_over_the_places() -> None:
    """Not the first ones, nor the last ones: each of five records is kept 2 times out of 5."""
    counts = np.zeros(5)
    for person in range(4000):
        counts[kept_records(np.full(5, str(person)), 2, b"k")] += 1
    assert np.all(np.abs(counts / 4000 - 0.4) < 0.035)


def test_a_person_is_on_one_side_and_on_one_node() -> None:
    rng = np.random.default_rng(6)
    ids = person_names(rng.integers(0, 400, 3000))
    held, node = tc.data.held_out_by_coin(ids, 0.25, bytes(16)), persons_over(ids, 7, b"k")
    for side in (held, node):
        assert all(len(set(side[ids == who])) == 1 for who in np.unique(ids)[:100])
    assert 0.17 < np.mean([held[ids == who][0] for who in np.unique(ids)]) < 0.33
    assert set(node) == set(range(7))


def test_ids_are_the_same_however_they_are_written_and_never_missing() -> None:
    assert person_names([1, 2.0, " 3"]).tolist() == ["1", "2", "3"]
    assert person_names(np.array([1, 2])).tolist() == ["1", "2"]
    for missing in (None, float("nan"), "", "  ", 1.5, True):
        with pytest.raises(InputError, match="one record has none"):
            person_names(["a", missing])


def test_the_cap_comes_before_everything_else() -> None:
    """Records that are dropped leave no trace: not in sizes, classes, weights or checks of rows."""
    x, y = np.array([[0.5], [0.6], [0.7], [0.1]]), np.array([0, 0, 0, 1])
    ids = ["a", "a", "a", "b"]
    kept = kept_records(person_names(ids), 1, b"k")
    gone = next(k for k in range(3) if k not in kept)
    x[gone], y[gone] = 50.0, 2  # a row and a class that would be refused
    data = tc.Problem(
        [(x, y)],
        classes=(0, 1),
        persons=[ids],
        weights=[np.where(np.arange(4) == gone, 1.0, 0.25)],
        person_key=b"k",
    )
    assert data.sizes.tolist() == [2]
    assert np.array_equal(data.store.rows, x[kept])
    assert np.array_equal(data.store.weights, [0.25, 0.25])


def test_a_cap_without_ids_and_a_person_on_two_nodes_are_refused() -> None:
    part = (np.array([[0.5], [0.6]]), np.array([0, 1]))
    with pytest.raises(InputError, match="persons must be given"):
        tc.Problem([part], classes=(0, 1), records_per_person=2)
    with pytest.raises(InputError, match="members_per_person must be at least 2"):
        tc.Problem([part, part], classes=(0, 1), persons=[["a", "b"], ["b", "c"]])
    with pytest.raises(InputError, match="2 records and 1 ids"):
        tc.Problem([part], classes=(0, 1), persons=[["a"]])
    data = tc.Problem([part], classes=(0, 1), persons=[["a", "b"]], records_per_person=2)
    with pytest.raises(InputError, match="public_sizes must be declared"):
        Facts.of(data, "add-remove")
    alone = tc.graph.complete(1)
    with pytest.raises(InputError, match="adjacency must be 'add-remove'"):
        tc.simulate(data, alone, "gossipgd", 2, tc.Privacy(1.0))
    tc.simulate(data, alone, "gossipgd", 2)  # without privacy nothing is promised to anybody


def private(most: int, members: int, algorithm: Any, epsilon: Any = 1.0) -> Any:
    """The statement of a short run over four nodes, for persons with so many records and nodes."""
    rng = np.random.default_rng(7)
    parts, ids = [], []
    for node in range(4):
        x, y = random_records(rng, 30, 3, {"loss": "logistic"})
        parts.append((x, y))
        ids.append([f"{node}/{k // 3}" for k in range(30)])
    data = tc.Problem(
        parts,
        classes=(-1, 1),
        strength=0.1,
        persons=ids,
        records_per_person=most,
        members_per_person=members,
        public_sizes=30,
    )
    budget = tc.Privacy(epsilon, 1e-5, "add-remove")
    return tc.simulate(data, tc.graph.ring(4), algorithm, 3, budget, seed=0).privacy


@pytest.mark.parametrize("name", ["treegd", "cdpadmm", "dvp"])
def test_a_person_on_two_nodes_keeps_the_budget_as_a_whole(name: str) -> None:
    """Composed over any two nodes (`Statement.person`, written for single records) it is what was
    asked for, whether noise is shared or not; and what it costs is one number."""
    found = private(2, 2, TUNED[name])
    assert found.epsilon == pytest.approx(1.0, rel=1e-4)
    for pair in ([0, 1], [1, 3]):
        assert found.person(pair) == pytest.approx(1.0, rel=1e-4)
    alone = private(2, 1, TUNED[name])
    assert alone.person([0, 1]) > 1.3  # noise for one node does not do for two
    again = type(found).from_plain(found.to_plain())
    assert again.epsilon == found.epsilon and again.unit == found.unit


def test_the_worst_node_counted_twice_is_an_upper_bound() -> None:
    """Nodes with unlike noise: no two of them lose what the worst one counted twice would."""
    even, uneven = (private(2, 2, TUNED["dpdda"], e) for e in (1.0, [0.5, 1.0, 2.0, 1.0]))
    assert even.exact and not uneven.exact
    lost = [uneven.person([a, b]) for a in range(4) for b in range(a)]
    assert max(lost) < 0.95 * uneven.epsilon
    assert private(2, 1, TUNED["dpdda"], [0.5, 1.0, 2.0, 1.0]).exact


def test_words_say_for_whom() -> None:
    one, person, both = (private(*case, TUNED["cdpadmm"]) for case in ((1, 1), (3, 1), (3, 2)))
    assert (one.unit, one.for_whom) == ("one record of one node", "every single record")
    assert person.unit == "one person with at most 3 records"
    assert both.for_whom == "every person with at most 3 records at each of at most 2 nodes"
    assert "every person with at most 3 records" in repr(person)
    assert person.to_plain()["unit"] == person.unit
    assert "at most 3 records" in person.curve().conditions[0]
    from tacenda.report.account import Account
    from tacenda.report.wording import promised

    said = dict(promised(Account.of(person, {})))
    assert said["For whom"].startswith("Every person with at most 3 records: one person with all")
    assert "whether one person with at most 3 records was there" in said["In other words"]


def test_the_final_models_bound_adds_up_over_a_persons_nodes() -> None:
    method = tc.algorithms.TreeGD(noise="independent")
    one, two = private(2, 1, method), private(2, 2, method)
    assert one.hidden is not None and two.hidden is not None
    assert two.final_model().epsilon <= two.epsilon
    # sqrt(2) less noise is hidden by the other nodes, and two records move the mean twice as far
    assert np.allclose(two.hidden.mu * 2, one.hidden.mu * math.sqrt(2), rtol=1e-6)


def test_replace_one_holds_for_persons_with_exactly_k_records_only() -> None:
    part = (np.array([[0.5], [0.6], [0.1], [0.2]]), np.array([0, 1, 0, 1]))
    alone, budget = tc.graph.complete(1), tc.Privacy(5.0)
    ids = ["a", "a", "b", "b"]
    exact = tc.Problem([part], classes=(0, 1), persons=[ids], records_per_person=2)
    assert exact.exactly and Facts.of(exact).counts_are_public
    assert np.allclose(Facts.of(exact).gradient_sensitivity(), 2 * 2 / 4)
    tc.simulate(exact, alone, "gossipgd", 2, budget, seed=0)
    uneven = tc.Problem(
        [part], classes=(0, 1), persons=[["a", "a", "b", "c"]], records_per_person=2, public_sizes=4
    )
    with pytest.raises(InputError, match="adjacency must be 'add-remove'"):
        tc.simulate(uneven, alone, "gossipgd", 2, budget, seed=0)
    with pytest.raises(UnsupportedError, match="as-published"):
        tc.simulate(
            exact, alone, "dpdda", 2, tc.Privacy.from_paper(epsilon=1.0, delta=1e-5), seed=0
        )


def test_hold_out_keeps_a_person_on_one_side() -> None:
    data = tc.data.make_classification(300, 2, seed=0)
    ids = np.random.default_rng(1).integers(0, 60, 300)
    shards = tc.data.partition.by_person(data.X, data.y, ids, 3)
    training, held = tc.data.hold_out(shards, 0.3, seed=0)
    sides = [{str(i) for own in part.persons for i in own} for part in (training, held)]
    assert not sides[0] & sides[1] and sides[0] | sides[1] == {str(i) for i in ids}
    assert sum(len(y) for _, y in (*training, *held)) == 300


@pytest.mark.parametrize("non_negative", [False, True])
def test_a_statistics_sensitivity_is_a_persons(non_negative: bool) -> None:
    """k times that of a record, whichever sign its entries have; k out and k in at right angles."""
    not_below = non_negative

    class Counts(Statistic):
        name = "counts of a test"
        length, norm, non_negative = 2, 1.5, not_below

        def vectors(self, *_: Any) -> Any:
            raise AssertionError("no record is asked here")

    statistic = Counts()
    constants = Constants.declared(loss="logistic")
    for most in MOST:
        for relation, factor in (
            ("add-remove", 1.0),
            ("replace-one", math.sqrt(2) if non_negative else 2.0),
        ):
            facts = Facts(np.array([9.0]), 2, constants, relation, records_per_person=most)
            found = float(facts.statistic_sensitivity(statistic)[0])
            assert most * factor * 1.5 <= found <= most * factor * 1.5 * (1 + 1e-6)
