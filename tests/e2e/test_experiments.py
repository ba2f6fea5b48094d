"""`tacenda experiment`: run, resume, side by side, report, through the command line."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tacenda.cli.app import app
from tacenda.engines import Workers
from tacenda_papers.experiments import player
from tacenda_papers.experiments import rows as tidy
from tacenda_papers.experiments.registry import CLAIMS, EXPERIMENTS, by_name
from tacenda_papers.experiments.spec import NO_PRIVACY, PUBLISHED, SOUND, Cell, Size

TWO = Workers(jobs=2)


def invoke(*words: str) -> str:
    found = CliRunner().invoke(app, ["experiment", *words])
    assert found.exit_code == 0, found.output
    return found.stdout


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("experiments")
    for name in ("recycled-convergence", "ipadmm-tradeoff", "many-members"):
        player.play(by_name(name), Size("quick", 1), folder, show=False)
    return folder


def test_list_shows_every_row_of_the_specification() -> None:
    named = {row["name"] for row in json.loads(invoke("list", "--json"))}
    assert named == {
        "ipadmm-tradeoff",
        "ipadmm-inner",
        "ipadmm-batches",
        "ipadmm-compare",
        "recycled-convergence",
        "recycled-private",
        "recycled-penalty",
        "recycled-rates",
        "dda-convergence",
        "dda-tradeoff",
        "dda-sparsity",
        "dda-varying",
        "perturbation-convergence",
        "perturbation-tradeoff",
        "perturbation-strength",
        "perturbation-samples",
        "cdp-lasso",
        "cdp-decay",
        "cdp-nonsmooth",
        "equal-privacy",
        "many-members",
        "whitened-methods",
    }


def test_the_list_stands_in_columns() -> None:
    lines = invoke("list").splitlines()
    papers = [row["paper"] for row in json.loads(invoke("list", "--json"))]
    assert len({line.index(paper) for line, paper in zip(lines, papers, strict=True)}) == 1
    assert max(map(len, lines)) < 200


def test_run_tells_the_verdict_and_repeats_nothing(out: Path) -> None:
    before = {c.name: c.stat().st_mtime_ns for c in (out / "cells").iterdir()}
    told = json.loads(
        invoke(
            "run", "recycled-convergence", "--quick", "--seeds", "1", "--out", str(out), "--json"
        )
    )
    assert told[0]["verdict"].startswith("No noise is involved")
    # the clock of runs of a few milliseconds, one of which compiles, tells of the machine only
    timed = [f for f in told[0]["findings"] if "take less time" in f["claim"]]
    assert len(timed) == 2
    told_apart = [f for f in told[0]["findings"] if "larger gamma" in f["claim"]]
    assert len(told_apart) == 4  # of 16 iterations on generated data: no claim about their order
    rest = [f for f in told[0]["findings"] if f not in timed + told_apart]
    assert rest and all(f["holds"] for f in rest)
    assert before and {c.name: c.stat().st_mtime_ns for c in (out / "cells").iterdir()} == before


def test_a_lost_cell_is_made_again_with_the_same_numbers(out: Path) -> None:
    experiment, size = by_name("ipadmm-tradeoff"), Size("quick", 1)
    folder = player.folder_of(out, experiment, size)
    whole = [r["value"] for r in tidy.read(folder / "rows.csv")]
    lost = out / "cells" / f"{experiment.cells(size)[0].key()}.csv"
    lost.unlink()
    again = player.play(experiment, size, out, show=False)
    assert lost.is_file()
    assert [r["value"] for r in again] == whole


def test_one_run_under_two_names_is_made_once(tmp_path: Path) -> None:
    cell = Cell(
        "a",
        NO_PRIVACY,
        {"name": "classification", "n": 60, "features": 2, "seed": 1},
        3,
        "ring:3",
        {"name": "admm"},
        2,
        0,
    )
    twice = replace(
        by_name("cdp-lasso"),
        cells=lambda size: [
            cell,
            replace(cell, method="b", labels={"epsilon": 1.0}),
            replace(cell, seed=1),
        ],
    )
    rows = player.play(twice, Size(), tmp_path, workers=TWO, show=False)
    assert len(list((tmp_path / "cells").iterdir())) == 2
    assert [(r["method"], r["seed"]) for r in rows] == [("a", 0), ("b", 0), ("a", 1)]
    assert rows.rows[0]["value"] == rows.rows[1]["value"]


def test_side_by_side_gives_the_same_rows(out: Path, tmp_path: Path) -> None:
    experiment, size = by_name("recycled-convergence"), Size("quick", 1)
    alone = [(r["method"], r["round"], r["value"]) for r in player.stored(experiment, size, out)]
    two = player.play(experiment, size, tmp_path, workers=TWO, show=False)
    assert [(r["method"], r["round"], r["value"]) for r in two] == alone


def test_the_truth_stands_beside_the_claim(out: Path) -> None:
    rows = player.stored(by_name("ipadmm-tradeoff"), Size("quick"), out)
    one = rows.where(mode=PUBLISHED, epsilon=1.0).rows[0]
    assert one["claimed_epsilon"] == 1.0
    assert one["true_epsilon"] == pytest.approx(0.751, abs=5e-4)
    assert all(
        r["true_epsilon"] == pytest.approx(r["epsilon"], rel=1e-6) for r in rows.where(mode=SOUND)
    )


def test_shared_noise_beats_independent_noise_on_many_members(out: Path) -> None:
    experiment = by_name("many-members")
    found = experiment.findings(player.stored(experiment, Size("quick"), out))
    assert all(f.holds for f in found), [f.sentence for f in found]


def test_report_is_one_file_that_needs_nothing_else(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tacenda_papers.experiments import headline
    from tacenda_papers.experiments.headline import Headline

    row = Headline(
        "Liu et al. (2022)", "a setting", 1.0, 0.01, 1806.4, False, "replace-one", "unsound"
    )
    # The real table takes a minute and has its own test
    monkeypatch.setattr(headline, "headlines", lambda: [row])
    target, summary = tmp_path / "page.html", tmp_path / "results.md"
    summary.write_text("# Old results\n")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "gone.md").write_text("# An experiment that is no longer there\n")
    invoke("report", "--quick", "--out", str(out), "--to", str(target), "--markdown", str(summary))
    text = target.read_text("utf-8")
    assert 'src="http' not in text
    assert '<link rel="stylesheet' not in text
    for word in (
        "recycled-convergence",
        "many-members",
        "Which method to use when",
        "Verdict",
        "1806",
    ):
        assert word in text
    # Overview, Huang and Gong (2020), Zhang et al. (2018), our own, which method
    assert text.count('<section class="page"') == 5
    told = summary.read_text("utf-8")
    link = "[ipadmm-tradeoff](results/ipadmm-tradeoff.md)"
    assert f"| {link} | Huang and Gong (2020), Fig. 1 |" in told
    assert "Not run at this size: ipadmm-inner" in told
    assert "# Old results" not in told
    # A claim is decided by the rows, one seed decides nothing, and a claim without rows says so
    line = next(x for x in told.splitlines() if x.startswith("| A larger epsilon gives"))
    assert "| undecided" in line and "at epsilon 0.2" in line and f"| {link} |" in line
    line = next(x for x in told.splitlines() if x.startswith("| Several steps with the paper's c2"))
    assert "| not run |" in line and "Not run at this size: ipadmm-inner" in line
    assert "A larger epsilon gives a lower risk." in text
    own = (tmp_path / "results" / "ipadmm-tradeoff.md").read_text("utf-8")
    assert own.startswith("# ipadmm-tradeoff (Huang and Gong (2020), Fig. 1)")
    folder, names = (
        tmp_path / "results",
        {"recycled-convergence", "ipadmm-tradeoff", "many-members"},
    )
    assert {p.stem for p in folder.glob("*.md")} == names
    # Every picture that a page names is there, and nothing else
    shown = [re.findall(r"\((figures/[^)]+)\)", p.read_text("utf-8")) for p in folder.glob("*.md")]
    assert all(shown)
    named = {one for found in shown for one in found}
    assert named == {f"figures/{p.name}" for p in (folder / "figures").iterdir()}
    # The packed rows give the same page again
    packed, again = folder / "rows", tmp_path / "again.html"
    assert {p.name for p in (packed / "quick").iterdir()} == names
    drawings = tmp_path / "drawings"
    invoke(
        *("report", "--quick", "--out", str(packed), "--to", str(again)),
        *("--figures", str(drawings)),
    )
    assert again.read_text("utf-8").count('<section class="page"') == 5
    assert {p.stem for p in drawings.glob("*.pdf")} == {Path(one).stem for one in named}
    assert {p.stem for p in drawings.glob("*.svg")} == {Path(one).stem for one in named}


def test_report_makes_the_runs_that_are_missing(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tacenda_papers.experiments import headline, registry

    monkeypatch.setattr(headline, "headlines", list)
    monkeypatch.setattr(
        registry, "EXPERIMENTS", {"recycled-convergence": by_name("recycled-convergence")}
    )
    target = tmp_path / "page.html"
    invoke("report", "--quick", "--run", "--out", str(tmp_path / "fresh"), "--to", str(target))
    assert "recycled-convergence" in target.read_text("utf-8")
    assert (tmp_path / "fresh" / "quick" / "recycled-convergence" / "rows.csv").is_file()


def test_report_without_results_says_what_to_do(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["experiment", "report", "--full", "--out", str(tmp_path)])
    assert found.exit_code == 4
    assert "experiment run --all --full" in found.stderr


def test_unknown_names_and_two_sizes_are_refused(tmp_path: Path) -> None:
    near = CliRunner().invoke(app, ["experiment", "run", "cdp-laso", "--out", str(tmp_path)])
    assert near.exit_code == 2 and "'cdp-lasso'" in near.stderr
    both = CliRunner().invoke(
        app, ["experiment", "run", "cdp-lasso", "--quick", "--full", "--out", str(tmp_path)]
    )
    assert both.exit_code == 2 and "one of --quick" in both.stderr
    none = CliRunner().invoke(app, ["experiment", "run", "--out", str(tmp_path)])
    assert none.exit_code == 2 and "--all" in none.stderr
    assert list(tmp_path.iterdir()) == []


# The accountant for samples, and for many different rounds; a prox solved row by row
# Of every paper some stay in the quick set
SLOW = (
    "ipadmm-compare",
    "ipadmm-inner",
    "perturbation-samples",
    "recycled-penalty",
    "recycled-private",
    "recycled-rates",
    "cdp-lasso",
    "cdp-nonsmooth",
    "dda-convergence",
    "dda-sparsity",
    "dda-tradeoff",
    "equal-privacy",
    "ipadmm-batches",
    "perturbation-convergence",
    "perturbation-strength",
    "perturbation-tradeoff",
)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name
        for name in sorted(EXPERIMENTS)
    ],
)
def test_every_quick_version_runs_and_draws(name: str, tmp_path: Path) -> None:
    experiment = by_name(name)
    rows = player.play(experiment, Size("quick"), tmp_path, show=False)
    found = experiment.findings(rows)
    assert found
    assert experiment.survives(found, rows)
    for claim in CLAIMS:
        for source, part in claim.findings:
            assert source != name or any(part in f.claim for f in found), claim.words
    for chart in experiment.charts(rows):
        assert chart.series
        assert chart.table().rows


def test_the_large_run_tells_time_memory_and_where_the_time_goes() -> None:
    told = json.loads(invoke("large", "--rows", "400", "--batch", "plan", "--json"))
    assert told["records"] == 400 and told["features"] == 2000
    assert told["data, GB"] == pytest.approx(400 * 2000 * 4 / 1e9, abs=5e-4)
    assert float(told["epsilon, delta"].split(",")[0]) <= 1.0
    assert told["peak memory, GB"] > 0 and len(told["where the time goes"]) == 5
    refused = CliRunner().invoke(app, ["experiment", "large", "--rows", "400", "--batch", "some"])
    assert refused.exit_code == 2 and "'plan'" in refused.stderr
