"""`account`, `calibrate`, `plan` and `audit` from the shell,
against the specification's golden figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def test_account_of_the_specifications_own_example(tools: Any) -> None:
    found = tools.answer(
        "account",
        "--algorithm",
        "ipadmm",
        "--rounds",
        100,
        "--inner",
        10,
        "--noise-multiplier",
        117.97,
    )
    privacy = found["runs"][0]["privacy"]
    assert privacy["n_releases"] == 1000 and privacy["accountant"] == "gaussian-exact"
    assert privacy["mu"] == pytest.approx(0.26805, abs=2e-5)
    assert privacy["epsilon"] == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(
    ("rounds", "alpha", "epsilon"), [(25, 0.1, 0.1996), (50, 0.05, 0.1342), (100, 0.05, 0.1908)]
)
def test_account_of_pure_rounds(tools: Any, rounds: int, alpha: float, epsilon: float) -> None:
    """In 104 dimensions; as arbitrary pure rounds they would have 1.875, 1.318 and 1.968."""
    found = tools.answer("account", "-a", "radmm", "--rounds", rounds, "--round-epsilon", alpha)
    assert found["runs"][0]["privacy"]["epsilon"] == pytest.approx(epsilon, abs=6e-4)


@pytest.mark.parametrize(("steps", "z"), [(10, 11.80), (100, 37.31), (1000, 117.97)])
def test_calibrate_gaussian_noise(tools: Any, steps: int, z: float) -> None:
    found = tools.answer(
        "calibrate",
        "-a",
        "ipadmm",
        "--hyper",
        "inner_steps=1",
        "--rounds",
        steps,
        "-e",
        1,
        "-d",
        1e-5,
    )
    assert found["runs"][0]["privacy"]["releases"][0]["first"]["noise_multiplier"] == pytest.approx(
        z, abs=6e-3
    )


def test_calibrate_shrinking_variance_and_back(tools: Any) -> None:
    found = tools.answer(
        "calibrate", "--algorithm", "cdpadmm", "--epsilon", 1, "--delta", 1e-5, "--rounds", 200
    )
    (releases,) = found["runs"][0]["privacy"]["releases"]
    first, last = (releases[end]["noise_multiplier"] for end in ("first", "last"))
    assert releases["count"] == 200 and last / first == pytest.approx(0.98**99.5)
    spent = sum(1 / (first**2 * 0.98**k) for k in range(200))
    assert spent == pytest.approx(0.26805**2, rel=1e-4)
    back = tools.answer("account", "-a", "cdpadmm", "--rounds", 200, "--noise-multiplier", first)
    assert back["runs"][0]["privacy"]["epsilon"] == pytest.approx(1.0, rel=1e-6)


def test_as_published_shows_the_claim_beside_the_truth(tools: Any) -> None:
    result = tools.tacenda(
        "calibrate", "-a", "ipadmm", "-T", 100, "-e", 1, "--mode", "as-published"
    )
    assert "epsilon    0.750977 " in result.output and "claimed    1 " in result.output


@pytest.mark.parametrize("ending", ["svg", "png", "html"])
def test_the_curve_is_drawn(tools: Any, tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"curve.{ending}"
    result = tools.tacenda(
        "account", "-a", "dpdda", "-T", 20, "--noise-multiplier", 5, "--plot", target
    )
    assert result.exit_code == 0, result.output
    start = target.read_bytes()[:200]
    assert {"svg": b"<?xml", "png": b"\x89PNG", "html": b"<html"}[ending] in start
    assert [p.name for p in tmp_path.iterdir()] == [target.name]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["account", "-a", "ipadmm"], "--noise-multiplier"),
        (["account", "-a", "dvp", "--noise-multiplier", "1"], "round_epsilon"),
        (["account", "-a", "ipadmm", "--round-epsilon", "1"], "noise_multiplier"),
        (["account", "-a", "ipadmm", "-z", "-1"], "above 0"),
        (["calibrate", "-a", "ipadmm", "-e", "0"], "epsilon"),
        (["calibrate", "-a", "ipadmm", "--delta", "2"], "delta"),
        (["calibrate", "-a", "ipadmm", "-H", "penalty"], "key=value"),
        (["calibrate", "-a", "ipadmm", "--adjacency", "add-remove"], "public_size"),
        (["calibrate", "-a", "ipadmm", "--plot", "curve.gif"], ".svg"),
        (["audit", "ipadmm", "--epsilon", "1", "-z", "2"], "not both"),
        (["audit", "dpdda", "--one-run", "--trials", "100"], "--trials"),
        (["audit", "dpdda", "--one-run", "--jobs", "2"], "--jobs"),
        (["audit", "dpdda", "--one-run", "-H", "batch_size=1"], "leave out --one-run"),
        (["audit", "dpdda", "--guesses", "5"], "--one-run"),
        (["audit", "dpdda", "--one-run", "--data", "wine", "--dim", "3"], "--dim"),
        (["audit", "dpdda", "--set", "problem.strength=1"], "--data"),
    ],
)
def test_mistakes_are_explained(tools: Any, arguments: list[str], words: str) -> None:
    result = tools.tacenda(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr and result.stderr.count("\n") == 1


def test_the_plan_explains_itself(tools: Any) -> None:
    arguments = ["plan", "--nodes", 20, "--records", 200, "--features", 30, "--epsilon", 2]
    assert "Why:" in tools.tacenda(*arguments).output
    found = tools.answer(*arguments)
    assert found["rounds"] > 0 and found["reasons"]


def test_the_audit_breaks_what_is_broken_and_says_so_by_its_exit_code(tools: Any) -> None:
    broken = tools.tacenda(
        "audit", "dvp", "--mode", "as-published", "-e", 1, "-d", 0, "-T", 1, "--trials", 2000, "-q"
    )
    assert broken.exit_code == 3 and "broken" in broken.output
    sound = tools.tacenda("audit", "dvp", "-e", 1, "-d", 0, "-T", 1, "--trials", 2000, "-q")
    assert sound.exit_code == 0 and "consistent" in sound.output


def test_one_run_attack_from_the_shell_is_the_one_of_python(tools: Any, tmp_path: Path) -> None:
    import tacenda as tc
    from tacenda.auditing import audit_one_run

    kept = tmp_path / "found.json"
    arguments = [
        "audit",
        "cdpadmm",
        "--one-run",
        "-e",
        8,
        "--seed",
        3,
        "-q",
        "--data",
        "breast_cancer",
        "--nodes",
        5,
        "--graph",
        "ring",
    ]
    found = tools.answer(*arguments, "--out", kept)
    assert found == {**json.loads(kept.read_text()), "claimed": found["claimed"]}
    data = tc.data.load("breast_cancer", intercept=True)
    problem = tc.Problem(tc.data.partition.even(data.X, data.y, 5, seed=0), classes=(0, 1))
    same = audit_one_run(
        problem,
        tc.graph.ring(5),
        "cdpadmm",
        privacy=tc.Privacy(8.0),
        rounds=10,
        seed=3,
        progress=False,
    )
    assert (found["coins"], found["guesses"], found["right"]) == (
        same.coins,
        same.guesses,
        same.right,
    ) and found["right"] > 10
    assert found["lower_bound"] == same.lower_bound > 0


def test_one_run_attack_on_the_stage_finds_too_little_noise(
    tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tacenda.privacy.noise.sources import SimulatedNoise

    sound = tools.tacenda("audit", "dpdda", "--one-run", "-e", 1, "--seed", 1, "-q")
    assert sound.exit_code == 0 and "consistent" in sound.output and "1000 canaries" in sound.output
    real = SimulatedNoise.add_gaussian
    monkeypatch.setattr(
        SimulatedNoise,
        "add_gaussian",
        lambda s, n, t, c, parts, std: real(s, n, t, c, parts, std / 8),
    )
    broken = tools.tacenda("audit", "dpdda", "--one-run", "-e", 1, "--seed", 1, "-q")
    assert broken.exit_code == 3 and "broken" in broken.output


def test_ledger_show_speaks_at_the_delta_of_the_run(tools: Any, tmp_path: Any) -> None:
    ledger = tmp_path / "a.ledger"
    tools.answer(
        "fit",
        *("--data", "breast_cancer", "--nodes", 3, "-e", 1, "-d", 1e-3, "--rounds", 2),
        *("-a", "gossipgd", "--set", f"run.ledger={ledger}", "--set", "run.ledger_dataset=clinic"),
        *("--folder", tmp_path / "run", "--seed", 0),
    )
    (found,) = tools.answer("ledger", "show", ledger)["datasets"]
    assert found["delta"] == 1e-3 and found["epsilon"] == pytest.approx(1.0, rel=1e-3)
