"""Cells, rows and judgements, without running the figures."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.algorithms.whitened import Whitened
from tacenda_papers.experiments import (
    claims,
    concentrated,
    equal_privacy,
    generated,
    ipadmm,
    ipadmm_batches,
    ipadmm_compare,
    ipadmm_steps,
    judging,
    perturbation,
    recycled,
    summary,
    tables,
    tuning,
)
from tacenda_papers.experiments import rows as tidy
from tacenda_papers.experiments.cells import LOCAL_LOSS, carry_out, ledger_name, run
from tacenda_papers.experiments.half_steps import RecycledHalfSteps
from tacenda_papers.experiments.registry import EXPERIMENTS
from tacenda_papers.experiments.rows import Rows
from tacenda_papers.experiments.spec import NO_PRIVACY, PUBLISHED, SOUND, Cell, Claim, Finding, Size

GENERATED = {"name": "classification", "n": 240, "features": 4, "seed": 1}


@pytest.mark.parametrize("size", ["quick", "reduced", "full"])
@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_every_cell_is_different_and_well_formed(name: str, size: str) -> None:
    cells = EXPERIMENTS[name].cells(Size(size))
    assert len({(c.mode, c.method, str(c.labels), c.seed) for c in cells}) == len(cells)
    for cell in cells:
        assert (cell.privacy is None) == (cell.mode == NO_PRIVACY)
        assert cell.privacy is None or ("paper" in cell.privacy) == (cell.mode == PUBLISHED)
        if cell.algorithm["name"] not in ("tuned", RecycledHalfSteps.name):
            tc.algorithms.from_plain(cell.algorithm)


def test_full_sizes_are_the_papers() -> None:
    adult = EXPERIMENTS["ipadmm-tradeoff"].cells(Size("full"))[0]
    assert (adult.nodes, adult.graph, adult.problem["strength"]) == (100, "complete:100", 1e-6)
    assert max(c.seed for c in EXPERIMENTS["ipadmm-compare"].cells(Size("full"))) == 9
    large = EXPERIMENTS["dda-convergence"].cells(Size("full"))[0]
    assert large.data["rows"] - large.data["held_out"] == 400_000 and large.rounds == 60_000
    assert {
        c.algorithm["inner_steps"] for c in EXPERIMENTS["ipadmm-inner"].cells(Size("full"))
    } >= {1, 10, 25}


def test_a_changed_setting_changes_the_key() -> None:
    cell = Cell(
        "a", SOUND, GENERATED, 4, "ring:4", {"name": "dpdda"}, 3, 0, privacy={"epsilon": 1.0}
    )
    assert cell.key() == replace(cell).key()
    others = [
        replace(cell, rounds=4),
        replace(cell, seed=1),
        replace(cell, privacy={"epsilon": 2.0}),
        replace(cell, graph="star:4"),
    ]
    assert len({cell.key(), *(o.key() for o in others)}) == 5
    assert cell.key() == replace(cell, method="b", labels={"epsilon": 1.0}).key()
    assert cell.family() == replace(cell, seed=1).family() != replace(cell, rounds=4).family()


def test_a_setting_that_comes_later_keeps_stored_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    from tacenda_papers.experiments import spec

    cell = Cell("a", SOUND, GENERATED, 4, "ring:4", {"name": "dpdda"}, 3, 0)
    with_it, later = cell.key(), [s for s in spec.SETTINGS if s.later]
    assert later and cell.key() != replace(cell, settings={later[0].name: 3}).key()
    monkeypatch.setattr(spec, "SETTINGS", [s for s in spec.SETTINGS if not s.later])
    assert cell.key() == with_it


def test_half_steps_are_recycled_admm() -> None:
    cell = Cell(
        "half",
        NO_PRIVACY,
        GENERATED,
        4,
        "complete:4",
        {"name": "radmm-half-steps"},
        8,
        0,
        problem={"strength": 0.01},
    )
    whole = replace(cell, algorithm={"name": "radmm"}, rounds=4)
    a, b = carry_out(cell), carry_out(whole)
    assert a[-1]["value"] == pytest.approx(b[-1]["value"], rel=1e-9)


def test_local_loss_leaves_out_the_scale() -> None:
    cell = Cell(
        "admm",
        NO_PRIVACY,
        GENERATED,
        4,
        "ring:4",
        {"name": "admm"},
        2,
        0,
        problem={"strength": 0.0, "loss_scale": 7.0},
    )
    row = carry_out(replace(cell, metrics=(LOCAL_LOSS, "local_objective")))
    assert row[0]["value"] == pytest.approx(row[1]["value"] / 7.0)


def test_a_stored_epsilon_is_the_one_that_would_be_composed(tmp_path: Path) -> None:
    cell = Cell(
        "PVP",
        PUBLISHED,
        GENERATED,
        4,
        "ring:4",
        {"name": "pvp"},
        3,
        0,
        problem={"strength": 0.1},
        privacy={"paper": {"alpha": 0.5, "delta": 1e-5}},
    )
    first = carry_out(cell, tmp_path)[0]["true_epsilon"]
    (stored,) = tmp_path.iterdir()
    others = [replace(cell, seed=1), replace(cell, every=1), replace(cell, metrics=("loss",))]
    for other in others:  # nothing that the composition depends on
        assert other.key() != cell.key()
        assert carry_out(other, tmp_path)[0]["true_epsilon"] == first
        assert carry_out(other)[0]["true_epsilon"] == first
    assert list(tmp_path.iterdir()) == [stored]
    different = [
        replace(cell, rounds=4),
        replace(cell, algorithm={"name": "pvp", "penalty": 1.0}),
        replace(cell, privacy={"paper": {"alpha": 0.4, "delta": 1e-5}}),
        replace(cell, solver_tolerance=1e-6),
        replace(cell, graph="complete:4"),
        replace(cell, data={**GENERATED, "n": 60}),
        replace(cell, problem={"strength": 0.2}),
    ]
    names = {ledger_name(run(c)[0].privacy) for c in (cell, *different)}
    assert stored.stem in names and len(names) == len(different) + 1


def test_test_accuracy_is_that_of_the_average_model() -> None:
    data = {**GENERATED, "held_out": 60}
    cell = Cell(
        "gd",
        NO_PRIVACY,
        data,
        3,
        "ring:3",
        {"name": "gossipgd", "noise": "independent"},
        5,
        0,
        metrics=("test_accuracy",),
        settings={"finish_mixing": 2},
    )
    found = carry_out(cell)
    made = tc.data.load("classification", n=240, features=4, seed=1)
    problem = tc.Problem(tc.data.partition.even(made.X[:180], made.y[:180], 3), classes=(0, 1))
    result = tc.simulate(
        problem,
        tc.graph.ring(3),
        tc.algorithms.GossipGD(noise="independent"),
        5,
        seed=0,
        finish_mixing=2,
    )
    by_hand = np.mean((made.X[180:] @ result.model >= 0) == (made.y[180:] == 1))
    assert found[-1]["value"] == pytest.approx(by_hand)


def test_a_difference_within_two_standard_errors_is_said_to_be_so() -> None:
    def rows(method: str, *values: float) -> list[tidy.Row]:
        return [
            {"mode": SOUND, "method": method, "metric": "m", "seed": k, "round": 1, "value": v}
            for k, v in enumerate(values)
        ]

    near = Rows([*rows("a", 1.0, 3.0), *rows("b", 2.0, 3.0)])  # errors 1 and 0.5, apart by 0.5
    far = Rows([*rows("a", 1.0, 1.2), *rows("b", 2.0, 2.2)])  # errors 0.1 each, apart by 1
    assert near.error(method="a") == pytest.approx(1.0) and near.error(method="b") == pytest.approx(
        0.5
    )
    for judge in (
        lambda r: judging.below(r, SOUND, "a", "b", "a is less"),
        lambda r: judging.ranked(r, SOUND, "a", "a is least"),
    ):
        assert (
            judge(near).holds
            and not judge(near).sure
            and "within two standard errors" in judge(near).sentence
        )
        assert judge(far).holds and judge(far).sure and "1.1 ± 0.1" in judge(far).detail


def test_a_single_run_decides_nothing() -> None:
    """Its error is unknown and not 0, however large the difference; so are a whole claim's."""
    one = Rows(_rows("a", [1.0]) + _rows("b", [9.0]))
    assert math.isnan(one.error(method="a")) and judging.apart(8.0, one.error(method="a")) is None
    assert judging.apart(8.0, 0.0) and judging.apart(0.1, 0.2) is False
    found = [
        judging.below(one, SOUND, "a", "b", "a is less"),
        judging.ranked(one, SOUND, "a", "a is less than all"),
        judging.falls(Rows(_rows("a", [3, 2, 1])), SOUND, "m", "epsilon", "a is less each time"),
    ]
    for each in found:
        assert each.holds and each.sure is None and "one run: error unknown" in each.sentence
        assert "±" not in each.sentence
    claim = Claim("", "", "", (("here", "a is less"),), "")
    assert claims.decide(claim, {"here": found}).verdict == claims.UNDECIDED


def test_a_factor_between_two_means_is_told_with_its_error() -> None:
    def pair(*values: float) -> Rows:
        seeds = [{**r, "seed": k} for k, v in enumerate(values) for r in _rows("b", [v])]
        return Rows([*seeds, *(dict(r, method="a", value=1.0) for r in seeds)])

    assert judging.within(pair(1.1, 1.11), "a", "b", 1.25) == (True, True)
    assert judging.within(pair(1.5, 1.51), "b", "a", 1.25) == (False, True)
    assert judging.within(pair(1.2, 1.26), "a", "b", 1.25) == (True, False)
    assert judging.within(pair(1.1), "a", "b", 1.25) == (True, None)
    runs = Rows({**r, "seed": k} for k in (0, 1) for r in _rows("a", [1.0 + k, 4.0 + k]))
    last = judging.over_seeds(runs, lambda run: float(run.values().max()))
    assert last == pytest.approx((4.5, 0.5))  # maxima 4 and 5


def test_tables_hold_means_and_errors_of_the_last_round() -> None:
    rows = Rows(
        {
            "mode": SOUND,
            "method": name,
            "metric": "m",
            "seed": seed,
            "round": t,
            "epsilon": eps,
            "value": value * t,
            "claimed_epsilon": None,
            "true_epsilon": eps,
        }
        for name, eps, seed, value in (
            ("a", 1.0, 0, 1.0),
            ("a", 1.0, 1, 3.0),
            ("a", 2.0, 0, 5.0),
            ("b", 1.0, 0, 7.0),
        )
        for t in (1, 2)
    )
    whole = tables.means(rows)
    assert [c.title for c in whole.columns] == [
        "mode",
        "method",
        "epsilon",
        "m",
        "claimed epsilon",
        "accounted epsilon",
    ]
    assert whole.rows[0] == [SOUND, "a", "1.0", "4 ± 2", "", "1"]
    crossed = tables.pivot(rows, "A caption", lambda r: r["method"], "epsilon", "method")
    assert crossed.rows == [["a", "4 ± 2", "10"], ["b", "14", ""]]
    assert tables.as_markdown(crossed).splitlines()[0] == "| method | epsilon 1 | epsilon 2 |"


def test_passing_needs_a_stretch_behind_and_an_end_ahead() -> None:
    def rows(*concentrated: float) -> Rows:
        curves = {"CDP-ADMM": concentrated, "DDP-ADMM": (3.0, 2.0, 1.0)}
        return Rows(
            {"method": m, "round": 2 * t, "seed": 0, "value": v}
            for m, c in curves.items()
            for t, v in enumerate(c, 1)
        )

    passed = concentrated._passes(rows(3.0, 2.5, 0.5), SOUND, "phi")
    assert passed.holds and "between rounds 4 and 4" in passed.detail
    assert not concentrated._passes(rows(3.5, 2.5, 1.5), SOUND, "phi").holds  # never comes back
    assert not concentrated._passes(rows(2.0, 1.0, 0.5), SOUND, "phi").holds  # was never behind


def test_winners_are_told_apart_from_ties_and_the_ranking_weighs_panels_alike() -> None:
    about = {
        "mode": SOUND,
        "dataset": "adult",
        "epsilon": 1.0,
        "metric": "test_accuracy",
        "round": 1,
    }
    found = {
        ("ring:20", "a"): (0.8, 0.82),
        ("ring:20", "b"): (0.7, 0.72),  # a by ten standard errors
        ("complete:20", "a"): (0.5, 0.7),
        ("complete:20", "b"): (0.62, 0.64),  # b, within one
    }
    rows = Rows(
        {**about, "nodes": 20, "graph": g, "method": m, "seed": k, "value": v}
        for (g, m), values in found.items()
        for k, v in enumerate(values)
    )
    assert (
        equal_privacy._winners(rows, ()) == "a in 1 (1 clearly), b in 1 (0 clearly) of 2 settings"
    )
    # a: 0.81 and 0.60, b: 0.71 and 0.63; the error is that of two panels, half their distance
    assert equal_privacy.overall(rows).rows == [["a", "0.705 ± 0.1"], ["b", "0.67 ± 0.04"]]


def test_excess_with_violation_is_21_by_hand() -> None:
    found = {"objective": 0.5, "suboptimality": 0.1, "local_objective": 0.45, "infeasibility": 30.0}
    about = {
        "mode": PUBLISHED,
        "method": "IPADMM",
        "seed": 0,
        "epsilon": 1.0,
        "nodes": 3,
        "round": 7,
    }
    rows = Rows({**about, "metric": m, "value": v} for m, v in found.items())
    # least 0.4; 0.45 - 0.4 + 0.01/3 * (both directions of every edge: 60)
    assert ipadmm.excess_with_violation(rows).values() == pytest.approx([0.05 + 0.2])


def test_passes_are_counted_to_a_level_of_the_loss() -> None:
    curves = {"ADMM": [5, 4, 3, 2, 1, 1], "R-ADMM, gamma 1": [5, 1, 2, 9, 1, 9]}
    rows = Rows(
        {"method": m, "round": t, "metric": metric, "value": float(v)}
        for m, values in curves.items()
        for t, loss in enumerate(values, 1)
        for metric, v in ((LOCAL_LOSS, loss), ("data_passes", 10 * t))
    )
    # ADMM reaches 2 at iteration 4; R-ADMM at iteration 3, its second odd one
    assert recycled.passes_to(rows, "ADMM", 2.0) == 40
    assert recycled.passes_to(rows, "R-ADMM, gamma 1", 2.0) == 30
    assert recycled.passes_to(rows, "ADMM", 0.5) == math.inf


def test_worse_than_alone_counts_settings_for_each_kind_of_noise() -> None:
    found = {  # one node alone has 0.7 at epsilon 1 and 0.8 at epsilon 2
        "DVP": (0.6, 0.7),
        "R-ADMM": (0.6, 0.81),
        "DVP, Gaussian": (0.75, 0.79),
        "R-ADMM, Gaussian": (0.76, 0.82),
        equal_privacy.ALONE: (0.7, 0.8),
    }
    about = {"mode": SOUND, "dataset": "adult", "nodes": 20, "graph": "ring:20", "seed": 0}
    rows = Rows(
        {**about, "metric": "test_accuracy", "round": 1, "method": m, "epsilon": e, "value": v}
        for m, values in found.items()
        for e, v in zip((1.0, 2.0), values, strict=True)
    )
    assert equal_privacy.below_alone(rows) == {
        "DVP": (2, 2, 2),  # of a single run the error is not known: no setting is clear
        "R-ADMM": (1, 2, 2),
        "DVP, Gaussian": (1, 2, 2),
        "R-ADMM, Gaussian": (0, 2, 2),
    }
    assert not any(f.sure for f in equal_privacy._noise_in_the_objective(rows))
    told = {f.claim: f.holds for f in equal_privacy._noise_in_the_objective(rows)}
    assert told == {
        "objective perturbation with l2-Laplace noise is worse than one node alone in at least "
        "half of the settings": True,
        "objective perturbation with Gaussian noise is worse than one node alone in at least "
        "half of the settings": False,
        "DVP is better with Gaussian noise in every setting": True,
        "R-ADMM is better with Gaussian noise in every setting": True,
    }


def test_inner_steps_are_compared_between_first_and_last_and_across_both_constants() -> None:
    """More steps help with the paper's c2 and do not beat a single step with the small one."""
    risks = {1.0: {1: (0.5, 0.52), 25: (0.4, 0.42)}, 0.01: {1: (0.38, 0.4), 25: (0.39, 0.4)}}
    rows = Rows(
        {
            "mode": mode,
            "method": ipadmm_steps.step_name(slope, 20.0, 10),
            "metric": "objective",
            "inner_steps": k,
            "seed": seed,
            "round": 10,
            "value": v,
            "claimed_epsilon": 1.0,
            "true_epsilon": 0.751,
        }
        for mode in (PUBLISHED, SOUND)
        for slope, by_steps in risks.items()
        for k, values in by_steps.items()
        for seed, v in enumerate(values)
    )
    told = {(f.mode, f.claim): f for f in ipadmm_steps._inner_findings(rows)}
    helps = told[SOUND, "more inner steps lower the risk (IPADMM, c2/n = 1, D = 20, T = 10)"]
    assert helps.holds and helps.sure and "0.51 ± 0.01 at l = 1" in helps.short
    flat = told[SOUND, "more inner steps lower the risk (IPADMM, c2/n = 0.01, D = 20, T = 10)"]
    assert not flat.holds and not flat.sure
    across = "l = 25 with c2/n = 1 ends below l = 1 with c2/n = 0.01 (D = 20, T = 10)"
    assert not told[SOUND, across].holds


def test_batches_tell_where_risk_is_lost_and_where_the_stated_epsilon_is_too_small() -> None:
    true, risk = {100: 0.75, 50: 0.76, 1: 9.0}, {100: 0.4, 50: 0.403, 1: 0.5}
    rows = Rows(
        {
            "mode": mode,
            "method": "IPADMM",
            "metric": "objective",
            "batch": b,
            "seed": 0,
            "round": 30,
            "seconds": b / 100,
            "value": risk[b],
            "claimed_epsilon": 1.0 if mode == PUBLISHED else None,
            "true_epsilon": true[b] if mode == PUBLISHED else 1.0,
        }
        for mode in (PUBLISHED, SOUND)
        for b in true
    )
    found = ipadmm_batches._batch_findings(rows)
    told = {(f.mode, f.claim): f.holds for f in found}
    for mode in (PUBLISHED, SOUND):
        assert told[mode, "batches of 50 records end within 1 % of the risk of all 100"]
        assert not told[mode, "batches of 1 records end within 1 % of the risk of all 100"]
    drawn = "the claimed epsilon holds for batches of {}, drawn with replacement"
    assert [told[PUBLISHED, drawn.format(b)] for b in (50, 1)] == [True, False]
    verdict = ipadmm_batches._batch_survives(found, rows)
    assert "Batches of 50 of 100 records cost no risk" in verdict
    assert "batches of 1 (epsilon at least " in verdict
    # 30 rounds of 10 steps with half of the records are 150 passes over the data
    line = next(x for x in ipadmm_batches._batch_table(rows)[0].rows if x[:2] == [SOUND, "50"])
    assert line == [SOUND, "50", "0.403", "0.5", "150", "1", ""]


def test_rows_survive_the_file(tmp_path: Path) -> None:
    kept = [
        {
            "experiment": "e",
            "mode": SOUND,
            "method": "a, b",
            "seed": 0,
            "round": 3,
            "metric": "m",
            "value": 0.1 + 0.2,
            "true_epsilon": None,
        }
    ]
    tidy.write(tmp_path / "r.csv", kept)
    again = tidy.read(tmp_path / "r.csv").rows[0]
    assert {k: again[k] for k in kept[0]} == kept[0]


def test_packed_rows_keep_seven_digits_and_give_equal_bytes(tmp_path: Path) -> None:
    kept = [{"mode": SOUND, "method": "a, b", "seed": 3, "value": 1 / 3, "true_epsilon": None}] * 50
    one = tidy.write_compact(tmp_path / "one" / "r.csv.gz", kept)
    two = tidy.write_compact(tmp_path / "two" / "r.csv.gz", kept)
    assert one.read_bytes() == two.read_bytes() and one.stat().st_size < 200
    again = tidy.read(one)
    assert len(again) == 50
    assert again.rows[0] == {**kept[0], "value": 0.3333333}


def _rows(method: str, values: list[float], x: str = "epsilon") -> list[tidy.Row]:
    return [
        {
            "mode": SOUND,
            "method": method,
            "metric": "m",
            "seed": 0,
            "round": 1,
            x: k + 1,
            "value": v,
        }
        for k, v in enumerate(values)
    ]


def test_falls_means_what_it_says() -> None:
    assert judging.falls(Rows(_rows("a", [3, 2, 1])), SOUND, "m", "epsilon", "c").holds
    assert not judging.falls(Rows(_rows("a", [1, 2, 3])), SOUND, "m", "epsilon", "c").holds
    assert not judging.falls(Rows(_rows("a", [3, 1, 2])), SOUND, "m", "epsilon", "c").holds


def test_ranked_and_below_compare_means_and_never_pass_on_missing_rows() -> None:
    rows = Rows(_rows("a", [1.0, 3.0]) + _rows("b", [2.0, 2.5]))
    assert judging.ranked(rows, SOUND, "a", "c").holds
    assert not judging.ranked(rows, SOUND, "b", "c").holds
    assert not judging.below(rows, SOUND, "b", "a", "c").holds
    assert not judging.below(rows, SOUND, "a", "missing", "c").holds


def test_last_keeps_the_newest_round_of_each_run() -> None:
    rows = [
        {"method": "a", "seed": s, "round": t, "metric": "m", "value": 10.0 * s + t}
        for s in (0, 1)
        for t in (1, 2, 3)
    ]
    assert sorted(Rows(rows).last().values()) == [3.0, 13.0]


def test_the_optimal_level_is_found_from_the_rows_of_the_figure() -> None:
    def row(method: str, mode: str, level: float, value: float) -> tidy.Row:
        return {
            "mode": mode,
            "method": method,
            "metric": "own_loss",
            "seed": 0,
            "round": 9,
            "level": level,
            "value": value,
        }

    rows = [
        row("DVP", PUBLISHED, a, 0.2 * math.exp(-25 * a) + 0.35)
        for a in (0.02, 0.05, 0.1, 0.3, 1.0)
    ]
    rows.append(row("DVP, no noise", NO_PRIVACY, 0.0, 0.34))
    fit, best = perturbation.optimum(Rows(rows), "DVP")
    assert (fit.c4, fit.c5, fit.c6) == pytest.approx((0.2, 25.0, 0.35), rel=1e-4)
    grid = np.geomspace(0.02, 1.0, 200_001)
    cost = 0.2 * np.exp(-25 * grid) + 0.35 - 0.02 * np.log(6 / (9 * grid + grid**2))
    allowed = 0.2 * np.exp(-25 * grid) + 0.35 <= 0.34 + 0.135
    assert best is not None
    assert best.alpha == pytest.approx(grid[allowed][np.argmin(cost[allowed])], rel=1e-3)


def test_every_method_has_the_same_number_of_trials() -> None:
    whitened = [m + tuning.WHITENED for m in tuning.PAIRED]
    for method in (*tuning.METHODS, *tuning.PAIRED, *whitened):
        tried = tuning.candidates(method, 6.0, 25)
        assert len(tried) == tuning.TRIALS
        for setting in tried:
            found = tc.algorithms.from_plain(setting["algorithm"])
            assert isinstance(found, Whitened) is (method in whitened)


def test_weights_are_compared_at_equal_privacy_where_both_were_run() -> None:
    """Plain DDA needs noise too: without private rows of it there is no such statement."""
    from tacenda_papers.experiments import dual_averaging as dda

    means = {dda.DP: 0.08, dda.PLAIN: 0.1, dda.ALL: 0.5, dda.PLAIN_ALL: 0.2}
    free = {f"{dda.DP}, no noise": 0.01, f"{dda.PLAIN}, no noise": 0.03}
    made = [
        {
            "mode": mode,
            "method": name,
            "seed": seed,
            "round": turn,
            "metric": metric,
            "value": mean * (1 + seed / 100) / turn,
            "claimed_epsilon": 1.0,
            "true_epsilon": 900.0,
        }
        for mode, known in (("sound", means), ("no privacy", free), ("as published", {dda.DP: 0.1}))
        for name, mean in known.items()
        for seed in (0, 1)
        for turn in (1, 2, 4, 8)
        for metric in ("suboptimality", "test_accuracy")
    ]
    part = "at equal epsilon DP-DDA's weights converge faster"
    found = [f for f in dda._course_findings(Rows(made), "words") if part in f.claim]
    assert [(f.mode, f.holds) for f in found] == [("sound", True), ("sound", False)]
    for times, sure in ((600, True), (1, False)):  # an upper bound of 900 is no proof by itself
        longer = Rows({**r, "round": r["round"] * times} for r in made)
        kept = dda._course_findings(longer, "words")[-1]
        assert "keeps the claimed privacy" in kept.claim and not kept.holds and kept.sure is sure
    old = [r for r in made if r["method"] not in (dda.PLAIN, dda.PLAIN_ALL)]
    assert not [f for f in dda._course_findings(Rows(old), "words") if part in f.claim]


def test_a_page_says_how_much_of_the_full_size_it_shows() -> None:
    from tacenda_papers.experiments.player import Stored

    experiment = EXPERIMENTS["ipadmm-tradeoff"]  # 10 levels and 10 seeds at full size
    for size, seeds, words in (
        ("full", 10, "full size"),
        ("full", 3, "full size with 3 of its 10 seeds, for time"),
        ("reduced", 2, "reduced size, for time (the full one has 100 runs, 10 seeds)"),
        ("quick", 2, "quick size"),
    ):
        rows = Rows({"seed": k} for k in range(seeds))
        assert summary.extent(Stored(experiment, rows, Size(size))) == words


def test_a_rho_that_is_not_clearly_better_does_not_count_against_table_1() -> None:
    """PVP's own at 10^-0.5 is far below Table 1's 10^-1; DVP's at 10^-10 within the errors."""
    from tacenda_papers.experiments import perturbation_choice as choice

    means = {
        "no noise": {-10: (0.3, 0.3), -1: (0.4, 0.4)},
        "DVP": {-10: (0.378, 0.382), -2.5: (0.379, 0.383)},
        "PVP": {-1: (9.0, 9.4), -0.5: (2.3, 2.4)},
    }
    rows = Rows(
        {
            "mode": NO_PRIVACY if name == "no noise" else PUBLISHED,
            "method": name,
            "metric": "own_loss",
            "round": 100,
            "level": level,
            "seed": seed,
            "value": v,
            "claimed_epsilon": 0.3,
            "true_epsilon": level + 20.0,
        }
        for name, known in means.items()
        for level, values in known.items()
        for seed, v in enumerate(values)
    )
    found = choice._strength_findings(rows)
    assert [(f.holds, f.sure) for f in found] == [(True, True), (True, True), (False, True)]
    told = choice._strength_verdict(found, rows)
    assert "for 2 of 3 methods" in told
    assert "DVP claims 0.3 and has 17.5; PVP claims 0.3 and has 19" in told.replace(" a round", "")
    one = choice._strength_findings(rows.where(seed=0))
    assert one[1].sure is None  # one run: nobody knows


def test_the_error_of_a_spread_is_that_of_leaving_out_a_seed() -> None:
    """Of a mean the jackknife gives the usual standard error; of two seeds none."""
    values = [3.0, 1.0, 4.0, 1.5, 9.0]
    rows = Rows({"seed": k, "value": v} for k, v in enumerate(values))
    mean, error = judging.jackknife(rows, lambda some: some.mean())
    assert mean == pytest.approx(np.mean(values))
    assert error == pytest.approx(rows.error())
    spread, doubt = judging.jackknife(rows, lambda some: float(some.values().std(ddof=1)))
    assert spread == pytest.approx(np.std(values, ddof=1)) and 0.3 * spread < doubt < spread
    assert np.isnan(judging.jackknife(rows.where(lambda r: r["seed"] < 2), lambda r: r.mean())[1])


def test_a_fall_that_fails_is_as_sure_as_the_rise_in_it() -> None:
    def rows(middle: tuple[float, float]) -> Rows:
        pairs = [(9.0, 9.1), (4.0, 4.1), middle, (1.0, 1.1)]
        return Rows(
            {"metric": "m", "round": 1, "seed": s, "epsilon": k, "value": v}
            for k, pair in enumerate(pairs)
            for s, v in enumerate(pair)
        )

    for middle, holds, sure in (
        ((3.0, 3.1), True, True),
        ((6.0, 6.1), False, True),
        ((2.0, 10.0), False, False),
    ):
        told = judging.falls(rows(middle), SOUND, "m", "epsilon", "c")
        assert (told.holds, told.sure) == (holds, sure)


def test_steep_rows_have_half_their_energy_in_one_direction_and_a_bound() -> None:
    x, y = generated.steep_rows(4000, 12, tuning.DIFFICULTY, 3)
    assert np.linalg.norm(x, axis=1).max() <= 1.0 + 1e-12
    e = np.linalg.eigvalsh(x.T @ x / len(x))[::-1]
    assert 0.45 < e[0] < 0.6
    assert e[1] / e[-1] == pytest.approx(11.0, rel=0.25)  # the rest falls as 1/k
    assert set(np.unique(y)) == {0, 1} and 0.2 < y.mean() < 0.5


def test_tuning_sees_the_shape_only_and_takes_the_best_trial() -> None:
    known = {
        "nodes": 3,
        "records": 60,
        "features": 4,
        "graph": "ring:3",
        "problem": {"strength": 1e-3},
    }
    weak = tuning.best("GossipGD, independent", privacy={"epsilon": 0.05, "delta": 1e-5}, **known)
    strong = tuning.best(
        "GossipGD, independent", privacy={"epsilon": 1000.0, "delta": 1e-5}, **known
    )
    assert weak["algorithm"]["step_size"] < strong["algorithm"]["step_size"]


def _course(method: str, values: list[float], **more: Any) -> list[tidy.Row]:
    return [
        {
            "mode": SOUND,
            "method": method,
            "metric": "objective",
            "seed": 0,
            "round": t,
            "value": v,
            **more,
        }
        for t, v in enumerate(values, start=1)
    ]


def test_swings_are_measured_over_the_second_half() -> None:
    rows = Rows(
        _course("IPADMM", [9.0, 1.0, 2.0, 2.2, 1.8, 2.0], epsilon=1.0)
        + _course("DVP", [2.0, 2.0, 2.0, 3.0, 1.0, 2.0], epsilon=1.0)
    )
    found = {r["method"]: r["value"] for r in ipadmm_compare.swing(rows)}
    # 2.2, 1.8, 2.0: moves of 0.4 and 0.2 around a mean of 2
    assert found["IPADMM"] == pytest.approx(0.3 / 2)
    assert found["DVP"] == pytest.approx(1.5 / 2)
    told = ipadmm_compare._steadiest(rows, SOUND)
    assert told.holds and "at epsilon 1" in told.claim


def test_a_larger_gamma_is_told_by_its_swing_and_its_speed() -> None:
    courses = {0.2: [3.0, 2.0, 1.0, 1.8, 0.8, 1.6], 1.0: [3.0, 2.0, 1.5, 1.7, 1.0, 1.2]}
    courses[5.0] = [3.0, 2.5, 2.0, 2.0, 1.5, 1.6]
    rows = Rows(
        row for g, values in courses.items() for row in _course(f"R-ADMM, gamma {g:g}", values)
    )
    # 2 lies on the line from 3 to 1, and 1.8 is 0.9 above the mean of 1 and 0.8
    assert recycled.swing(rows.where(method="R-ADMM, gamma 0.2")) == pytest.approx(0.45)
    swings, slower = recycled._larger_gamma(rows, 5)
    assert swings.holds and "0.125 with gamma 5" in swings.detail
    assert slower.holds and "2 with gamma 5" in slower.detail
    other = {"0.2": "5", "5": "0.2", "1": "1"}
    turned = Rows({**r, "method": f"R-ADMM, gamma {other[r['method'].split()[-1]]}"} for r in rows)
    assert not any(f.holds for f in recycled._larger_gamma(turned, 5))


def test_bounds_are_marked_also_when_rows_come_from_a_file(tmp_path: Path) -> None:
    row = {"mode": PUBLISHED, "method": "DVP", "claimed_epsilon": 0.3, "true_epsilon": 3.0}
    for exact, words in ((False, "has at most 3"), (True, "has 3")):
        tidy.write(tmp_path / "r.csv", [{**row, "exact": exact}])
        assert words in judging.true_epsilons(tidy.read(tmp_path / "r.csv"))


def test_the_preference_for_dvp_is_told_both_ways() -> None:
    """DVP ahead as published and behind at equal epsilon; a level within the errors counts for
    neither."""
    found = [
        Finding(mode, f"DVP's own loss is below PVP's at {level}", holds, "", sure)
        for mode, level, holds, sure in (
            (PUBLISHED, "alpha 0.1", True, True),
            (PUBLISHED, "alpha 0.3", True, True),
            (SOUND, "epsilon 1", False, True),
            (SOUND, "epsilon 5", True, False),
        )
    ]
    told = perturbation.verdict(found, Rows())
    assert "as published at 2 of 2 levels" in told
    assert "centred on released values, at 0 of 1 levels" in told


def test_a_page_says_whom_a_comparison_of_bounds_favours() -> None:
    def rows(*kinds: tuple[str, bool | None]) -> Rows:
        return Rows({"mode": SOUND, "method": name, "exact": exact} for name, exact in kinds)

    assert summary.favoured(rows(("a", False), ("b", False))) == ""
    assert summary.favoured(rows(("a", True), ("b", None))) == ""
    told = summary.favoured(rows(("a", False), ("b", True), ("c", True), ("c", False)))
    assert "an upper bound: a; some runs of c." in told
    assert told.endswith("favours them: b; some runs of c.")
