"""The files for Docker, compose and Helm call the node with options that it has,
and keep their promises."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

from tacenda_node.commands.node import node_app

DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = ("Dockerfile", "compose/compose.yaml", "helm/tacenda-node/templates/job.yaml")


def _options() -> set[str]:
    run = get_command(node_app).commands["run"]
    return {option for parameter in run.params for option in parameter.opts}


@pytest.mark.parametrize("name", FILES)
def test_every_option_exists(name: str) -> None:
    text = (DEPLOY / name).read_text("utf-8")
    called = r"ENTRYPOINT|CMD \[\"--|args:|command: \[\"--|^\s+--|^\s+- \"--|\"--identity"
    lines = [line for line in text.splitlines() if re.search(called, line)]
    used = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", "\n".join(lines)))
    assert used
    assert used <= _options(), used - _options()


def test_compose_mounts_what_the_image_reads() -> None:
    image = (DEPLOY / "Dockerfile").read_text("utf-8")
    compose = (DEPLOY / "compose" / "compose.yaml").read_text("utf-8")
    for place in ("/etc/tacenda", "/identity", "/state", "/ledger"):
        assert place in image
        assert compose.count(f":{place}") == 3
    assert "USER 10001:10001" in image
    assert compose.count("read_only: true") == 1


DEPLOYED = {
    "compose": ("Dockerfile", "compose/compose.yaml"),
    "helm": ("Dockerfile", "helm/tacenda-node/templates/job.yaml"),
}


@pytest.mark.parametrize("kind", DEPLOYED)
def test_every_deployment_has_a_ledger_that_outlives_the_state_and_a_budget(kind: str) -> None:
    """Found by attack: none of them passed either,
    so that every run had its own ledger and no limit."""
    text = "\n".join((DEPLOY / name).read_text("utf-8") for name in DEPLOYED[kind])
    ledger = re.search(r'--ledger[" ,=]+([/\w.-]+)', text)
    state = re.search(r'--state[" ,=]+([/\w.-]+)', text)
    assert ledger is not None and state is not None
    assert Path(state[1]) not in Path(ledger[1]).parents
    assert re.search(r'--budget[" ,=]+\S*\$?\{', text), "the budget is the deployer's to say"
    assert re.search(r"--dataset", text)
    assert "--no-budget" not in text


def test_nothing_runs_as_root_or_writes_outside_its_state() -> None:
    chart = (DEPLOY / "helm" / "tacenda-node" / "templates" / "job.yaml").read_text("utf-8")
    assert "runAsNonRoot: true" in chart
    assert "readOnlyRootFilesystem: true" in chart
    assert "parallelism: 1" in chart


def test_a_finished_run_is_not_started_again() -> None:
    """Found by running it: a StatefulSet starts a node that has ended for ever."""
    chart = (DEPLOY / "helm/tacenda-node/templates/job.yaml").read_text("utf-8")
    assert "kind: Job" in chart and "values: [2, 3, 4]" in chart
    assert "restart: always" not in (DEPLOY / "compose/compose.yaml").read_text("utf-8")


def test_no_more_of_a_member_is_mounted_than_keys_and_records() -> None:
    """Found by running it: the whole folder was, with the key of its authority."""
    text = (DEPLOY / "compose/compose.yaml").read_text("utf-8")
    sources = set(re.findall(r'"\./(\S+?):/', text))
    members = ("north", "east", "south")
    assert sources == {"common"} | {
        f"{m}/{what}" for m in members for what in ("identity", "records.csv")
    }


def test_every_package_of_the_image_is_pinned_by_hash() -> None:
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["node"], *extras["data"], "hatchling"]
    names = {re.match(r"[A-Za-z0-9._-]+", text)[0].lower().replace("_", "-") for text in wanted}
    entries = re.split(r"\n(?=\S)", (DEPLOY / "requirements.txt").read_text("utf-8").strip())
    pinned = {entry.split("==")[0]: entry for entry in entries}
    assert names <= set(pinned), f"`make lock` writes them: {sorted(names - set(pinned))}"
    assert all("--hash=sha256:" in entry for entry in entries)


def test_kernels_find_a_writable_place_under_a_read_only_root() -> None:
    assert "NUMBA_CACHE_DIR=/tmp/numba" in (DEPLOY / "Dockerfile").read_text("utf-8")
