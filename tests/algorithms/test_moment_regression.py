"""MomentRegression: exact without noise, one model at all nodes, charged as it releases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from support import shards, uneven
from tacenda.algorithms.moments import MomentRegression
from tacenda.algorithms.quadratic import of_released
from tacenda.errors import InputError, UnsupportedError
from tacenda.privacy.accounting.calibration import gaussian_mu
from tacenda.regularisers import L1
from tacenda.runtime import loop as module
from tacenda.runtime.result import load


class Killed(Exception):
    """The machine goes down between two rounds."""


N = 6
NOISES = ("masked", "independent")
GRAPH = tc.graph.random_regular(N, 3, seed=1)
BUDGET = tc.Privacy(epsilon=2.0, delta=1e-5, coalition=1)


def problem(sizes: Any = None, p: int = 4, **settings: Any) -> Any:
    chosen = {"loss": "squared", "strength": 0.05, "clip_norm": 0.5, **settings}
    parts = shards(uneven(N, 2) if sizes is None else sizes, p, 2, task="regression")
    return tc.Problem([(x, 0.3 * y) for x, y in parts], **chosen)


def run(data: Any, rounds: int, privacy: Any = None, noise: str = "masked", **more: Any) -> Any:
    chosen: dict[str, Any] = {"seed": 3, "record_every": 0, "progress": False, **more}
    return tc.simulate(data, GRAPH, MomentRegression(noise=noise), rounds, privacy, **chosen)


@pytest.mark.parametrize("regulariser", ["none", "l2", "l1", "elastic-net"])
@pytest.mark.parametrize("rounds", [1, 2, 7])
@pytest.mark.parametrize("loss_scale", [1.0, 3.0])
def test_without_noise_it_is_the_optimum(rounds: int, regulariser: str, loss_scale: float) -> None:
    data = problem(regulariser=regulariser, clip_norm=None, loss_scale=loss_scale)
    result = run(data, rounds)
    assert np.abs(result.models - data.solve()).max() < 1e-6
    assert np.array_equal(result.models, np.repeat(result.models[:1], N, axis=0))


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("rounds", [1, 5])
def test_every_node_ends_with_the_same_bits_however_they_are_hosted(
    rounds: int, noise: str
) -> None:
    data = problem(regulariser="l1", strength=0.01)
    whole = run(data, rounds, BUDGET, noise)
    assert np.array_equal(whole.models, np.repeat(whole.models[:1], N, axis=0))
    for blocks in (2, [[0, 4], [1, 2, 3], [5]]):
        assert np.array_equal(run(data, rounds, BUDGET, noise, blocks=blocks).models, whole.models)


@pytest.mark.parametrize("noise", NOISES)
def test_it_goes_on_from_a_checkpoint(tmp_path: Path, noise: str) -> None:
    data, path = problem(), tmp_path / "a"
    whole = run(data, 6, BUDGET, noise)

    def die(turn: int, models: Any) -> bool:
        if turn == 4:
            raise Killed
        return False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SAVE_SECONDS", -1.0)
        with pytest.raises(Killed):
            run(data, 6, BUDGET, noise, checkpoint=path, callback=die, record_every=1)
    again = run(data, 6, BUDGET, noise, checkpoint=path, resume=True)
    assert np.array_equal(again.models, whole.models)
    assert all(np.array_equal(again.released[k], v) for k, v in whole.released.items())


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("share", [0.2, 0.6])
def test_the_moment_has_its_share_of_the_budget(noise: str, share: float) -> None:
    """mu^2 of the first release is `share` of the run's, each gradient has an equal part of the
    rest, and together they are what the budget buys."""
    data = problem(sizes=[50] * N)
    result = tc.simulate(
        data, GRAPH, MomentRegression(share, noise), 6, BUDGET, 0, record_every=0, progress=False
    )
    mu = [
        charge.parameters["mu"][0]
        if "mu" in charge.parameters
        else 1 / charge.parameters["noise_multiplier"][0]
        for charge in result.privacy.charges.each()
    ]
    total = float(np.sum(np.square(mu)))
    assert len(mu) == 6
    assert mu[0] ** 2 == pytest.approx(share * total, rel=1e-6)
    assert np.allclose(np.square(mu[1:]), (1 - share) / 5 * total, rtol=1e-6)
    assert np.sqrt(total) == pytest.approx(gaussian_mu(2.0, 1e-5), rel=1e-6)


@pytest.mark.parametrize("noise", NOISES)
def test_one_round_is_one_release_for_the_whole_budget(noise: str) -> None:
    data = problem(sizes=[50] * N)
    charges = list(run(data, 1, BUDGET, noise).privacy.charges.each())
    assert len(charges) == 1
    known = charges[0].parameters
    mu = known["mu"][0] if "mu" in known else 1 / known["noise_multiplier"][0]
    assert mu == pytest.approx(gaussian_mu(2.0, 1e-5), rel=1e-6)


def test_labels_are_cut_before_one_round_releases_them() -> None:
    """A label of any size has the influence of one at the bound."""
    parts = [(x, 0.3 * y) for x, y in shards([30] * N, 4, 2, task="regression")]
    models = []
    for wild in (1.0, 1e12):
        x, y = parts[0]
        y = np.concatenate([[wild], y[1:]])
        data = tc.Problem([(x, y), *parts[1:]], loss="squared", strength=0.05)
        models.append(run(data, 1).models)
    assert np.array_equal(*models)
    data = tc.Problem([(x, y), *parts[1:]], loss="squared", strength=0.05)
    wider = tc.simulate(
        data, GRAPH, MomentRegression(label_bound=2.0), 1, seed=3, record_every=0, progress=False
    )
    assert not np.array_equal(wider.models, models[0])


def test_the_released_form_gives_the_model_and_every_other_strength(tmp_path: Path) -> None:
    data = problem(sizes=[200] * N, regulariser="l1", strength=0.02)
    result = run(data, 9, BUDGET)
    read = load(result.save(tmp_path / "result"))
    form = of_released(read.released)
    assert np.array_equal(form.solve(L1(), 0.02), result.models[0])
    other = run(problem(sizes=[200] * N, regulariser="l1", strength=0.1), 9, BUDGET)
    assert np.array_equal(form.solve(L1(), 0.1), other.models[0]), "the same noise, one release"


def test_a_private_fit_is_close_to_the_optimum() -> None:
    """20,000 records of 12 features at epsilon 1: a hundredth of the explained variance."""
    data = problem(sizes=[3400] * N, p=12, strength=1e-4, clip_norm=0.25)
    best, nothing = data.objective(data.solve()), data.objective(np.zeros(12))
    budget = tc.Privacy(epsilon=1.0, delta=1e-5, coalition=1)
    found = [data.objective(run(data, 9, budget, seed=s).models[0]) for s in range(3)]
    assert np.mean(found) - best < 0.01 * (nothing - best)
    alone = [data.objective(run(data, 1, budget, seed=s).models[0]) for s in range(3)]
    assert np.mean(found) < np.mean(alone), "clipped residuals need less noise than whole labels"


def test_float32_records_are_served() -> None:
    parts = shards(uneven(N, 2), 4, 2, task="regression", dtype=np.float32)
    data = tc.Problem(parts, loss="squared", strength=0.05, clip_norm=0.5)
    result = run(data, 4, BUDGET)
    assert result.models.dtype == np.float32 and np.isfinite(result.models).all()


@pytest.mark.parametrize("loss", ["huber", "logistic", "absolute-deviation"])
def test_other_losses_are_refused(loss: str) -> None:
    task = "binary" if loss == "logistic" else "regression"
    data = tc.Problem(shards([20] * N, 4, task=task), loss=loss, strength=0.1)
    with pytest.raises(UnsupportedError, match="needs the loss 'squared'"):
        run(data, 3)


def test_without_clipping_only_one_round_is_private() -> None:
    data = problem(clip_norm=None)
    assert run(data, 1, BUDGET).privacy.epsilon == pytest.approx(2.0)
    with pytest.raises(UnsupportedError, match="clip_norm"):
        run(data, 2, BUDGET)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"share": 0.0}, "MomentRegression.share"),
        ({"share": 1.0}, "MomentRegression.share"),
        ({"noise": "none"}, "MomentRegression.noise"),
        ({"tail": 1.5}, "MomentRegression.tail"),
        ({"label_scale": 0.0}, "MomentRegression.label_scale"),
        ({"label_bound": -1.0}, "MomentRegression.label_bound"),
    ],
)
def test_settings_are_checked(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        MomentRegression(**wrong)


def test_too_many_features_are_refused_before_anything_is_sent() -> None:
    wide = tc.Problem([(np.eye(2, 1001), np.zeros(2))] * N, loss="squared", clip_norm=1.0)
    with pytest.raises(UnsupportedError, match="up to 1000 features"):
        run(wide, 3, BUDGET)


@pytest.mark.parametrize("rounds", [1, 6])
@pytest.mark.parametrize("regulariser", ["l2", "l1"])
def test_members_plan_it_from_their_contract_on_whole_numbers(
    rounds: int, regulariser: str
) -> None:
    from node_stage import small_contract
    from tacenda_node.peer.run_plan import make_plan

    contract = small_contract(
        4,
        rounds=rounds,
        problem={"n_features": 4, "loss": "squared", "clip_norm": 0.3, "regulariser": regulariser},
        algorithm={"name": "moments", "share": 0.3},
        privacy={"epsilon": 5.0, "delta": 1e-5, "coalition": 1},
    )
    plan = make_plan(contract)
    spent = [c.parameters["mu"][0] ** 2 for c in plan.calibration.reserved.each()]
    assert plan.on_lattice and len(spent) == rounds
    assert spent[0] / sum(spent) == pytest.approx(0.3 if rounds > 1 else 1.0)
