"""The ready dashboard and alert rules: every metric that they name is one that a real node serves,
and the rules do what their own tests say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from node_stage import Crowd, small_contract
from tacenda_node.setup.rehearse import free_ports

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
NAME = re.compile(r"\btacenda_[a-z_]+\b")
PROMTOOL = shutil.which("promtool")


def named(text: str) -> set[str]:
    return set(NAME.findall(text))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What /metrics of a member answers while it is connected to both neighbours."""
    folder = tmp_path_factory.mktemp("metrics")
    (port,) = free_ports(1)
    contract = small_contract(2, rounds=2000, graph="path")
    mine = {"metrics_address": port, "budget": 50.0, "share_budget": True}
    crowd = Crowd(folder, contract, ledgers=folder / "ledgers", options={"m0": mine})
    crowd.start()
    text, end = "", time.monotonic() + 60
    try:
        late = "tacenda_total_epsilon_budget", "expiry_timestamp_seconds{", "member_epsilon_left{"
        while not all(name in text for name in late):
            assert time.monotonic() < end, (crowd.output("m0"), text)
            time.sleep(0.1)
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as got:
                    text = got.read().decode()
            except (urllib.error.URLError, ConnectionError):
                continue
    finally:
        crowd.stop()
    return text


@pytest.mark.parametrize("file", ["alerts.yaml", "alerts_test.yaml", "grafana-dashboard.json"])
def test_every_named_metric_is_served(served: str, file: str) -> None:
    known = {line.split(" ")[0].partition("{")[0] for line in served.splitlines() if line[0] != "#"}
    wanted = named((MONITORING / file).read_text("utf-8"))
    assert len(wanted) > 8
    assert wanted - known == set()


def test_every_metric_is_shown_or_watched(served: str) -> None:
    """No number is served that nobody looks at."""
    known = {line.split(" ")[0].partition("{")[0] for line in served.splitlines() if line[0] != "#"}
    used = set().union(*(named(path.read_text("utf-8")) for path in MONITORING.iterdir()))
    assert known - used == {
        "tacenda_node_info",
        "tacenda_waiting_seconds",
        "tacenda_total_epsilon_left",
    }


def test_names_follow_prometheus_rules(served: str) -> None:
    if PROMTOOL is None:
        pytest.skip("no promtool on this machine (Debian: apt-get install prometheus)")
    found = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=served, text=True, capture_output=True, check=False
    )
    assert (found.returncode, found.stdout + found.stderr) == (0, "")


def test_dashboard_has_no_panel_twice_and_none_overlaps() -> None:
    board = json.loads((MONITORING / "grafana-dashboard.json").read_text("utf-8"))
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + dx, place["y"] + dy)
            for dx in range(place["w"])
            for dy in range(place["h"])
        }
        assert not taken & cells, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_alert_rules() -> None:
    if PROMTOOL is None:
        pytest.skip("no promtool on this machine (Debian: apt-get install prometheus)")
    for command in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]):
        found = subprocess.run(
            [PROMTOOL, *command], cwd=MONITORING, text=True, capture_output=True, check=False
        )
        assert found.returncode == 0, found.stdout + found.stderr
