"""A rehearsal: the whole federation as real processes on this machine, with real TLS, real streams
and durable writes.

Every member gets a fresh identity and a local address; the rest of the contract stays as it is.
With a `seed` the noise is seeded and the result equals `tacenda.simulate`; without one the noise is
the real one. Data may be given per member; where it is not, records are made up from the schema.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacenda.data.random_records import write_random_records
from tacenda.data.schema import Schema
from tacenda.errors import NetworkError, StateError
from tacenda.runtime.result import RunResult, load
from tacenda_node.identity import certificates as identity
from tacenda_node.identity import contract_files
from tacenda_node.identity.contract import Contract
from tacenda_node.setup.delay import DelayedNetwork
from tacenda_node.setup.namespaces import Namespaces


@dataclass
class Stage:
    """A prepared rehearsal: one folder per member, a signed contract,
    and the processes once they run."""

    folder: Path
    contract: Contract
    schema: Path
    data: dict[str, Path]
    spaces: Namespaces | None = None
    reached: dict[str, str] = field(default_factory=dict)  # at other addresses than the contract's
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def contract_path(self) -> Path:
        return self.folder / "contract.toml"

    def command(self, name: str) -> list[str]:
        """The command line of one member, the same as on a real site but for --rehearsal."""
        home = self.folder / name
        before = [] if self.spaces is None else self.spaces.prefix(name)
        return [
            *before,
            sys.executable,
            "-m",
            "tacenda_node",
            "node",
            "run",
            "--contract",
            str(self.contract_path),
            "--schema",
            str(self.schema),
            "--data",
            str(self.data[name]),
            "--identity",
            str(home / "identity"),
            "--state",
            str(home / "state"),
            "--bind",
            self.contract.member(name).address,
            "--rehearsal",
            "--quiet",
            *(
                word
                for peer in self.contract.neighbours(name)
                if peer in self.reached
                for word in ("--peer", f"{peer}={self.reached[peer]}")
            ),
        ]

    def start(self, name: str) -> None:
        """Start, or start again, one member."""
        out = open(self.folder / name / "output.txt", "ab")  # noqa: SIM115 - handed to the process
        env = {
            **os.environ,
            "NUMBA_NUM_THREADS": os.environ.get("NUMBA_NUM_THREADS", "1"),
            "OMP_NUM_THREADS": "1",
        }
        self.processes[name] = subprocess.Popen(
            self.command(name), stdout=out, stderr=subprocess.STDOUT, env=env
        )
        out.close()

    def wait(self, seconds: float) -> None:
        """Until all have ended well; otherwise the words of who did not."""
        end = time.monotonic() + seconds
        try:
            for name, process in self.processes.items():
                code = process.wait(max(0.1, end - time.monotonic()))
                if code:
                    raise NetworkError(f"{name} ended with code {code}: {self.output(name)}")
        except subprocess.TimeoutExpired:
            raise NetworkError(
                f"The rehearsal did not end within {seconds:g} s: {self.output(name)}"
            ) from None
        finally:
            self.stop()

    def stop(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()

    def output(self, name: str) -> str:
        """The last lines that a member printed."""
        path = self.folder / name / "output.txt"
        return path.read_text("utf-8", "replace")[-800:].strip() if path.exists() else ""

    def results(self) -> dict[str, RunResult]:
        """Every member's result, in the contract's order."""
        found = {}
        for name in self.contract.names:
            path = (
                self.folder
                / name
                / "state"
                / "results"
                / f"{self.contract.algorithm.name}-{name}.safetensors"
            )
            if not path.exists():
                raise StateError(f"{name} has no result in {path.parent}: {self.output(name)}")
            found[name] = load(path)
        return found

    def seconds_of_rounds(self) -> float:
        """From the first connection to the last round, over all members, by their logs."""
        times = []
        for name in self.contract.names:
            for line in (
                (self.folder / name / "state" / "log.jsonl").read_text("utf-8").splitlines()
            ):
                entry = json.loads(line)
                if entry["event"] in ("round one done", "all rounds done"):
                    times.append(float(entry["at"]))
        return max(times) - min(times) if times else 0.0


def prepare(
    contract: Contract,
    schema: str | Path,
    folder: str | Path,
    *,
    data: dict[str, Path] | None = None,
    seed: int | None = None,
    spaces: Namespaces | None = None,
) -> Stage:
    """Identities, addresses, data and a signed contract for a rehearsal
    of `contract` in a new folder."""
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    identity.make_authority(home / "authority", "rehearsal")
    members, files = [], {}
    ports = free_ports(len(contract.members))
    where = [
        f"127.0.0.1:{ports[k]}" if spaces is None else f"{spaces.address(member.name)}:7443"
        for k, member in enumerate(contract.members)
    ]
    for k, member in enumerate(contract.members):
        place = home / member.name
        request = identity.init(place / "identity", member.name)
        identity.sign(home / "authority", request, place / "identity", days=2)
        mine = identity.Identity.read(place / "identity")
        members.append(
            {
                **member.model_dump(),
                "address": where[k],
                "fingerprint": mine.fingerprint,
                "signing_key": mine.signing_key,
            }
        )
        files[member.name] = (data or {}).get(member.name) or _made_up(
            schema, member.size, k, place
        )
    values = {**contract.to_plain(), "members": members, "authorities": [mine.authority_pem]}
    if seed is not None:
        values["rehearsal_seed"] = seed
    staged = Contract.build(values)
    contract_files.write(staged, home / "contract.toml")
    for name in staged.names:
        contract_files.sign(
            home / "contract.toml", identity.Identity.read(home / name / "identity")
        )
    return Stage(home, staged, Path(schema), files, spaces)


def rehearse(
    contract: Contract,
    schema: str | Path,
    folder: str | Path,
    *,
    data: dict[str, Path] | None = None,
    seed: int | None = None,
    seconds: float = 600.0,
    namespaces: bool = False,
    delay_ms: float = 0.0,
) -> Stage:
    """Run the whole federation here, to its end; with `namespaces` every member in a network of its
    own (Linux, root). delay_ms: how long everything takes from one member to another."""
    with Namespaces(contract.names, delay_ms) if namespaces else nullcontext() as spaces:
        stage = prepare(contract, schema, folder, data=data, seed=seed, spaces=spaces)
        addresses = {m.name: m.address for m in stage.contract.members}
        slow = bool(delay_ms) and not namespaces
        with DelayedNetwork(addresses, delay_ms) if slow else nullcontext({}) as reached:
            stage.reached = reached
            for name in stage.contract.names:
                stage.start(name)
            stage.wait(seconds)
    return stage


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 on which nobody listens now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _made_up(schema: str | Path, size: int, k: int, place: Path) -> Path:

    return write_random_records(Schema.read(schema), size, k, place / "records.csv")


def summary(stage: Stage) -> dict[str, Any]:
    """Plain facts of a finished rehearsal."""
    results = stage.results()
    more = {} if stage.contract.evaluation is None else {"evaluation": _measures(stage)}
    return {
        "members": len(results),
        "rounds": stage.contract.rounds,
        "seconds": stage.seconds_of_rounds(),
        "epsilon": {
            name: r.privacy.epsilon for name, r in results.items() if r.privacy is not None
        },
        **more,
    }


def _measures(stage: Stage) -> dict[str, dict[str, Any]]:
    """What the evaluation found, by measure; all members have found the same."""
    from tacenda_node.watch.observer import EVALUATION_FILE

    path = stage.folder / stage.contract.names[0] / "state" / EVALUATION_FILE
    found: dict[str, dict[str, Any]] = json.loads(path.read_text("utf-8"))["measures"]
    return found
