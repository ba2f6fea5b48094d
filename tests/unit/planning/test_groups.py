"""What groups cost in a plan, against the noise that a run then draws."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tacenda as tc
from tacenda.graph.groups import proposed_groups
from tacenda.questions.facts import Facts
from tacenda.runtime.spec import RunSpec
from tacenda.terms.method import Method


def test_the_noise_that_is_named_is_the_noise_that_is_drawn() -> None:
    graph = tc.graph.random_regular(20, 6, seed=1)
    plan = tc.plan(1000, 5, graph, epsilon=1.0)
    facts = Facts.declared(1000, 5, 20, adjacency="replace-one")
    options = plan.group_options()
    assert [o.groups for o in options if o.proposed] == [proposed_groups(20, 1)] == [4]
    scales = {}
    for option in options:
        method = Method(plan.algorithm, 5, groups=option.groups)
        spec = RunSpec.of(method, plan.topology, facts, tc.Privacy(1.0))
        assert spec.calibration is not None
        scales[option.groups] = float(spec.calibration.plan.scale.max())
        assert option.noise == pytest.approx(scales[option.groups] / scales[1], rel=1e-5)
    risks = [o.excess_risk for o in options]
    assert risks == sorted(risks) and [o.liars for o in options] == [0, 1, 1, 2, 3]


def test_groups_of_few_members_and_other_plans_have_no_options() -> None:
    few = tc.plan(1000, 5, tc.graph.complete(4), epsilon=1.0)
    assert all(o.smallest > 1 or o.groups == 1 for o in few.group_options())
    assert tc.plan(1000, 5, tc.graph.ring(8), epsilon=1.0, coalition=None).group_options() == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"privacy": None}, "masks nothing"),
        ({"algorithm": "cdpadmm"}, "makes none that a rule could join"),
        ({"groups": 9}, r"at most the number of members \(6\)"),
        ({"finish_mixing": 3}, "with 3 closing mixings"),
        ({"groups": 0}, "groups"),
    ],
)
def test_what_does_not_go_with_groups_is_refused_in_words(changes: dict, words: str) -> None:
    data = tc.data.make_classification(120, 3, seed=0)
    problem = tc.Problem(tc.data.partition.even(data.X, data.y, 6, seed=0), classes=(0, 1))
    how = {"algorithm": "treegd", "rounds": 2, "privacy": tc.Privacy(2.0), "groups": 3, **changes}
    with pytest.raises(tc.errors.TacendaError, match=words):
        tc.simulate(problem, tc.graph.complete(6), **how)


def test_auto_follows_the_members_and_is_one_where_there_is_nothing_to_join() -> None:
    facts = Facts.declared(100, 3, 12, adjacency="replace-one")
    topology = tc.graph.Topology.of(tc.graph.complete(12))
    for name, privacy, count in (("treegd", tc.Privacy(1.0), 4), ("admm", None, 1)):
        method = Method.of(name, rounds=3, groups="auto")
        spec = RunSpec.of(method, topology, facts, privacy)
        assert spec.method.groups == count


def test_a_run_in_groups_says_that_their_sums_are_public() -> None:
    data = tc.data.make_classification(1200, 3, seed=0)
    problem = tc.Problem(tc.data.partition.even(data.X, data.y, 6, seed=0), classes=(0, 1))
    graph = tc.graph.complete(6)
    runs = [
        tc.simulate(problem, graph, "treegd", 4, tc.Privacy(2.0), seed=1, groups=g) for g in (1, 3)
    ]
    assert "sums of 3 groups public" in repr(runs[1].privacy)
    assert runs[1].privacy.to_plain()["groups"] == 3 and "groups" not in runs[0].privacy.to_plain()
    mu = [run.privacy.curve().mu for run in runs]
    assert mu[0] == pytest.approx(mu[1], rel=1e-6)  # the price is noise, not privacy
    assert math.isclose(runs[1].privacy.epsilon, 2.0, rel_tol=1e-6)
    assert np.abs(runs[1].model - runs[0].model).max() < 3.0
