"""The whole federation at every node: nine members on a ring, one of which is lost."""

from __future__ import annotations

import json
import os
import shutil
import time
import urllib.request
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from node_stage import Crowd, small_contract
from tacenda_node.setup.rehearse import free_ports
from tacenda_node.watch.dashboard.page import TOKEN_FILE
from tacenda_node.watch.status import NodeStatus
from tacenda_node.watch.status_file import read_status

pytestmark = pytest.mark.slow
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
PATIENT = {"policy": "stop", "limit_seconds": 300.0}
LOST = "m4"


def _until(crowd: Crowd, name: str, seen: Any) -> NodeStatus:
    end = time.monotonic() + 120
    while True:
        status = read_status(crowd.folder(name) / "state")
        if seen(status):
            return status
        assert time.monotonic() < end, (status.members, status.roots)
        time.sleep(0.5)


def test_all_know_all_and_who_holds_them_up(tmp_path: Path, tools: ModuleType) -> None:
    """Far members, too, are known in every state folder; then one is killed, and each of the others
    names it, through the waits of those between."""
    port, page = free_ports(2)
    options: dict[str, Any] = {
        "m0": {"metrics_address": port, "dashboard": page},
        "m3": {"budget": 50.0, "share_budget": True},
    }
    contract = small_contract(9, rounds=6000, absence=PATIENT)
    crowd = Crowd(tmp_path, contract, ledgers=tmp_path / "ledgers", options=options)
    rest = [name for name in crowd.names if name != LOST]
    try:
        crowd.start()
        for name in crowd.names:
            crowd.until(name, "round one done")
        for name in crowd.names:
            status = _until(
                crowd, name, lambda s: all(m.heard_seconds is not None for m in s.members)
            )
            assert [member.name for member in status.members] == list(crowd.names)
            assert {member.version for member in status.members} == {status.version}
            assert all(member.disk_free_bytes for member in status.members)
            left = {member.name: member.epsilon_left for member in status.members}
            assert [name for name, value in left.items() if value is not None] in ([], ["m3"])
        _until(crowd, "m8", lambda s: s.members[3].epsilon_left is not None)
        crowd.kill(LOST)
        for name in rest:
            status = _until(
                crowd,
                name,
                lambda s: (
                    [root.member for root in s.roots] == [LOST]
                    and len(s.roots[0].holds_up) == len(rest)
                ),
            )
            assert status.roots[0].state == "away"
            assert f"{LOST} (away, last heard" in status.roots[0].words
            assert f"holds up {len(rest)} members" in status.roots[0].words
        found = tools.tacenda("node", "status", str(crowd.folder("m0") / "state"))
        assert f"federation   {LOST} (away" in found.stdout
        assert "member       m8: waiting, round" in found.stdout
        assert "waits for m7" in found.stdout or "waits for m0" in found.stdout
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            metrics = answer.read().decode()
        assert f'tacenda_member_holds_up{{member="{LOST}"}} {float(len(rest))}' in metrics
        assert f'tacenda_member_info{{member="{LOST}",state="away"' in metrics
        if CHROMIUM is not None:
            _look(page, (crowd.folder("m0") / "state" / TOKEN_FILE).read_text())
        crowd.start(LOST)
        for name in rest:
            _until(crowd, name, lambda s: not s.roots and s.members[4].state == "running")
    finally:
        crowd.stop()
    logged = [json.loads(line) for name in rest for line in crowd.log(name).splitlines()]
    assert not [line for line in logged if line["event"] == "peer cut off"]


def _look(port: int, token: str) -> None:
    """The page shows all nine, the arrows, and who is at the root."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(
            executable_path=CHROMIUM, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        complaints: list[str] = []
        for width in (1280, 390):
            page = browser.new_context(viewport={"width": width, "height": 900}).new_page()
            page.on("pageerror", lambda e: complaints.append(str(e)))
            page.goto(f"http://127.0.0.1:{port}/#{token}")
            page.wait_for_selector("#status:not([hidden])")
            assert page.locator("#members tbody tr").count() == 9
            assert page.locator("#graph circle").count() == 9
            assert page.locator("#graph .waits").count() >= 8
            assert page.locator("#graph .root").count() == 1
            assert f"{LOST} (away" in page.inner_text("#roots")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            if shots := os.environ.get("TACENDA_SCREENSHOTS"):
                page.screenshot(path=f"{shots}/federation-{width}.png", full_page=True)
            assert complaints == []
        browser.close()
