"""The report's page and its parts, from real run folders."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from report_folders import A, make_folder
from tacenda.errors import InputError, StateError
from tacenda.report import build, curves, figures, model_card, network_drawing, tables, wording
from tacenda.report.charts import over_seeds, thin
from tacenda.report.html_page import plotly_js, script_json
from tacenda.report.reading import read

PRIVATE = {"IPADMM": (A.IPADMM(penalty=0.1, proximal=0.5, inner_steps=1), 1.0)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("runs") / "three", finish_mixing=3)


class Page(HTMLParser):
    """Tags with their attributes, the visible text, and the ids."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, Any]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self._open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words).replace("\u00a0", " "))

    def all(self, tag: str) -> list[dict[str, Any]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def page(folder: Path) -> Page:
    return Page(build(folder).read_text("utf-8"))


def test_page_is_whole_and_needs_nothing_else(folder: Path, page: Page) -> None:
    text = (folder / "report.html").read_text("utf-8")
    assert text.count(plotly_js()[:200]) == 1
    assert all("src" not in a for a in page.all("script"))
    assert all(
        a.get("href", "").startswith(("#", "data:")) for a in page.all("a") + page.all("link")
    )
    assert "default-src 'none'" in str(page.all("meta"))
    assert not list(folder.glob("*.part*"))


def test_page_tells_everything(page: Page) -> None:
    for words in (
        "Each private run keeps at most ε = 2 at δ = 10⁻⁵",
        "Seeded noise: simulation only",
        "Not promised",
        "Simulation-only diagnostics",
        "Without any noise, for comparison only: noise-free",
        "noise-free optimum (ceiling)",
        "Agreement between the nodes",
        "The whole curve",
        "Spending",
        "Utility against privacy",
        "inner steps",
        "replace-one",
        "python",
        "made up for a test",
    ):
        assert words in page.text, words


def test_page_for_those_who_do_not_see(page: Page) -> None:
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    pointed = [a[k] for _, a in page.tags for k in ("aria-labelledby", "aria-controls") if k in a]
    assert pointed
    assert set(pointed) <= set(ids)
    plots = [a for a in page.all("div") if "plot" in a.get("class", "").split()]
    assert len(plots) == len(page.all("figure")) >= 7
    assert all(a["role"] == "img" and len(a["aria-label"]) > 40 for a in plots)
    assert len(page.all("caption")) == len(page.all("table")) >= 8
    assert [tag for tag, _ in page.tags if tag in ("main", "nav", "header", "footer", "h1")] == [
        "header",
        "nav",
        "main",
        "h1",
        "footer",
    ]
    assert page.all("html")[0]["lang"] == "en"


def test_specs_are_figures_that_plotly_accepts(folder: Path) -> None:
    import plotly.graph_objects as go

    text = (folder / "report.html").read_text("utf-8")
    specs = re.findall(
        r'<script type="application/json" id="spec-([a-z_-]+)">(.*?)</script>', text, re.S
    )
    assert {
        "network",
        "course-objective",
        "course-consensus",
        "privacy-curve",
        "spent",
        "each-release",
        "utility-accuracy",
    } <= {k for k, _ in specs}
    for _, spec in specs:
        go.Figure(json.loads(spec))  # refuses unknown properties and values


def test_same_folder_same_bytes(folder: Path, tmp_path: Path) -> None:
    assert (
        build(folder, tmp_path / "one.html").read_bytes()
        == build(folder, tmp_path / "two.html").read_bytes()
    )


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    evil = '</script><script>alert("x")</script><img src=x onerror=alert(1)>'
    graph = nx.relabel_nodes(nx.cycle_graph(6), {k: f"{evil}{k}" for k in range(6)})
    choices = {evil: PRIVATE["IPADMM"]}
    made = make_folder(
        tmp_path / "evil",
        choices,
        seeds=(0,),
        graph=graph,
        dataset={"name": evil, evil: evil, "notes": evil},
    )
    found = Page(build(made).read_text("utf-8"))
    assert evil in found.text
    assert not found.all("img")
    # The library, the page's own and the model's data; a figure has its data
    assert len(found.all("script")) == 3 + len(found.all("figure"))


def test_script_json_cannot_end_its_element() -> None:
    value = {"a": "</script><!-- &amp; >", "b": [1.5, None]}
    text = str(script_json(value))
    assert not set("<>&") & set(text)
    assert json.loads(text) == value


def test_mean_and_range_over_seeds() -> None:
    histories = [
        [{"round": 1, "loss": 1.0}, {"round": 2, "loss": 4.0}],
        [{"round": 1, "loss": 3.0}, {"round": 2, "loss": float("nan")}],
    ]
    found = over_seeds(histories, "loss")
    assert found is not None
    assert [v.tolist() for v in found] == [[1, 2], [2.0, 4.0], [1.0, 4.0], [3.0, 4.0]]
    assert over_seeds(histories, "accuracy") is None
    assert thin(np.arange(1000), 5).tolist() == [0, 250, 500, 749, 999]


def test_results_are_those_of_the_runs(folder: Path) -> None:
    found = read(folder)
    table = tables.results(found)
    group = found.groups[0]
    finals = [run.result.history.rows[-1]["objective"] for run in group.runs]
    column = [c.title for c in table.columns].index("Objective")
    assert table.sort[0][column] == pytest.approx(np.mean(finals))
    assert [row[0] for row in table.rows] == ["IPADMM", "CDPADMM", "noise-free"]
    epsilon = [c.title for c in table.columns].index("ε")
    assert [row[epsilon] for row in table.rows] == ["1", "2", "none"]


def test_manifest_measures_count_where_no_course_was_recorded(tmp_path: Path) -> None:
    made = make_folder(tmp_path / "quiet", PRIVATE, record_every=0)
    manifest = json.loads((made / "manifest.json").read_text())
    for k, entry in enumerate(manifest["results"]):
        entry["test_accuracy"] = 0.6 + 0.2 * k
    (made / "manifest.json").write_text(json.dumps(manifest))
    found = read(made)
    assert found.groups[0].final("test_accuracy").tolist() == pytest.approx([0.6, 0.8])
    text = Page(build(made).read_text("utf-8")).text
    assert "No curves were recorded" in text
    assert "70.0 %" in text


def test_network_numbers(folder: Path) -> None:
    found = read(folder)
    net = network_drawing.drawing(found)
    result = found.lead.runs[0].result
    assert net.positions is not None
    assert net.positions.shape == (6, 2)
    assert net.edge_bytes * len(net.edges) == pytest.approx(result.bytes)
    assert net.degrees.tolist() == [2] * 6
    accuracy = np.mean([run.entry["node_accuracy"] for run in found.lead.runs], axis=0)
    assert net.shade == pytest.approx(accuracy)
    assert len(network_drawing.node_table(net).rows) == 6
    assert (
        network_drawing.layout(6, net.edges, "x").tolist()
        == network_drawing.layout(6, net.edges, "x").tolist()
    )


def test_large_network_is_listed_not_drawn(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(network_drawing, "MOST_DRAWN", 5)
    monkeypatch.setattr(network_drawing, "MOST_LISTED", 4)
    net = network_drawing.drawing(read(folder))
    assert net.positions is None
    table = network_drawing.node_table(net)
    assert "the 4 of 6 with the fewest records" in table.caption
    assert sorted(net.sizes)[:4] == [row[1] for row in table.sort]
    assert "too large to draw" in Page(build(folder, folder / "large.html").read_text("utf-8")).text


def test_slow_accountants_judge_the_worst_node_only(tmp_path: Path) -> None:
    found = read(make_folder(tmp_path / "pure", {"PVP": (A.PVP(), 3.0)}, seeds=(0,), rounds=3))
    caption = network_drawing.node_table(network_drawing.drawing(found)).caption
    assert caption == "Nodes of PVP; none has more than ε = 3"


def test_utility_needs_several_epsilons(folder: Path, tmp_path: Path) -> None:
    chart = curves.utility(read(folder))[0]
    assert sorted(float(x) for s in chart.series for x in s.x) == pytest.approx([1.0, 2.0])
    assert curves.utility(read(make_folder(tmp_path / "one", PRIVATE, seeds=(0,)))) == []


def test_verdicts(tmp_path: Path, folder: Path) -> None:
    assert wording.verdict(read(folder)).level == "caution"
    nothing = wording.verdict(
        read(make_folder(tmp_path / "open", {"ADMM": (A.ADMM(), None)}, seeds=(0,)))
    )
    assert (nothing.level, nothing.word) == ("none", "No privacy")
    assert "Nothing: no noise was added" in Page(build(tmp_path / "open").read_text("utf-8")).text


def test_a_claim_that_does_not_hold_is_red(tmp_path: Path) -> None:
    choices = {"DVP": (A.DVP(), 0.5)}
    made = make_folder(tmp_path / "printed", choices, seeds=(0,), privacy={"mode": "as-published"})
    found = read(made)
    account = found.groups[0].account
    assert account is not None
    assert account.statement.claimed is not None
    assert account.epsilon > account.statement.claimed[0]
    verdict = wording.verdict(found)
    assert (verdict.level, verdict.word) == ("bad", "Claim not kept")
    assert wording.PUBLISHED in verdict.sentences
    assert dict(wording.promised(account))["Claimed by the paper"]
    assert "claimed by the paper" in model_card(found.groups[0].runs[0].result)


def test_shared_and_differing_settings(folder: Path) -> None:
    found = read(folder)
    assert dict(tables.shared_settings(found))["rounds"] == "6"
    differing = tables.differing_settings(found)
    assert differing is not None
    titles = [c.title for c in differing.columns]
    assert differing.rows[0][titles.index("inner steps")] == "2"
    assert differing.rows[1][titles.index("inner steps")] == "–"


def test_model_card(folder: Path) -> None:
    card = model_card(read(folder).groups[0].runs[0].result)
    for words in (
        "| epsilon | 1 |",
        "| delta | 10⁻⁵ |",
        "one record of one node",
        "gaussian-exact",
        "replace-one",
        "a simulation's",
        "inner_steps 2",
    ):
        assert words in card
    assert "**None.**" in model_card(read(folder).groups[2].runs[0].result)


@pytest.mark.slow
def test_figures_for_papers(tmp_path: Path) -> None:
    choices = {**PRIVATE, "half": (PRIVATE["IPADMM"][0], 0.5)}
    made = make_folder(tmp_path / "small", choices, metrics=("accuracy", "consensus"), rounds=3)
    written = figures(made, tmp_path / "a", formats="svg")
    names = {p.name for p in written}
    assert names == {
        f"{k}.svg"
        for k in (
            "network",
            "privacy-curve",
            "course-accuracy",
            "course-consensus",
            "spent",
            "each-release",
            "utility-accuracy",
        )
    }
    assert "IPADMM</text>" in (tmp_path / "a" / "course-accuracy.svg").read_text("utf-8").replace(
        "\n", ""
    )
    again = figures(
        make_folder(tmp_path / "one", PRIVATE, metrics=("accuracy",), rounds=2, seeds=(0,)),
        tmp_path / "b",
    )
    assert {p.suffix for p in again} == {".svg", ".pdf"}
    assert (tmp_path / "b" / "network.pdf").read_bytes().startswith(b"%PDF")


def test_figures_have_no_date(tmp_path: Path) -> None:
    made = make_folder(tmp_path / "one", PRIVATE, metrics=("accuracy",), rounds=2, seeds=(0,))
    first, second = (figures(made, tmp_path / k, formats="svg") for k in "ab")
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]


def test_bad_folders(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(StateError, match=r"no manifest\.json"):
        build(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(StateError, match="not readable JSON"):
        build(tmp_path)
    (tmp_path / "manifest.json").write_text('{"format": "other"}')
    with pytest.raises(StateError, match="has format 'other'"):
        build(tmp_path)
    (tmp_path / "manifest.json").write_text('{"format": "tacenda-run-1", "results": []}')
    with pytest.raises(StateError, match="lists no results"):
        build(tmp_path)
    with pytest.raises(StateError, match="must be a file"):
        build(folder, tmp_path)
    with pytest.raises(InputError, match="formats must be one of"):
        figures(folder, tmp_path, formats=("swg",))
    assert [p.name for p in tmp_path.iterdir()] == ["manifest.json"]


def test_a_manifest_may_not_point_elsewhere(tmp_path: Path, folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["results"] = [
        {**manifest["results"][0], "file": f"../{folder.name}/results/0.safetensors"}
    ]
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(StateError, match="outside its folder"):
        build(tmp_path)


def test_lazy_names() -> None:
    import tacenda.report as report

    assert all(getattr(report, name) is not None for name in report.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = report.nothing


def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"tacenda\[plots\]"):
        figures(folder, tmp_path / "figures")
    assert list(tmp_path.iterdir()) == []


def test_runs_with_one_seed_are_not_said_to_compose(folder: Path, tmp_path: Path) -> None:
    """Found in review: composition takes noise for independent, and two algorithms with one seed
    have the same noise."""
    assert any("same seed have the same noise" in line for line in wording._all_runs(read(folder)))
    alone = read(make_folder(tmp_path / "alone", PRIVATE, finish_mixing=0))
    assert any("they would cost at most" in line for line in wording._all_runs(alone))
