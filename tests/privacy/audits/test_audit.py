"""The audit calls broken calibrations broken and passes sound ones;
its likelihood ratios are exact."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import support
import tacenda as tc
from tacenda.algorithms.registry import ALGORITHMS
from tacenda.auditing import aim, attack, audit, audit_one_run
from tacenda.auditing.portion import run_portion
from tacenda.auditing.sampling import TrialNoise
from tacenda.auditing.worlds import copies_of
from tacenda.errors import InputError, StateError, UnsupportedError

A = tc.algorithms
PRIVATE = sorted(
    name for name, kind in ALGORITHMS.items() if kind.private and not kind.needs.squared_loss
)
ONE = A.DPDDA(batch_size=1, sampling="one")
VARIANTS: dict[str, Any] = {
    **{name: ALGORITHMS[name]() for name in PRIVATE},
    "pvp gaussian": A.PVP(noise="gaussian"),
    "pvp closing": A.PVP(closing_dvp=True),
    "pvp hidden": A.PVP(centre="hidden"),
    "pvp hidden closing": A.PVP(centre="hidden", closing_dvp=True),
    "dvp gaussian": A.DVP(noise="gaussian"),
    "radmm gaussian": A.RADMM(noise="gaussian"),
    "radmm output gaussian": A.RADMM(noise="gaussian", perturb="output"),
    "ipadmm poisson": A.IPADMM(batch_size=3, inner_steps=2),
    "dpdda poisson": A.DPDDA(batch_size=3),
    "dpdda one": ONE,
}


def noise_of(name: str, adjacency: str = "replace-one") -> tc.Privacy:
    if name in ("gossipgd", "treegd"):
        return tc.Privacy(3.0, 1e-3, adjacency=adjacency, coalition=1)
    gaussian = name.split()[0] in support.GAUSSIAN or name.endswith("gaussian")
    if gaussian:
        return tc.Privacy.from_noise(noise_multiplier=2.5, delta=1e-3, adjacency=adjacency)
    return tc.Privacy.from_noise(round_epsilon=0.4, delta=1e-3, adjacency=adjacency)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow)
        if name.split()[0] in ("madmm", "radmm", "dvp") or name.endswith("closing")
        else name
        for name in VARIANTS
    ],
)
def test_sound_noise_passes_and_the_likelihood_ratio_is_exact(name: str) -> None:
    """If score = ln p1/p0 exactly, then E0[exp(score)] = E1[exp(-score)] = 1,
    whatever the mechanism."""
    # Of two members, one is the coalition
    graph = tc.graph.complete(4) if VARIANTS[name].traits.shared_noise else None
    found = audit(
        VARIANTS[name], privacy=noise_of(name), graph=graph, rounds=3, trials=6000, seed=5
    )
    assert found.verdict == "consistent" and not found.contradicts_accountant
    for world, sign in ((0, 1.0), (1, -1.0)):
        ratio = np.exp(sign * found.scores[found.truth == world])
        assert abs(ratio.mean() - 1) < 4.5 * ratio.std() / np.sqrt(len(ratio))
    assert np.mean(found.scores[found.truth == 1]) > np.mean(found.scores[found.truth == 0])
    if found.mu_claimed is not None:  # the canary attains the declared sensitivity in every release
        assert found.mu_fit is not None
        assert found.mu_fit.mu == pytest.approx(
            found.mu_claimed, abs=4 * (found.mu_fit.interval[1] - found.mu_fit.mu) / 1.96
        )
        assert found.mu_lower is not None and found.mu_lower > 0.6 * found.mu_claimed


@pytest.mark.parametrize(
    "name", ["ipadmm", "pvp", pytest.param("dvp", marks=pytest.mark.slow), "dpdda poisson"]
)
def test_sound_noise_passes_under_add_remove(name: str) -> None:
    found = audit(
        VARIANTS[name], privacy=noise_of(name, "add-remove"), rounds=3, trials=4000, seed=6
    )
    assert found.verdict == "consistent"
    assert np.mean(found.scores[found.truth == 1]) > np.mean(found.scores[found.truth == 0])


@pytest.mark.parametrize(
    "name",
    [
        "ipadmm",
        "cdpadmm",
        "dpadmm",
        "dpdda",
        "pvp",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("dvp", "dvp gaussian", "madmm", "radmm")
        ),
    ],
)
def test_a_door_with_too_little_noise_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: half of the noise that was charged (a third for pure rounds, and for Gaussian
    noise in an objective, whose charge is a bound and not the exact loss)."""
    part = 3 if name == "dvp gaussian" else 2
    gauss, laplace = TrialNoise.add_gaussian, TrialNoise.l2_laplace
    monkeypatch.setattr(
        TrialNoise,
        "add_gaussian",
        lambda s, n, t, c, parts, std: gauss(s, n, t, c, parts, std / part),
    )
    monkeypatch.setattr(
        TrialNoise, "l2_laplace", lambda s, n, t, c, rate, dim: laplace(s, n, t, c, 3 * rate, dim)
    )
    found = audit(VARIANTS[name], privacy=noise_of(name), rounds=3, trials=6000, seed=7)
    assert found.verdict == "broken", found.summary()


def test_a_claim_of_half_the_sensitivity_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: replace-one's factor 2 forgotten everywhere."""
    monkeypatch.setattr("tacenda.questions.facts.records_changed", lambda *_: 1.0)
    found = audit(
        "ipadmm",
        privacy=tc.Privacy.from_noise(noise_multiplier=2.5, delta=1e-3),
        rounds=2,
        trials=4000,
        seed=8,
    )
    assert found.verdict == "broken"


@pytest.mark.slow
def test_dvp_with_line_5_is_broken_and_with_the_proof_s_noise_it_is_not() -> None:
    """Zhang and Zhu (2016): measured log-ratio 1.9945 with zeta = ah and 0.9972 with ah/2,
    where alpha = 1 is claimed."""
    printed = audit(
        "dvp", privacy=tc.Privacy.from_paper(alpha=1.0), rounds=1, trials=20_000, seed=1
    )
    assert printed.claimed == (1.0, 0.0) and printed.verdict == "broken"
    assert printed.lower_bound > 1.5 and not printed.contradicts_accountant
    assert np.abs(printed.scores).max() == pytest.approx(1.9945, abs=0.01)
    sound = audit(
        "dvp",
        privacy=tc.Privacy.from_noise(round_epsilon=1.0, delta=0.0),
        rounds=1,
        trials=20_000,
        seed=1,
    )
    assert sound.verdict == "consistent" and sound.lower_bound > 0.6
    assert 0.97 < np.abs(sound.scores).max() < 1.0


def test_dual_averaging_as_printed_is_broken_quickly() -> None:
    """Liu et al. (2022) with one of q = 500 records, T = 1500, claimed (1, 0.01)."""
    printed = audit(
        ONE,
        privacy=tc.Privacy(1.0, 0.01, mode="as-published"),
        rounds=1500,
        records=500,
        trials=1200,
        seed=1,
    )
    assert printed.claimed == (1.0, 0.01) and printed.verdict == "broken", printed.summary()
    assert printed.true_epsilon > 5 and printed.why is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("records", "rounds", "trials", "least"), [(200, 600, 20_000, 1.7), (1000, 3000, 6000, 3.0)]
)
def test_dual_averaging_as_printed_is_broken(
    records: int, rounds: int, trials: int, least: float
) -> None:
    printed = audit(
        ONE,
        privacy=tc.Privacy(1.0, 0.01, mode="as-published"),
        rounds=rounds,
        records=records,
        trials=trials,
        seed=1,
    )
    assert printed.verdict == "broken" and least < printed.lower_bound < printed.true_epsilon


@pytest.mark.slow
def test_dual_averaging_with_sound_noise_passes() -> None:
    sound = audit(
        ONE, privacy=tc.Privacy(1.0, 0.01), rounds=600, records=200, trials=20_000, seed=1
    )
    assert sound.verdict == "consistent" and sound.lower_bound > 0.2


@pytest.mark.slow
@pytest.mark.parametrize("name", list(VARIANTS))
def test_sound_noise_passes_thoroughly(name: str) -> None:
    privacy = tc.Privacy(1.0, 1e-3) if name != "dpdda one" else tc.Privacy(1.0, 1e-2)
    graph = tc.graph.ring(5) if VARIANTS[name].traits.shared_noise else None
    # Who minimises in every round needs an hour for a hundred thousand
    trials = 10_000 if name.split()[0] in ("dvp", "pvp", "madmm", "radmm") else 100_000
    found = audit(VARIANTS[name], privacy=privacy, graph=graph, rounds=20, trials=trials, seed=11)
    assert found.verdict == "consistent" and not found.contradicts_accountant


def test_published_pvp_passes_for_one_round_and_its_run_costs_the_composition() -> None:
    one = audit("pvp", privacy=tc.Privacy.from_paper(alpha=1.0), rounds=1, trials=4000, seed=2)
    assert one.verdict == "consistent" and np.abs(one.scores).max() <= 1.0


def test_a_trial_depends_on_its_number_only() -> None:
    scene = attack._scene(
        A.DPDDA(batch_size=3),
        noise_of("dpdda"),
        4,
        None,
        None,
        10,
        None,
        None,
        None,
        "metropolis",
        1,
        1e-8,
        3,
    )
    script = scene.script(aim.choose_canaries("worst", scene)[0])
    together = run_portion(script, 0, 16).scores
    assert np.array_equal(
        together,
        np.concatenate([run_portion(script, 0, 6).scores, run_portion(script, 6, 10).scores]),
    )


def test_checkpoints_are_resumed_and_guarded(tmp_path: Path) -> None:
    file = tmp_path / "audit.npz"
    settings: dict[str, Any] = {"privacy": noise_of("ipadmm"), "rounds": 2, "checkpoint": file}
    short = audit("ipadmm", trials=400, seed=1, **settings)
    with pytest.raises(StateError, match="resume=True"):
        audit("ipadmm", trials=400, seed=1, **settings)
    longer = audit("ipadmm", trials=800, seed=1, resume=True, **settings)
    assert np.array_equal(longer.scores[:400], short.scores)
    fresh = audit("ipadmm", trials=800, seed=1, **{**settings, "checkpoint": None})
    assert np.array_equal(longer.scores, fresh.scores)
    with pytest.raises(StateError, match="another audit"):
        audit("ipadmm", trials=800, seed=2, resume=True, **settings)
    file.write_bytes(b"not a checkpoint")
    with pytest.raises(StateError, match="cannot be read"):
        audit("ipadmm", trials=800, seed=1, resume=True, **settings)


def test_a_failing_audit_keeps_its_finished_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tacenda.auditing import trials

    file, real = tmp_path / "audit.npz", trials.run_portion

    def failing(script: Any, first: int, count: int) -> Any:
        if first > 0:
            raise RuntimeError("power cut")
        return real(script, first, count)

    monkeypatch.setattr(trials, "trials_at_once", lambda script: 100)
    settings: dict[str, Any] = {
        "privacy": noise_of("ipadmm"),
        "rounds": 1,
        "trials": 200,
        "seed": 1,
        "checkpoint": file,
    }
    monkeypatch.setattr(trials, "run_portion", failing)
    with pytest.raises(RuntimeError, match="power cut"):
        audit("ipadmm", **settings)
    monkeypatch.setattr(
        trials,
        "run_portion",
        lambda script, first, count: real(script, first, count) if first else pytest.fail("again"),
    )
    resumed = audit("ipadmm", resume=True, **settings)
    monkeypatch.undo()
    assert np.array_equal(
        resumed.scores, audit("ipadmm", **{**settings, "checkpoint": None}).scores
    )


@pytest.mark.slow
def test_processes_change_nothing() -> None:
    one = audit("ipadmm", privacy=noise_of("ipadmm"), rounds=2, trials=2000, seed=1)
    two = audit("ipadmm", privacy=noise_of("ipadmm"), rounds=2, trials=2000, seed=1, jobs=2)
    assert np.array_equal(one.scores, two.scores)


def test_a_user_s_own_problem_and_canary() -> None:
    data = support.problem(n=4, p=3)
    pair = (([0.0, 1.0, 0.0], "no"), ([0.0, 1.0, 0.0], "yes"))
    given = audit(
        "ipadmm",
        problem=data,
        graph=tc.graph.ring(4),
        privacy=noise_of("ipadmm"),
        rounds=2,
        trials=400,
        canary=pair,
        seed=1,
    )
    searched = audit(
        "ipadmm",
        problem=data,
        graph=tc.graph.ring(4),
        privacy=noise_of("ipadmm"),
        rounds=2,
        trials=400,
        seed=1,
    )
    assert given.verdict == searched.verdict == "consistent"
    assert given.canary["world 1"] == [[0.0, 1.0, 0.0], 1.0]
    assert np.mean(searched.scores[searched.truth == 1]) > np.mean(
        searched.scores[searched.truth == 0]
    )


def test_results_are_plain_and_saved(tmp_path: Path) -> None:
    import json

    found = audit("dpdda", privacy=noise_of("dpdda"), rounds=2, trials=400, seed=1)
    plain = json.loads(found.save(tmp_path / "audit.json").read_text())
    assert plain["verdict"] == "consistent" and plain["trials"] == 400 and plain["seed"] == 1
    assert "dpdda: consistent" in found.summary() and "95 %" in found.summary()


def test_the_names_are_functions_whatever_was_imported() -> None:
    import tacenda.auditing.one_run
    import tacenda.planning.needed

    assert tacenda.audit is audit and tacenda.audit_one_run is audit_one_run
    assert tacenda.plan is tacenda.planning.plan and inspect.isfunction(tacenda.plan)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"privacy": None}, "privacy"),
        ({"trials": 10}, "trials"),
        ({"canary": "best"}, "canary"),
        ({"canary": 3}, "canary"),
        ({"canary": (([5.0], 1), ([0.0], 1))}, "data_norm"),
        ({"canary": (([0.0], 7), ([0.0], 1))}, "label"),
        ({"node": 9}, "node"),
        ({"confidence": 2.0}, "confidence"),
        ({"jobs": 0}, "jobs"),
        ({"rounds": 0}, "rounds"),
    ],
)
def test_bad_input_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        audit(
            "ipadmm",
            **{"privacy": noise_of("ipadmm"), "rounds": 1, "trials": 100, "seed": 1, **settings},
        )


def test_a_public_algorithm_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="adds no noise"):
        audit("admm", privacy=noise_of("ipadmm"), rounds=1)


def test_copies_of_a_network_are_separate() -> None:
    ring = tc.graph.Topology.of(tc.graph.ring(5))
    copies = copies_of(ring, 3)
    whole = np.kron(np.eye(3), ring.adjacency().toarray())
    assert np.array_equal(copies.adjacency().toarray(), whole)
    indptr, indices, weights = copies.mixing("metropolis")
    assert (
        len(indptr) == 16
        and np.allclose(np.add.reduceat(weights, indptr[:-1]), 1)
        and indices.max() == 14
    )


# ---- one run
def _many(n: int = 20, p: int = 50, m: int = 100, loss: str = "hinge") -> Any:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, m, p))
    x /= np.linalg.norm(x, axis=2, keepdims=True) * (1 + 1e-9)
    return tc.Problem(
        [(x[i], np.where(x[i, :, 0] > 0, 1, -1)) for i in range(n)], loss=loss, strength=0.1
    )


@pytest.mark.parametrize("algorithm", [A.IPADMM(inner_steps=1), A.DPDDA(), A.CDPADMM()])
def test_one_run_passes_sound_noise_and_sees_much(algorithm: Any) -> None:
    found = audit_one_run(
        _many(), tc.graph.ring(20), algorithm, privacy=tc.Privacy(8.0, 1e-5), rounds=10, seed=1
    )
    assert found.coins == 1000 and found.verdict == "consistent" and found.lower_bound > 2
    assert found.right > 0.9 * found.guesses


@pytest.mark.parametrize("name", ["pvp", "dvp", "radmm", "madmm"])
def test_one_run_passes_argmin_algorithms(name: str) -> None:
    privacy = tc.Privacy.from_noise(round_epsilon=3.0)
    found = audit_one_run(
        _many(loss="logistic"),
        tc.graph.ring(20),
        ALGORITHMS[name](),
        privacy=privacy,
        rounds=4,
        seed=1,
    )
    assert found.verdict == "consistent"


def test_one_run_calls_too_little_noise_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    from tacenda.privacy.noise.sources import SimulatedNoise

    real = SimulatedNoise.add_gaussian
    monkeypatch.setattr(
        SimulatedNoise,
        "add_gaussian",
        lambda s, n, t, c, parts, std: real(s, n, t, c, parts, std / 8),
    )
    found = audit_one_run(
        _many(), tc.graph.ring(20), "dpdda", privacy=tc.Privacy(1.0, 1e-5), rounds=10, seed=1
    )
    assert found.verdict == "broken", found.summary()
    assert found.to_plain()["verdict"] == "broken"


def test_one_run_refuses_samples_and_too_many_canaries() -> None:
    data = _many(4, 3, 10)
    with pytest.raises(UnsupportedError, match="full-batch"):
        audit_one_run(
            data, tc.graph.ring(4), A.DPDDA(batch_size=2), privacy=tc.Privacy(1.0), rounds=2
        )
    with pytest.raises(InputError, match="canaries"):
        audit_one_run(
            data, tc.graph.ring(4), "dpdda", privacy=tc.Privacy(1.0), rounds=2, canaries=11
        )
