"""The documentation site: every page can be reached, what it shows is made anew and runs, and a
browser finds nothing to complain about."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXAMPLES = sorted((ROOT / "examples").glob("[0-9][0-9]_*.py"))
QUICK = {"10_statement_and_ledger.py"}
MADE = {"gallery/index", "api/index"}  # pages that a build writes


def entries(page: Path) -> list[str]:
    """The pages that a page's toctree names, from docs/."""
    found = []
    for block in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text("utf-8"), re.S | re.M):
        for line in block.splitlines():
            if not line or line.startswith(":"):
                continue
            name = re.sub(r".*<(.+)>", r"\1", line)
            here = page.parent
            matched = sorted(here.glob(f"{name}.md")) if "*" in name else [here / name]
            found += [str(path.relative_to(DOCS)).removesuffix(".md") for path in matched]
    return found


def source(name: str) -> Path | None:
    return next(
        (
            DOCS / f"{name}{ending}"
            for ending in (".md", ".rst", ".ipynb")
            if (DOCS / f"{name}{ending}").is_file()
        ),
        None,
    )


def test_every_page_is_in_the_navigation() -> None:
    reached, waiting = set(), ["index"]
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        file = source(name)
        assert file or name in MADE, f"a toctree names {name}, which is not there"
        if file and file.suffix == ".md":
            below = entries(file)
            assert len(below) == len(set(below)), f"{file.name} names a page twice"
            waiting += below
    tracked = [
        path.relative_to(DOCS)
        for ending in ("md", "rst", "ipynb")
        for path in DOCS.rglob(f"*.{ending}")
        if path.relative_to(DOCS).parts[0] not in ("_build", "_templates", "api", "gallery")
    ]
    assert len(tracked) > 40
    missing = {str(path.with_suffix("")) for path in tracked} - reached
    assert not missing, f"these pages are in no toctree that the front page leads to: {missing}"


def test_the_picture_is_what_its_script_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    import overview_picture

    assert overview_picture.FILE.read_text("utf-8") == overview_picture.drawing(), (
        "run python docs/_ext/overview_picture.py"
    )


def test_docstrings_become_markup_and_keep_their_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    from plain_docstrings import repaired

    text = """|w|^2/2 of `coef_` and coef_, a * b:
    name   what it is
    more   of it
and on.

Parameters
----------
x : array
    The |x| of it, see `y_`.
a_, b_ : array of shape (n_,)
    Both.

Examples
--------
>>> f(2) | 3
3"""
    assert repaired(text.splitlines()) == [
        r"\|w\|^2/2 of `coef_` and coef\_, a \* b:",
        "",
        "::",
        "",
        "    name   what it is",
        "    more   of it",
        "",
        "and on.",
        "",
        "Parameters",
        "----------",
        "x : array",
        r"    The \|x\| of it, see `y_`.",
        r"a_, b_ : array of shape (n\_,)",
        "    Both.",
        "",
        "Examples",
        "--------",
        ">>> f(2) | 3",
        "3",
    ]


def test_the_reference_has_every_command_and_option(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sphinx", reason="sphinx is not installed (extra `docs`)")
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    import command_reference
    import typer

    from tacenda.cli.app import app

    lines = command_reference.lines()
    root = typer.main.get_command(app)
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        assert f"tacenda {name}" in lines
        for inner in getattr(command, "commands", {}):
            assert f"tacenda {name} {inner}" in lines
    options = [line for line in lines if line.startswith(".. option::")]
    assert any("--coalition" in line for line in options) and len(options) > 100


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(file, id=file.stem, marks=[] if file.name in QUICK else pytest.mark.slow)
        for file in EXAMPLES
    ],
)
def test_example_runs(file: Path, tmp_path: Path) -> None:
    assert re.match(r'"""\n\S.*\n=+\n\n', file.read_text("utf-8")), f"{file.name} has no title"
    done = subprocess.run(
        [sys.executable, str(file)],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "agg", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site, gallery and notebooks included, as `make docs` builds it."""
    pytest.importorskip("sphinx_gallery", reason="sphinx-gallery is not installed (extra `docs`)")
    out = tmp_path_factory.mktemp("site")
    (DOCS / "_build").mkdir(exist_ok=True)
    with (DOCS / "_build" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # builds side by side would write the same gallery
        done = subprocess.run(
            [sys.executable, "-m", "sphinx", "-b", "html", "-EWq", "--keep-going", DOCS, out],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            timeout=3600,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    return out


class Loads(HTMLParser):
    """What a page asks a browser to fetch by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "video", "audio", "embed"):
            self.found += [values.get("src") or "", values.get("srcset") or ""]
        if tag == "link" and values.get("rel") not in ("canonical", "license", "author"):
            self.found.append(values.get("href") or "")


@pytest.mark.slow
def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 200
    for page in pages:
        loads = Loads()
        loads.feed(page.read_text("utf-8"))
        assert not [url for url in loads.found if re.match(r"(https?:)?//", url.strip())], page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import )['\"]?(https?:)?//", sheet.read_text("utf-8")), sheet


@pytest.mark.slow
def test_what_examples_and_notebooks_drew_is_on_their_pages(site: Path) -> None:
    for file in EXAMPLES:
        page = (site / "gallery" / f"{file.stem}.html").read_text("utf-8")
        assert f"sphx_glr_{file.stem}_001" in page, f"{file.name} drew nothing"
    for name in ("first-model", "planning"):
        page = (site / "notebooks" / f"{name}.html").read_text("utf-8")
        assert "epsilon" in page and page.count("<img") >= 1 and "Traceback" not in page
    assert not [
        file.name
        for file in sorted((DOCS / "notebooks").glob("*.ipynb"))
        if '"outputs": []' not in file.read_text("utf-8")
    ], "notebooks are stored without outputs: they are made at the build"


CHROMIUM = next(
    (p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None
)
WRITTEN = ["index", "start", "tutorial", "symptoms", "node", "cli", "for-your-boss", "data"]
PAGES = [
    *WRITTEN,
    "results",
    "commands",
    "api/tacenda",
    "api/generated/tacenda.PrivateLogisticRegression",
    "gallery/index",
    "gallery/01_first_model",
    "notebooks/planning",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed (extra `test`)"
    )
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as p:
        found = p.chromium.launch(
            executable_path=CHROMIUM,
            args=["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield found
        found.close()


@pytest.mark.slow
@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_in_a_browser(site: Path, browser: Any, width: int, colours: str) -> None:
    """No complaints, nothing fetched from elsewhere, nothing wider than the window."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=colours, reduced_motion="reduce"
    )
    page = context.new_page()
    complaints: list[str] = []
    page.on(
        "console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda e: complaints.append(str(e)))
    page.on("requestfailed", lambda r: complaints.append(f"failed: {r.url}"))
    page.on("request", lambda r: complaints.append(r.url) if r.url.startswith("http") else None)
    shots = os.environ.get("TACENDA_SCREENSHOTS")
    for name in PAGES:
        page.goto((site / f"{name}.html").as_uri())
        page.wait_for_load_state("load")
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{name} is {wide} px wider than a window of {width}"
        cut = page.evaluate(
            "[...document.querySelectorAll('.bd-article pre')]"
            ".map(block => block.scrollWidth - block.clientWidth)"
        )
        if width >= 1280 and name in WRITTEN:
            assert max(cut, default=0) <= 1, f"a block of code on {name} is cut"
        bright = page.evaluate(
            "getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).map(Number)"
        )
        assert (sum(bright[:3]) > 600) == (colours == "light"), (name, bright)
        if shots:
            Path(shots).mkdir(parents=True, exist_ok=True)
            page.screenshot(path=f"{shots}/site-{name.replace('/', '-')}-{colours}-{width}.png")
    assert complaints == []
    context.close()


@pytest.mark.slow
def test_search_finds_a_coalition(site: Path, browser: Any) -> None:
    page = browser.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda e: complaints.append(str(e)))
    page.goto((site / "search.html").as_uri() + "?q=coalition")
    page.locator("#search-results li a").first.wait_for(timeout=20_000)
    found = page.locator("#search-results li a").all_inner_texts()
    assert len(found) > 5 and complaints == []
    page.locator("#search-results li a").first.click()
    page.wait_for_load_state("load")
    assert "coalition" in page.inner_text("body").lower()
    page.close()


QUESTIONS = {
    "why is my model bad": "symptoms",
    "model slow": "symptoms",
    "explain to my boss": "for-your-boss",
    "what does epsilon mean for a patient": "what-epsilon-means",
    "disagrees with statsmodels": "symptoms",
    "renew certificate": "node-changes",
    "predict in R": "r-users",
    "restore a backup": "node-backup",
    "choose bounds": "bounds",
    "intervals of coefficients": "statisticians",
    "confidence intervals of coefficients": "statisticians",
    "explain to my manager": "for-your-boss",
    "certificate expired": "node-changes",
    "firewall allows only 443": "node-network",
    "what does a relay see": "node-network",
    "next month": "node-changes",
    "table 1": "describe",
    "who can see my data": "threat-model",
}


@pytest.mark.slow
def test_questions_are_answered_by_the_first_results(site: Path, browser: Any) -> None:
    page = browser.new_page()
    missed = {}
    for question, wanted in QUESTIONS.items():
        page.goto((site / "search.html").as_uri() + "?q=" + question.replace(" ", "+"))
        page.locator("#search-results li a").first.wait_for(timeout=20_000)
        page.wait_for_timeout(500)
        links = page.locator("#search-results li > a").evaluate_all(
            "all => all.map(a => a.getAttribute('href'))"
        )[:5]
        if not any(
            link.split("?")[0].split("/")[-1].startswith(f"{wanted}.html") for link in links
        ):
            missed[question] = links
        assert not [link for link in links[:3] if "decisions/" in link or "results/" in link]
    page.close()
    assert not missed
