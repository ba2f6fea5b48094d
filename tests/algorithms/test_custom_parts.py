"""A user's own loss and regulariser in every algorithm that can serve them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import tacenda as tc
from custom_parts import group_lasso, log_cosh
from node_stage import Crowd, simulated, small_contract
from support import TUNED, make_block, problem, run_spec, shards
from tacenda import losses
from tacenda.algorithms.registry import ALGORITHMS
from tacenda.content import content_hash
from tacenda.errors import PrivacyError, UnsupportedError
from tacenda.graph.topology import Topology
from tacenda.questions.facts import Facts
from tacenda.runtime.simulate import simulate
from tacenda_node.peer.run_plan import make_plan
from tacenda_node.setup.drafting import plugin_codes

KNOWN = tc.losses.CustomLoss(
    "mine",
    of="margin",
    value=lambda z: np.logaddexp(0.0, -z),
    slope=lambda z: -1.0 / (1.0 + np.exp(z)),
    slope_bound=1.0,
    curvature=0.25,
    twice_differentiable=True,
)
RECORDS = shards([20, 30, 25], 4)
BY_GRADIENT = {"dpadmm", "ipadmm", "ddpadmm", "cdpadmm", "dda", "dpdda", "gossipgd", "treegd"}


def ran(name, loss="logistic", regulariser="l2", records=RECORDS, classes=("no", "yes")):
    problem = tc.Problem(records, loss=loss, regulariser=regulariser, strength=0.1, classes=classes)
    private = ALGORITHMS[name].private
    budget = tc.Privacy(1.0, 1e-5) if private else None
    return simulate(problem, tc.graph.complete(3), TUNED[name], 3, budget, seed=1)


@pytest.mark.filterwarnings("ignore:RADMM")
@pytest.mark.parametrize("name", sorted(set(TUNED) - {"moments"}))
def test_a_known_loss_declared_again_gives_the_same_run(name):
    mine, known = ran(name, KNOWN), ran(name)
    np.testing.assert_allclose(mine.models, known.models, rtol=1e-6, atol=1e-7)
    if known.privacy is not None:
        assert mine.privacy.epsilon == pytest.approx(known.privacy.epsilon, rel=1e-12)


@pytest.mark.parametrize("name", sorted(set(TUNED) - {"moments"}))
def test_who_takes_a_regulariser_by_gradient_or_prox_takes_ones_own(name):
    own = tc.regularisers.CustomRegulariser(
        "my-ridge",
        value=lambda w: 0.5 * (w * w).sum(axis=1),
        gradient=lambda w: w,
        prox=lambda w, step: w / (1 + step),
        strong_convexity=1.0,
        smoothness=1.0,
    )
    offset = {"dpdda": 1.0, "dda": 1.0}.get(name)
    if name in BY_GRADIENT and offset is None:
        np.testing.assert_allclose(ran(name, regulariser=own).models, ran(name).models, atol=1e-9)
    elif offset is None:
        with pytest.raises(UnsupportedError, match="of your own"):
            ran(name, regulariser=own)


def test_dual_averaging_takes_it_by_its_prox():
    records, own = shards([30, 30], 4, task="regression"), group_lasso(ridge=1.0)
    problem = tc.Problem(records, loss=log_cosh(), regulariser=own, strength=0.05)
    graph, budget = tc.graph.complete(2), tc.Privacy(1.0, 1e-5)
    method = tc.algorithms.DPDDA(offset=2.0)
    found = simulate(problem, graph, method, 5, budget, seed=0)
    assert found.privacy.epsilon == pytest.approx(1.0, rel=1e-6)
    assert np.isfinite(found.models).all()
    with pytest.raises(UnsupportedError, match="needs an offset above 0"):
        simulate(problem, graph, tc.algorithms.DPDDA(offset=0.0), 5, budget, seed=0)
    ridge = tc.Problem(records, loss=log_cosh(), regulariser="l2", strength=0.05)
    same = group_lasso(
        size=2,
        ridge=1.0,
        value=lambda w: 0.5 * (w * w).sum(1),
        gradient=lambda w: w,
        prox=lambda w, step: w / (1 + step),
    )
    mine = tc.Problem(records, loss=log_cosh(), regulariser=same, strength=0.05)
    np.testing.assert_allclose(
        simulate(mine, graph, method, 5, budget, seed=0).models,
        simulate(ridge, graph, method, 5, budget, seed=0).models,
        atol=1e-12,
    )


def test_a_run_is_told_apart_by_the_content_of_its_parts():
    """Not by what was asked of them in between."""
    own, records = group_lasso(), shards([20, 20], 4, task="regression")

    def identity(loss, regulariser):
        problem = tc.Problem(records, loss=loss, regulariser=regulariser, strength=0.1)
        spec = run_spec(
            tc.algorithms.TreeGD(), Topology.of(tc.graph.complete(2)), Facts.of(problem), 3
        )
        return spec.checked().identity()["problem"]

    first = identity(log_cosh(), own)
    own.checked(8)
    tc.Problem(records, loss="huber").solve()
    assert identity(log_cosh(), own) == first == identity(log_cosh(), group_lasso())
    assert identity(log_cosh(curvature=1.5), own) != first
    assert identity(log_cosh(), group_lasso(ridge=0.5)) != first
    before = content_hash(losses.Huber(0.7), "loss")
    used = losses.Huber(0.7)
    used.derivative(np.zeros(2), np.zeros(2))
    assert content_hash(used, "loss") == before


def test_noise_inside_the_objective_needs_a_second_derivative():
    once = log_cosh(twice_differentiable=False)
    problem = tc.Problem(shards([20, 20], 3, task="regression"), loss=once, strength=0.1)
    with pytest.raises(UnsupportedError, match="needs a twice differentiable loss"):
        simulate(problem, tc.graph.complete(2), "dvp", 2, tc.Privacy(1.0, 1e-5), seed=0)


def test_the_planner_takes_it():
    found = tc.plan(2000, 6, tc.graph.complete(5), epsilon=1.0, loss=log_cosh())
    known = tc.plan(2000, 6, tc.graph.complete(5), epsilon=1.0, loss="huber")
    assert found.algorithm.name == known.algorithm.name
    assert 0.3 < found.facts.constants.loss.curvature <= 1.0


SOURCE = '''"""A margin loss of somebody's own."""
import numpy as np
import tacenda as tc

def value(z):
    return np.logaddexp(0.0, -2.0 * z) / 2.0

def slope(z):
    return -1.0 / (1.0 + np.exp(np.minimum(2.0 * z, 700.0)))

LOSS = tc.losses.CustomLoss(
    "sharp-logistic", of="margin", value=value, slope=slope, slope_bound=1.0, curvature=0.5
)
'''


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with a loss, here and in every process that is started from here."""
    home = tmp_path / "site"
    about = home / "sharp-1.0.dist-info"
    about.mkdir(parents=True)
    (home / "sharp_loss.py").write_text(SOURCE, "utf-8")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: sharp\nVersion: 1.0\n", "utf-8")
    (about / "entry_points.txt").write_text(
        "[tacenda.losses]\nsharp-logistic = sharp_loss:LOSS\n", "utf-8"
    )
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.setattr(losses.registry, "_REGISTERED", {})
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(home), os.environ.get("PYTHONPATH", "")]))
    return home


def terms(**more):
    plain = {"n_features": 4, "classes": ["no", "yes"], "strength": 0.01}
    return {**plain, "loss": "sharp-logistic", **more}


def test_a_contract_states_the_code_of_a_loss(installed: Path) -> None:
    codes = plugin_codes(terms())
    assert set(codes) == {"loss_code"} and plugin_codes({}) == {}
    with pytest.raises(PrivacyError, match="contract field problem.loss_code") as refused:
        make_plan(small_contract(problem=terms()))
    assert codes["loss_code"] in str(refused.value)
    plan = make_plan(small_contract(problem=terms(**codes)))
    assert plan.spec.facts.constants.loss.curvature == pytest.approx(0.5) and plan.on_lattice
    with pytest.raises(PrivacyError, match="has other code here"):
        make_plan(small_contract(problem=terms(loss_code="0" * 64)))
    with pytest.raises(PrivacyError, match="it is part of tacenda"):
        make_plan(small_contract(problem={**terms(), "loss": "logistic", **codes}))


@pytest.mark.slow
def test_real_peers_run_it_as_the_simulation_does(installed: Path, tmp_path: Path) -> None:
    problem = terms(**plugin_codes(terms()))
    crowd = Crowd(tmp_path / "crowd", small_contract(3, rounds=3, problem=problem), seed=5)
    crowd.start()
    np.testing.assert_allclose(crowd.finish(), simulated(crowd.stage, seed=5), rtol=0, atol=1e-12)


def test_a_dual_step_by_ones_own_prox_is_that_of_the_built_in_one():
    """With offsets below and above 1; at 0 there is no step by the prox."""
    own = tc.regularisers.CustomRegulariser(
        "my-ridge",
        value=lambda w: 0.5 * (w * w).sum(axis=1),
        gradient=lambda w: w,
        prox=lambda w, step: w / (1 + step),
        strong_convexity=1.0,
        smoothness=1.0,
    )
    blocks = [make_block(problem(4, regulariser=r))[0] for r in (own, "l2")]
    z = np.random.default_rng(0).normal(size=(4, blocks[0].facts.dim))
    for quadratic in (0.5, 3.0):
        one, two = (block.dual_step(z, 2.0, quadratic) for block in blocks)
        np.testing.assert_allclose(one, two, rtol=1e-12)
    with pytest.raises(UnsupportedError, match="an offset above 0"):
        blocks[0].dual_step(z, 2.0, 0.0)
