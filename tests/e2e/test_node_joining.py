"""From nothing, by the commands alone: two members under `node serve`, a third that was not invited
and joins by a proposal, and what the page's source says of all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from node_stage import small_schema
from tacenda.data.random_records import write_random_records
from tacenda_node.operate.queue import Queue
from tacenda_node.proposals.box import Box
from tacenda_node.setup.rehearse import free_ports
from tacenda_node.watch.status_file import read_status, state_folder

pytestmark = pytest.mark.slow
FIRST, SECOND, LATER = "north", "east", "west"


class Town:
    """Folders of members, and the units that serve them."""

    def __init__(self, place: Path) -> None:
        self.place, self.served = place, dict[str, subprocess.Popen[bytes]]()
        self.env = {**os.environ, "XDG_DATA_HOME": str(place / "share")}
        small_schema().write(place / "schema.toml")
        names = (FIRST, SECOND, LATER)
        self.ports = dict(zip(names, free_ports(3), strict=True))
        for k, name in enumerate(names):
            write_random_records(small_schema(), 300, k, place / f"{name}.csv")

    def do(self, *words: str) -> str:
        command = [sys.executable, "-m", "tacenda", *words]
        done = subprocess.run(
            command, cwd=self.place, env=self.env, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def own(self, name: str) -> list[str]:
        place = f"localhost:{self.ports[name]}"
        return ["--name", name, "--data", f"{name}.csv", "--address", place, "--budget", "9"]

    def serve(self, name: str) -> None:
        command = [sys.executable, "-m", "tacenda", "node", "serve", name]
        with (self.place / f"{name}.txt").open("wb") as out:
            self.served[name] = subprocess.Popen(
                command, cwd=self.place, env=self.env, stdout=out, stderr=out
            )

    def until(self, done: Callable[[], bool]) -> None:
        end = time.monotonic() + 300
        while not done():
            said = {name: (self.place / f"{name}.txt").read_text() for name in self.served}
            assert time.monotonic() < end, said
            time.sleep(0.5)

    def states(self, name: str) -> list[str]:
        return [one.state for one in Queue(self.place / name).entries()]

    def stop(self) -> None:
        for process in self.served.values():
            process.send_signal(signal.SIGTERM)
        for process in self.served.values():
            process.wait(60)


def test_a_member_that_was_not_invited_takes_part_in_the_next_run(tmp_path: Path) -> None:
    town = Town(tmp_path)
    asked = ["--title", "study", "--schema", "schema.toml", "--epsilon", "2", "--held-out", "0"]
    town.do("consortium", "new", *town.own(FIRST), "--member", SECOND, *asked)
    town.do("consortium", "join", f"{FIRST}/study.invite", *town.own(SECOND))
    town.do("consortium", "draft", f"{SECOND}/{SECOND}.card", "--folder", FIRST)
    town.do("consortium", "accept", f"{FIRST}/contract.toml", "--folder", SECOND, "--yes")
    try:
        for name in (FIRST, SECOND):
            town.serve(name)
        town.until(lambda: all(town.states(n) == ["done"] for n in (FIRST, SECOND)))
        said = town.do("consortium", "join", f"{FIRST}/study.invite", "--later", *town.own(LATER))
        assert f"Send {LATER}/{LATER}.card to a member, who proposes the next run" in said
        said = town.do(
            "consortium", "propose", "with", f"{LATER}/{LATER}.card", "--folder", SECOND, "--yes"
        )
        (one,) = Box(tmp_path / SECOND).all()
        number = one.proposal.number
        assert f"Send {LATER} " in said and f"next-{number}.toml and " in said
        asking = Box(tmp_path / FIRST)
        town.until(lambda: any(kept.proposal.number == number for kept in asking.all()))
        town.do("consortium", "accept", number[:4], "--folder", FIRST, "--yes")
        sent = f"{SECOND}/next-{number}.toml"
        town.do("consortium", "accept", sent, "--folder", LATER, "--yes")
        town.serve(LATER)
        town.until(lambda: town.states(LATER) == ["done"])
        town.until(lambda: town.states(FIRST) == town.states(SECOND) == ["done", "done"])
    finally:
        town.stop()
    assert asking.find(number).in_effect  # by the signature that came with the new member's node
    for name in (FIRST, SECOND, LATER):
        status = read_status(state_folder(tmp_path / name))
        assert status.title == "study 2" and status.state == "finished"
        assert {member.name for member in status.members} == {FIRST, SECOND, LATER}
