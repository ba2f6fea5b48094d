"""The page of a running node in a real browser, and what it answers to whom."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from node_stage import Crowd, small_contract
from tacenda_node.setup.rehearse import free_ports
from tacenda_node.watch.dashboard.page import TOKEN_FILE
from tacenda_node.watch.status import NodeStatus
from tacenda_node.watch.status_file import read_status

CHROMIUM = next((p for p in map(shutil.which, ("chromium", "google-chrome")) if p), None)


class Watched:
    """Three members, of which m0 serves its page and m2 has not come yet, so that nothing moves."""

    def __init__(self, folder: Path) -> None:
        (self.port,) = free_ports(1)
        mine = {"m0": {"dashboard": self.port}}
        self.crowd = Crowd(folder, small_contract(3, rounds=50), options=mine)
        self.crowd.start("m0", "m1")
        self.state = self.crowd.folder("m0") / "state"
        end = time.monotonic() + 60
        while not self._ready():
            assert time.monotonic() < end, self.crowd.output("m0")
            time.sleep(0.1)
        self.token = (self.state / TOKEN_FILE).read_text()

    def _ready(self) -> bool:
        if not (self.state / TOKEN_FILE).exists():
            return False
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        ask = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            ask.request("GET", path, headers=headers)
            answer = ask.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            ask.close()

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self.get("/status", Authorization=f"Bearer {self.token}")[2]))


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    made = Watched(tmp_path_factory.mktemp("watched"))
    yield made
    made.crowd.stop()


def test_status_only_for_the_token_and_by_this_machines_name(watched: Watched) -> None:
    good = {"Authorization": f"Bearer {watched.token}"}
    assert watched.get("/status", **good)[0] == 200
    for bad in ({}, {"Authorization": "Bearer " + "x" * 43}, {"Authorization": watched.token}):
        code, _, body = watched.get("/status", **bad)
        assert code == 401
        assert b"m1" not in body
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "[::2]:1", ""):
        assert watched.get("/status", **good, Host=host)[0] == 421, host
    for host in ("localhost:9999", "127.0.0.1", "[::1]:80", "[::1]"):
        assert watched.get("/status", **good, Host=host)[0] == 200, host
    assert watched.get(f"/status?token={watched.token}")[0] == 401
    assert watched.get("/../state/node.sqlite", **good)[0] == 404
    code, headers, page = watched.get("/")
    assert code == 200
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"
    assert b"m0" not in page
    assert watched.token not in watched.crowd.log("m0") + watched.crowd.output("m0")
    assert (watched.state / TOKEN_FILE).stat().st_mode & 0o077 == 0
    assert "another token" in watched.crowd.log("m0")


def test_page_and_status_tell_the_same_and_nothing_private(watched: Watched) -> None:
    """The fields are a closed list; no record, no key and no digest of one is among them."""
    served, end = watched.status(), time.monotonic() + 20
    while served["lasting"] is None and time.monotonic() < end:
        time.sleep(0.5)
        served = watched.status()
    told = read_status(watched.state)
    assert (
        served.keys() == told.to_plain().keys() == NodeStatus.from_plain(served).to_plain().keys()
    )
    still = ("member", "title", "contract", "state", "round", "rounds", "run", "lasting")
    assert {k: served[k] for k in still} == json.loads(
        json.dumps({k: told.to_plain()[k] for k in still})
    )
    home = watched.crowd.folder("m0")
    text = json.dumps(served)
    for path in (home / "identity").iterdir():
        if path.suffix == ".key":
            inner = "".join(path.read_text().splitlines()[1:-1])
            assert inner[:20] not in text
    import sqlite3

    from tacenda_node.state.database import FILE

    with sqlite3.connect(f"file:{watched.state / FILE}?mode=ro", uri=True) as db:
        secret = bytes(db.execute("SELECT value FROM about WHERE name='key'").fetchone()[0])
    assert secret.hex()[:16] not in text
    records = watched.crowd.stage.data["m0"].read_text().splitlines()[1:]
    numbers = {cell for line in records for cell in line.split(",") if len(cell) > 6}
    assert numbers
    assert not [cell for cell in numbers if cell in text]
    assert watched.token not in text


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_page_in_a_browser(watched: Watched) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(
            executable_path=CHROMIUM, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        context = browser.new_context(viewport={"width": 390, "height": 844})
        page = context.new_page()
        complaints: list[str] = []
        asked: list[str] = []
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: complaints.append(str(e)))
        page.on("request", lambda r: asked.append(r.url))
        page.goto(f"http://127.0.0.1:{watched.port}/#{watched.token}")
        page.wait_for_selector("#status:not([hidden])")
        # The token is gone from the address, and was never part of a request's
        assert watched.token not in page.url
        assert not [url for url in asked if watched.token in url]
        assert {url.rpartition("/")[0] for url in asked if url.startswith("http")} == {
            f"http://127.0.0.1:{watched.port}"
        }
        assert page.inner_text("#title") == "m0"
        rows = page.locator("#peers tbody tr")
        assert rows.count() == 2
        assert page.locator("#peers tbody th[scope=row]").all_inner_texts() == ["m1", "m2"]
        assert "m2" in page.inner_text("#sentences")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        _readable(page)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        _quiet_for_screen_readers(page)
        ground = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(ground)
        page.click("#theme")
        assert page.evaluate(ground) != light
        _readable(page)
        page.reload()  # the tab keeps the token
        page.wait_for_selector("#status:not([hidden])")
        shots = os.environ.get("TACENDA_SCREENSHOTS")
        if shots:
            page.screenshot(path=f"{shots}/dashboard-narrow.png", full_page=True)
        assert complaints == []

        stranger = browser.new_context().new_page()
        stranger.goto(f"http://127.0.0.1:{watched.port}/")
        stranger.wait_for_selector("#enter:not([hidden])")
        stranger.fill("#token", "wrong" * 10)
        stranger.keyboard.press("Enter")
        playwright.expect(stranger.locator("#enter-words")).to_contain_text("not this node's token")
        assert stranger.is_hidden("#status")
        stranger.fill("#token", watched.token)
        stranger.keyboard.press("Enter")
        stranger.wait_for_selector("#status:not([hidden])")
        browser.close()


def _readable(page: Any) -> None:
    """Landmarks, names of all controls, headers of all tables, and contrast of the words."""
    assert page.locator("main").count() == page.locator("header").count() == 1
    assert page.locator("nav[aria-label]").count() == page.locator("footer").count() == 1
    assert page.locator("th:not([scope])").count() == 0
    unnamed = """[...document.querySelectorAll('progress, meter, input')]
        .filter(e => !e.labels.length).map(e => e.id)"""
    assert page.evaluate(unnamed) == []
    contrast = """() => {
      const light = (c) => { const v = c.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255)
        .map(x => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
        return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
      const under = (e) => { for (; e; e = e.parentElement) {
        const c = getComputedStyle(e).backgroundColor;
        if (c !== 'rgba(0, 0, 0, 0)') return c; } return 'rgb(255, 255, 255)'; };
      return [...document.querySelectorAll('#status *, footer *')].filter(e =>
          e.checkVisibility() && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) &&
          !e.closest('svg')).map(e => {
        const [a, b] = [light(getComputedStyle(e).color), light(under(e))].sort((x, y) => y - x);
        return [(a + 0.05) / (b + 0.05), e.tagName + ' ' + e.textContent.slice(0, 30)]; })
        .filter(([ratio]) => ratio < 4.5); }"""
    assert page.evaluate(contrast) == []


def _quiet_for_screen_readers(page: Any) -> None:
    """One live region; with nothing new it says nothing again."""
    assert page.locator("[aria-live], [role=status], [role=alert]").count() == 1
    page.evaluate(
        """() => { window.told = 0; new MutationObserver(() => window.told++)
        .observe(document.getElementById('said'), {childList: true, characterData: true,
        subtree: true}); }"""
    )
    before = page.inner_text("#as-of")
    page.wait_for_timeout(2500)
    assert page.evaluate("window.told") == 0
    assert before
