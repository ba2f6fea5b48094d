"""Every setting of every term is in files, flags and contracts, or its field says why not."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, get_args

import numpy as np
import pytest

import tacenda as tc
from support import problem, run_spec
from tacenda import estimators
from tacenda.cli import accounting, fitting, flags, planning
from tacenda.errors import InputError
from tacenda.planning import predict
from tacenda.planning.contract_terms import plan_terms
from tacenda.questions.constants import Constants
from tacenda.questions.facts import Facts
from tacenda.runs import read
from tacenda.runs.sections import RunConfig
from tacenda.terms import reference
from tacenda.terms.privacy import PROMISE, Promise, StatedPrivacy
from tacenda.terms.problem import DECLARED, DeclaredOptions
from tacenda.terms.sections import SECTIONS
from tacenda.terms.setting import Setting, Way, settings
from tacenda_node.identity.contract import Contract, PrivacyTerms, ProblemTerms

ALL = [(section, s) for section, term in SECTIONS.items() for s in settings(term)]
NAMES = [f"{section}.{s.name}" for section, s in ALL]
RING = tc.graph.Topology.of(tc.graph.ring(6))
# Where a contract holds what a section of a file does
PARTS: dict[str, Any] = {
    "run": Contract,
    "network": Contract,
    "data": ProblemTerms,
    "problem": ProblemTerms,
    "privacy": PrivacyTerms,
}
# Of the privacy, what estimators write out; all of it is in `epsilon=tacenda.Privacy(...)`
WRITTEN_OUT = ("epsilon", "delta", "adjacency", "coalition")


@pytest.mark.parametrize(("section", "setting"), ALL, ids=NAMES)
def test_a_setting_goes_every_way_in_or_says_why_not(section: str, setting: Setting) -> None:
    assert set(setting.left_out) <= set(get_args(Way)) and all(setting.left_out.values())
    model = RunConfig.model_fields[section].annotation
    assert model is not None
    assert (setting.name in model.model_fields) == ("file" not in setting.left_out)
    fit = inspect.signature(fitting.fit).parameters
    has_flag = "flag" not in setting.left_out
    assert (flags.KEYS.get(setting.parameter) == f"{section}.{setting.key}") == has_flag
    assert not has_flag or setting.parameter in fit
    assert (setting.name in PARTS[section].model_fields) == ("contract" not in setting.left_out)


@pytest.mark.parametrize(("section", "setting"), ALL, ids=NAMES)
def test_its_default_is_a_value_of_its_kind(section: str, setting: Setting) -> None:
    found: Any = RunConfig().model_dump(mode="json")[section]
    if "file" not in setting.left_out:
        again = RunConfig.model_validate(
            {section: {k: v for k, v in found.items() if v is not None}}
        )
        assert again.model_dump(mode="json")[section] == found
    assert setting.help and setting.help[-1] == "."


@pytest.mark.parametrize(("section", "setting"), ALL, ids=NAMES)
def test_the_reference_page_says_it_with_what_it_is_left_out_of(
    section: str, setting: Setting
) -> None:
    page = "\n".join(reference.lines(section, SECTIONS[section]))
    entry = page.partition(f"\n``{setting.key}`` : ")[2].partition("\n\n")[0]
    assert setting.about in entry and ("Flag: " in entry) == ("flag" not in setting.left_out)
    assert all(why in entry for why in setting.left_out.values())


def test_a_promise_writes_every_setting_and_reads_it_again() -> None:
    privacy = tc.Privacy(
        [1.0, 2.0],
        1e-6,
        "add-remove",
        spread=tc.schedules.Geometric(1.0, 0.9),
        node_noise="worst",
        coalition=None,
    )
    plain = privacy.to_plain()
    assert set(plain) == {s.name for s in PROMISE}
    assert tc.Privacy(**{s.name: s.from_plain(plain[s.name]) for s in PROMISE}) == privacy
    assert {f.name for f in dataclasses.fields(tc.Privacy)} == {*plain, "noise"}


def test_what_is_declared_of_a_problem_is_taken_written_and_shown() -> None:
    names = {s.name for s in DECLARED}
    assert set(DeclaredOptions.__annotations__) == names
    assert set(inspect.signature(tc.Problem).parameters) >= names
    assert names <= {f.name for f in dataclasses.fields(Constants)}
    with pytest.raises(TypeError, match="'width' is an unexpected keyword"):
        tc.plan(100, 3, tc.graph.ring(4), 1.0, width=2.0)
    spec = run_spec(tc.algorithms.GossipGD(), RING, Facts.of(problem(6)), 3).checked()
    # row_scale is in the strength and the regulariser already
    assert set(spec.to_plain()["problem"]) >= names - {"row_scale"}


# Of what is declared of a problem, other values than the usual ones
OTHER_VALUES: dict[str, Any] = {
    "loss": "huber",
    "regulariser": "elastic-net",
    "strength": 0.5,
    "loss_scale": 3.0,
    "data_norm": 2.0,
    "clip_norm": 0.7,
    "radius": 50.0,
}


def test_what_is_declared_of_a_problem_is_in_plans_their_terms_and_trial_problems() -> None:
    assert set(OTHER_VALUES) == {s.name for s in DECLARED if s.names_run}
    chosen = tc.plan(100, 3, tc.graph.ring(3), 1.0, **OTHER_VALUES)
    k = chosen.facts.constants
    assert Constants.declared(**k.stated()) == k
    assert set(plan_terms(chosen, "study")["problem"]) >= set(OTHER_VALUES)
    X, y = np.zeros((300, 3)), np.zeros(300)
    assert Facts.of(predict._problem(chosen.facts, np.full(3, 100), X, y)).constants == k
    method = tc.Method(tc.algorithms.DPDDA(), 3)
    args = (100, 3, tc.graph.ring(3), method, tc.Privacy(1.0))
    assert tc.accounting.account(*args, **OTHER_VALUES).epsilon <= 1.0


def test_a_setting_that_is_not_planned_stays_in_the_terms_of_a_plan() -> None:
    chosen = tc.plan(100, 3, tc.graph.ring(3), 1.0)
    assert "mixing" not in plan_terms(chosen, "study")
    other = dataclasses.replace(chosen, method=dataclasses.replace(chosen.method, mixing="uniform"))
    assert plan_terms(other, "study")["mixing"] == "uniform"
    config = read.build(
        {
            "data": {"name": "breast_cancer"},
            "network": {"nodes": 3},
            "privacy": {"epsilon": 1.0},
            "run": {"mixing": "uniform"},
        }
    )
    assert planning._planned(config, False).method.mixing == "uniform"


@pytest.mark.parametrize("name", [s.name for s in PROMISE])
def test_a_docstring_describes_every_setting_of_a_promise(name: str) -> None:
    assert f"\n{name} : " in (tc.Privacy.__doc__ or "")


ESTIMATORS = [
    e
    for e in map(vars(estimators).get, estimators.__all__)
    if hasattr(e, "_promise") and e is not estimators.PrivateLinearModel
]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_estimator_writes_the_same_settings_out(estimator: Any) -> None:
    parameters = inspect.signature(estimator).parameters
    assert [s.name for s in PROMISE if s.name in parameters] == list(WRITTEN_OUT)
    usual = {s.name: s.assumed for s in PROMISE}
    assert all(parameters[name].default == usual[name] for name in WRITTEN_OUT)


def test_an_estimator_takes_a_promise_with_settings_that_it_does_not_write_out() -> None:
    made = tc.data.make_classification(300, 3, seed=0)
    whole = tc.Privacy(5.0, node_noise="worst", coalition=None)
    own = {"n_nodes": 3, "algorithm": "dpdda", "rounds": 2, "classes": (0, 1), "bounds": "norm"}
    model = tc.PrivateLogisticRegression(whole, random_state=0, **own).fit(made.X, made.y)
    assert model.result_settings_["privacy"] == whole.to_plain()
    parts = tc.PrivateLogisticRegression(5.0, coalition=None, random_state=0, **own)
    assert (parts.fit(made.X, made.y).coef_ == model.coef_).all()
    with pytest.raises(tc.errors.InputError, match="delta must be left out"):
        tc.PrivateLogisticRegression(whole, 1e-6, **own).fit(made.X, made.y)


def _of_a_fit(estimator: Any, y: Any, **parameters: Any) -> Any:
    X = np.random.default_rng(0).uniform(-1, 1, (300, 3))
    how = {"n_nodes": 3, "bounds": (-1, 1), "algorithm": "dpdda", "rounds": 2, "random_state": 0}
    model = estimator(5.0, **how, **parameters).fit(X, y(X[:, 0]))
    return model.result_settings_["problem"]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_estimator_has_the_parameter_for_what_it_does_not_write_out(estimator: Any) -> None:
    assert estimator(problem={"radius": 9.0}).get_params()["problem"] == {"radius": 9.0}


def test_an_estimator_takes_every_setting_of_a_problem() -> None:
    written_out = {"strength", "clip_norm", "data_norm"}
    by_itself = {"regulariser", "row_scale"}
    others = {s.name for s in DECLARED} - written_out - by_itself
    given = {name: OTHER_VALUES[name] for name in others}
    found = _of_a_fit(tc.PrivateRidge, lambda x: x, problem=given, target_bounds=(-1, 1))
    assert {name: found[name] for name in others} == given
    for name in written_out | by_itself | {"width"}:
        with pytest.raises(InputError, match=f"problem must not hold '{name}'"):
            _of_a_fit(tc.PrivateRidge, lambda x: x, problem={name: 1.0}, target_bounds=(-1, 1))


@pytest.mark.parametrize("name", tc.losses.names())
def test_an_estimator_takes_every_loss_that_predicts_what_its_own_does(name: str) -> None:
    loss = tc.losses.by_name(name)
    if (loss.kind, loss.predicts) == ("regression", "value"):
        own = {"problem": {"loss": name}, "target_bounds": (-1, 1), "clip_norm": 0.5}
        assert _of_a_fit(tc.PrivateHuberRegressor, lambda x: x, **own)["loss"] == name
    elif (loss.kind, loss.predicts) == ("binary", "class"):
        own = {"problem": {"loss": name}, "classes": (False, True)}
        assert _of_a_fit(tc.PrivateLinearSVC, lambda x: x > 0, **own)["loss"] == name
    else:
        with pytest.raises(InputError, match="must predict what that of PrivateLinearSVC does"):
            _of_a_fit(
                tc.PrivateLinearSVC, lambda x: x > 0, problem={"loss": name}, classes=(False, True)
            )


def test_commands_for_noise_have_the_settings_of_a_promise() -> None:
    there = {s.name for s in settings(StatedPrivacy, "flag")} - {"private"}
    assert there >= {s.name for s in settings(Promise, "flag")}
    for command in (accounting.account, accounting.calibrate):
        without = there - set(inspect.signature(command).parameters)
        assert without in ({"epsilon", "mode"}, {"noise_multiplier", "round_epsilon"})
