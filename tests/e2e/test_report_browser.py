"""The report in a real browser: nothing asked of the network,
nothing on the console, keys, colours, paper."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from report_folders import make_folder
from tacenda.evaluation import figures, measures
from tacenda.report import build, evaluation_page

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed (extra `test`)"
)
CHROMIUM = next(
    (p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None
)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine (Debian: apt-get install chromium)"
)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(make_folder(tmp_path_factory.mktemp("runs") / "browsed", n=8))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as p:
        found = p.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


class Visit:
    """One page, with everything it asked for and everything it complained about."""

    def __init__(self, browser: Any, report: Path, drawings: int = 6, **context: Any) -> None:
        self.context = browser.new_context(**context)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda m: self.complaints.append(f"{m.type}: {m.text}"))
        self.page.on("pageerror", lambda e: self.complaints.append(f"error: {e}"))
        self.page.on("request", lambda r: self.requests.append(r.url))
        self.page.goto(report.as_uri())
        self.page.locator(".plot .main-svg").nth(drawings - 1).wait_for(state="attached")

    def style(self, selector: str, name: str) -> str:
        return str(self.page.eval_on_selector(selector, f"e => getComputedStyle(e).{name}"))

    def close(self) -> None:
        """Nothing was complained about and nothing was asked of the network,
        from the first test to the last."""
        assert self.complaints == []
        assert [
            url for url in self.requests if not url.startswith(("file:", "data:", "blob:"))
        ] == []
        self.context.close()


@pytest.fixture(scope="module")
def desk(browser: Any, report: Path) -> Iterator[Visit]:
    """One wide window, light, that most tests share; each leaves it as it was."""
    visit = Visit(browser, report, viewport={"width": 1280, "height": 900}, color_scheme="light")
    yield visit
    visit.close()


def test_drawings_and_no_complaints(desk: Visit) -> None:
    page = desk.page
    assert page.locator(".plot:visible").count() >= 5
    assert page.locator(".plot:visible .main-svg").count() >= page.locator(".plot:visible").count()
    assert page.locator("#figure-network path.point").count() >= 8  # one for each node
    shots = os.environ.get("TACENDA_SCREENSHOTS")
    if shots:
        Path(shots).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{shots}/report-light.png", full_page=True)


def test_dark_by_system_and_by_button(desk: Visit) -> None:
    legend = desk.page.locator("#figure-course-objective .legendtext").first
    light = desk.style("body", "backgroundColor")
    ink = desk.style("#figure-course-objective .legendtext", "fill")
    desk.page.emulate_media(color_scheme="dark")
    playwright.expect(legend).not_to_have_css("fill", ink)
    assert desk.style("body", "backgroundColor") != light
    assert desk.page.get_attribute("#theme", "aria-pressed") == "true"
    desk.page.click("#theme")
    playwright.expect(legend).to_have_css("fill", ink)
    assert desk.style("body", "backgroundColor") == light
    desk.page.emulate_media(color_scheme="light")
    assert desk.page.get_attribute("#theme", "aria-pressed") == "false"


def test_tabs_by_keyboard(desk: Visit) -> None:
    page = desk.page
    page.focus("#tab-course-objective")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "tab-course-accuracy"
    assert page.is_visible("#pane-course-accuracy .main-svg >> nth=0")
    assert page.is_hidden("#pane-course-objective")
    page.keyboard.press("Home")
    assert page.is_visible("#pane-course-objective")
    assert page.get_attribute("#tab-course-accuracy", "tabindex") == "-1"


def test_first_key_skips_to_the_report(desk: Visit) -> None:
    page = desk.page
    page.reload()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.wait_for_url("**#main", timeout=10_000)  # the browser tells of it a moment later
    assert page.url.endswith("#main")


def test_numbers_behind_a_figure_and_sorting(desk: Visit) -> None:
    page = desk.page
    table = page.locator("#figure-spent table")
    assert table.is_hidden()
    page.locator("#figure-spent summary").click()
    assert table.is_visible()
    heads = page.locator("#nodes thead button")
    assert heads.nth(1).inner_text() == "Records"
    heads.nth(1).click()
    cells = page.locator("#nodes tbody tr td:nth-child(2)").all_inner_texts()
    assert [int(c) for c in cells] == sorted(int(c) for c in cells)
    heads.nth(1).click()
    assert page.locator("#nodes tbody tr td:nth-child(2)").all_inner_texts() == cells[::-1]
    assert page.locator("#nodes th[aria-sort=descending]").count() == 1


def test_narrow_screen_does_not_scroll_sideways(browser: Any, report: Path) -> None:
    visit = Visit(browser, report, viewport={"width": 360, "height": 740})
    page = visit.page
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    wide = page.evaluate(
        "[...document.querySelectorAll('.plot')].filter(e => e.clientWidth > 360).length"
    )
    assert wide == 0
    visit.close()


def test_the_model_is_saved_from_the_page(desk: Visit, tmp_path: Path) -> None:
    """Without a network: it is in the page already."""
    with desk.page.expect_download() as waiting:
        desk.page.click("#download")
    assert waiting.value.suggested_filename == "browsed-model.json"
    waiting.value.save_as(tmp_path / "model.json")
    model = json.loads((tmp_path / "model.json").read_text())
    assert len(model["feature_names"]) == len(model["weights"]) == len(model["coefficients"])
    assert model["privacy"]["epsilon"] == pytest.approx(1.0, rel=1e-3)
    rows = desk.page.locator("#coefficients tbody tr th").all_inner_texts()
    assert rows == [row["feature"] for row in model["coefficients"]]
    desk.page.locator("#coefficients thead button").nth(1).click()
    found = desk.page.locator("#coefficients tbody tr th").all_inner_texts()
    by_value = sorted(model["coefficients"], key=lambda row: row["coefficient"])
    assert found == [row["feature"] for row in by_value]


@pytest.mark.slow
def test_an_evaluation_in_both_widths(browser: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 200)
    scores = rng.normal(size=200) + truth
    found = {
        "run": "a-0",
        "data": "new.csv",
        "records": 200,
        "public": False,
        "measures": measures.classification(truth, scores, probabilities=True),
        "figures": figures.classification(truth, scores, ("no", "yes"), probabilities=True),
    }
    page = evaluation_page(found, tmp_path / "evaluation.html")
    for width in (390, 1280):
        visit = Visit(browser, page, drawings=1, viewport={"width": width, "height": 800})
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        assert "not private unless" in visit.page.inner_text(".verdict")
        visit.page.click("#tab-evaluation-calibration")
        assert visit.page.is_visible("#pane-evaluation-calibration .main-svg >> nth=0")
        visit.close()


def test_verdicts_of_experiments_are_in_view_on_a_narrow_screen(
    browser: Any, tmp_path: Path
) -> None:
    from tacenda.report.html_page import asset

    template = (files("tacenda_papers.experiments") / "template" / "page.html.j2").read_text(
        "utf-8"
    )
    own = template[template.index("<style>") : template.index("</style>")]
    style = own.replace("<style>{{ style | safe }}", asset("style.css"))
    cells = {
        "experiment": "recycled-convergence",
        "paper": "Zhang et al. (2018), Fig. 1",
        "sound": "1 of 1",
    }
    cells["verdict"] = "The conclusion survives at equal epsilon, where noise is the same."
    head = "".join(f"<th scope=col>{name}</th>" for name in cells)
    row = "".join(f'<td data-label="{k}">{v}</td>' for k, v in cells.items())
    (tmp_path / "page.html").write_text(
        f"<!doctype html><meta name=viewport content='width=device-width'><style>{style}</style>"
        f"<main class=wrap><div class=scroll><table class=stacked><thead><tr>{head}</tr></thead>"
        f"<tbody><tr>{row}</tr></tbody></table></div></main>"
    )
    context = browser.new_context(viewport={"width": 390, "height": 740})
    page = context.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    box = page.locator("td[data-label=verdict]").bounding_box()
    assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 390
    context.close()


def test_paper(desk: Visit, tmp_path: Path) -> None:
    page = desk.page
    page.emulate_media(color_scheme="dark", media="print")
    page.locator(
        "#pane-course-accuracy .main-svg"
    ).first.wait_for()  # paper has no tabs: all drawings are printed
    assert page.is_hidden("header.top")
    assert desk.style("body", "backgroundColor") == "rgb(255, 255, 255)"
    page.emulate_media(color_scheme="light", media="screen")
    page.locator("#pane-course-accuracy").wait_for(state="hidden")
    page.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True)
    assert (tmp_path / "report.pdf").stat().st_size > 20_000


def test_names_of_things_for_a_screen_reader(desk: Visit) -> None:
    page = desk.page
    assert page.get_by_role("main").count() == 1
    assert page.get_by_role("navigation", name="Sections").count() == 1
    assert page.get_by_role("heading", level=1).inner_text() == "browsed"
    assert page.get_by_role("img", name="Line chart of objective").count() == 1
    assert (
        page.get_by_role("tab", selected=True).count() == page.get_by_role("tablist").count() >= 2
    )
    assert page.get_by_role("button", name="Use dark colours").count() == 1


def test_contrast_of_text(desk: Visit) -> None:
    """Quiet text keeps 4.5 : 1 against its ground in both colour schemes (WCAG AA)."""
    script = """() => {
      const probe = document.createElement('i'); document.body.append(probe);
      const rgb = (name) => {
        probe.style.color = `var(${name})`;
        return getComputedStyle(probe).color.match(/[0-9.]+/g).map(Number);
      };
      const names = ['--ink', '--quiet', '--accent', '--caution', '--caution-soft', '--bad',
        '--bad-soft', '--good', '--good-soft', '--none', '--none-soft', '--paper', '--sheet'];
      return Object.fromEntries(names.map((n) => [n, rgb(n)]));
    }"""
    pairs = [
        ("--ink", "--paper"),
        ("--quiet", "--paper"),
        ("--quiet", "--sheet"),
        ("--accent", "--paper"),
        ("--caution", "--caution-soft"),
        ("--bad", "--bad-soft"),
        ("--good", "--good-soft"),
        ("--none", "--none-soft"),
    ]
    for scheme in ("dark", "light"):
        desk.page.emulate_media(color_scheme=scheme)
        colours = desk.page.evaluate(script)
        for front, back in pairs:
            high, low = sorted(
                (_luminance(colours[front]), _luminance(colours[back])), reverse=True
            )
            assert (high + 0.05) / (low + 0.05) >= 4.5, (scheme, front, back)


def _luminance(rgb: list[float]) -> float:
    linear = [
        v / 255 / 12.92 if v <= 0.04045 * 255 else ((v / 255 + 0.055) / 1.055) ** 2.4
        for v in rgb[:3]
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
