"""What the history of the micro-benchmarks says about machine and commit: no names of hosts,
users or folders, since its files are part of the repository."""

from __future__ import annotations

from typing import Any

from benchmarks.machine import machine


def pytest_benchmark_update_machine_info(config: Any, machine_info: dict[str, Any]) -> None:
    machine_info.clear()
    machine_info.update(machine())


def pytest_benchmark_update_commit_info(config: Any, commit_info: dict[str, Any]) -> None:
    commit_info["project"] = "tacenda"
    commit_info.pop("branch", None)
