"""A setting of a run is written once, in `Method`, and is there in every way in."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import pytest

import tacenda as tc
from support import problem, run_spec
from tacenda.cli import flags
from tacenda.errors import InputError
from tacenda.graph import RandomEdges
from tacenda.questions.facts import Facts
from tacenda.runs import read
from tacenda.runs.sections import ComparedSection, RunSection
from tacenda.terms.method import SETTINGS, Method, MethodOptions
from tacenda.terms.setting import AUTO, given
from tacenda_node.identity.contract import Contract

A, NAMES = tc.algorithms, {s.name for s in SETTINGS}
RING = tc.graph.Topology.of(tc.graph.ring(6))


def test_every_setting_is_in_files_flags_contracts_and_what_is_written() -> None:
    for model in (RunSection, ComparedSection, Contract):
        assert set(model.model_fields) >= NAMES, model.__name__
    assert set(flags.KEYS) >= NAMES and set(flags.RUN) >= NAMES
    spec = run_spec(A.GossipGD(), RING, Facts.of(problem(6)), 3).checked()
    later = {s.name for s in SETTINGS if s.later}  # which at their defaults are not written
    assert set(spec.to_plain()) >= NAMES - later
    assert set(spec.identity()) >= {s.name for s in SETTINGS if s.names_run} - later
    assert set(Method(A.GossipGD(), 3).to_plain()) == NAMES - later | {"algorithm"}
    several = run_spec(A.TreeGD(), RING, Facts.of(problem(6)), 3, tc.Privacy(1.0), groups=3)
    assert set(several.checked().to_plain()) >= NAMES
    assert set(several.checked().identity()) >= {s.name for s in SETTINGS if s.names_run}
    assert set(MethodOptions.__annotations__) == NAMES - {"rounds"}
    assert set(inspect.signature(tc.simulate).parameters) >= NAMES
    for documented in (Method, tc.simulate):
        assert all(f"\n{name} : " in (documented.__doc__ or "") for name in NAMES)


def test_what_is_left_open_is_not_given() -> None:
    open_run = read.build({}).run
    assert given(Method, {"groups": AUTO}) == {"groups": AUTO}  # which the run fills in
    assert given(Method, {"rounds": AUTO, "output": None, "finish_mixing": 3}) == {
        "finish_mixing": 3
    }
    assert open_run.fixed_settings() == {s.name: s.default for s in SETTINGS if not s.planned}
    varying = {"edges": "random", "active": 0.5, "seed": 4}
    fixed = read.build({"run": {"rounds": 7, "mixing": varying}}).run.fixed_settings()
    assert (fixed["rounds"], fixed["mixing"]) == (7, RandomEdges(0.5, seed=4))
    assert not {"output", "finish_mixing"} & set(fixed)


def test_a_method_runs_as_its_parts_do_and_keywords_replace_its_settings() -> None:
    data, ring, budget = problem(6), tc.graph.ring(6), tc.Privacy(2.0)
    how: dict[str, Any] = {"privacy": budget, "seed": 0, "record_every": 0}
    method = Method(A.DPDDA(), 4, "last", "exact")
    parts = tc.simulate(data, ring, A.DPDDA(), 4, output="last", finish_mixing="exact", **how)
    whole = tc.simulate(data, ring, method, **how)
    assert (whole.models == parts.models).all()
    assert all(whole.settings.get(name) == parts.settings.get(name) for name in NAMES)
    shorter = tc.simulate(data, ring, method, rounds=2, **how)
    assert (shorter.rounds, shorter.settings["finish_mixing"]) == (2, "exact")


def test_an_estimator_takes_a_method() -> None:
    made = tc.data.make_classification(300, 3, seed=0)
    method = Method(A.TreeGD(), 3, finish_mixing=0)
    model = tc.PrivateLogisticRegression(
        epsilon=5.0, n_nodes=3, algorithm=method, classes=(0, 1), bounds="norm", random_state=0
    ).fit(made.X, made.y)
    assert model.result_settings_["rounds"] == 3
    assert model.result_settings_["algorithm"]["name"] == "treegd"
    assert model.get_params()["algorithm"] is method


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"rounds": None}, "rounds must be a whole number"),
        ({"output": "best"}, "output must be"),
        ({"finish_mixing": "all"}, "finish_mixing must be"),
        ({"mixing": "none"}, "mixing must be"),
    ],
)
def test_wrong_values_are_named(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        replace(Method(A.GossipGD(), 3), **wrong).checked(RING)
