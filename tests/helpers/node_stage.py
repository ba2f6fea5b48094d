"""A small federation for tests: a schema, a contract, and members as real processes that start
quickly (a fork server)."""

from __future__ import annotations

import base64
import multiprocessing as mp
import os
import signal
import sys
import time
import traceback
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from tacenda.data.columns import NumericColumn
from tacenda.data.label import Label
from tacenda.data.schema import Schema
from tacenda.runtime.places import Form
from tacenda_node.identity import certificates as identity
from tacenda_node.identity import contract_files
from tacenda_node.identity.contract import Contract
from tacenda_node.protocol.handshake import Handshake
from tacenda_node.protocol.signed_rows import Witness
from tacenda_node.setup.rehearse import Stage, prepare
from tacenda_node.state.database import NodeState

os.environ.setdefault("NUMBA_NUM_THREADS", "1")  # many members share this machine's few cores
# The members' processes listen to gRPC's words about TLS
os.environ.setdefault("GRPC_VERBOSITY", "INFO")
_context = mp.get_context("forkserver")
_context.set_forkserver_preload(["tacenda_node.peer.run", "node_stage"])


def small_schema(features: int = 4, regression: bool = False) -> Schema:
    columns = tuple(NumericColumn(name=f"x{k}", low=0, high=1) for k in range(features - 1))
    classes = Label(name="y", classes=("no", "yes"))
    label = Label(name="y", low=-1.0, high=1.0) if regression else classes
    # Rows are cut to norm 1, not divided: the contracts of the tests have row_scale = 1
    return Schema(columns=columns, label=label, intercept=True, row_norm=1.0)


def _key(k: int) -> str:
    return base64.b64encode(k.to_bytes(32, "big")).decode()


def anywhere(width: int) -> Any:
    """Rows of one form in every place of a run, for a `Mailbox`."""
    return defaultdict(lambda: Form(width, np.dtype(float)))


def small_contract(
    n: int = 3, rounds: int = 5, features: int = 4, graph: str = "ring", **changes: Any
) -> Contract:
    names = [f"m{k}" for k in range(n)]
    members = [
        {
            "name": name,
            "size": 60 + 10 * k,
            "address": "localhost:1",
            "fingerprint": f"{k:064x}",
            "signing_key": _key(k),
        }
        for k, name in enumerate(names)
    ]
    values: dict[str, Any] = {
        "title": "test",
        "rounds": rounds,
        "schema_hash": small_schema(features).hash(),
        "members": members,
        "edges": contract_files.named_edges(graph, names),
        "authorities": ["-----BEGIN CERTIFICATE-----"],
        "problem": {"n_features": features, "classes": ["no", "yes"], "strength": 0.01},
        "algorithm": {"name": "ipadmm", "penalty": 0.1, "inner_steps": 2},
        "privacy": {"epsilon": 5.0, "delta": 1e-5},
    }
    values = {**values, **changes}
    width = values["problem"].get("n_features", features)
    for schema in (small_schema(width), small_schema(width, regression=True)):
        if schema.hash() == values["schema_hash"]:
            values["problem"] = {"row_scale": schema.row_scale, **values["problem"]}
    return Contract.build(values)


def made_identity(folder: Path, name: str, authority: Path, days: int = 2) -> identity.Identity:
    """Keys and a certificate of one member,
    signed by the authority in `authority` (made if missing)."""
    if not (authority / identity.AUTHORITY_KEY).exists():
        identity.make_authority(authority, "ca")
    identity.sign(authority, identity.init(folder, name), folder, days)
    return identity.Identity.read(folder)


def signed_contract(
    contract: Contract, folder: Path
) -> tuple[Contract, dict[str, identity.Identity]]:
    """The contract with real keys, and the identity of every member."""
    plain, people = contract.to_plain(), {}
    for member in plain["members"]:
        mine = people[member["name"]] = made_identity(
            folder / member["name"], member["name"], folder / "ca"
        )
        member |= {"fingerprint": mine.fingerprint, "signing_key": mine.signing_key}
    return Contract.build(plain), people


def handshake_of(
    contract: Contract, who: identity.Identity, state: NodeState, **values: Any
) -> Handshake:
    """A member's handshake on a state folder, as `run_node` sets it up."""
    witness = Witness(contract, who.name, state, who.signer())
    view, done = witness.done
    values = {"view": view, "done": done, "started": witness.latest > (0, 0, 0), **values}
    return Handshake(contract, who, witness, **values)


class Crowd:
    """The members of a staged contract as processes, which may be killed,
    frozen and started again."""

    def __init__(
        self,
        folder: Path,
        contract: Contract,
        *,
        seed: int | None = None,
        addresses: Any = None,
        metrics: int | None = None,
        ledgers: Path | None = None,
        options: dict[str, dict[str, Any]] | None = None,
        schema: Schema | None = None,
        data: dict[str, Path] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        p = contract.problem
        declared = small_schema(p.n_features, p.classes is None) if schema is None else schema
        declared.write(folder / "schema.toml")
        self.stage: Stage = prepare(
            contract, folder / "schema.toml", folder / "stage", data=data, seed=seed
        )
        self.processes: dict[str, Any] = {}
        self.metrics = metrics
        self.ledgers = ledgers  # a folder with one for each member, outside the state folders
        self.addresses: dict[str, dict[str, str]] = addresses or {}
        self.contracts: dict[str, Path] = {}  # a member's own copy, where it has one
        self.options = options or {}  # of single members, instead of the usual ones
        self.names = self.stage.contract.names
        if ledgers is not None:
            for name in self.names:
                (ledgers / name).mkdir(parents=True)

    def start(self, *names: str) -> None:
        for name in names or self.names:
            process = _context.Process(
                target=live, args=(self._options(name), str(self.folder(name) / "output.txt"))
            )
            process.start()
            self.processes[name] = process

    def start_liar(self, name: str, lies: dict[str, list[str]], after: str) -> None:
        """Start a member that tells each neighbour another thing about who
        is absent (`live_and_lie`)."""
        arguments = (self._options(name), str(self.folder(name) / "output.txt"), lies, after)
        self.processes[name] = _context.Process(target=live_and_lie, args=arguments)
        self.processes[name].start()

    def start_false(self, name: str, shifts: dict[str, float], first_round: int = 2) -> None:
        """Start a member that adds a number to the rows for each neighbour,
        and signs what it sends (`live_with_false_rows`)."""
        arguments = (
            self._options(name),
            str(self.folder(name) / "output.txt"),
            shifts,
            first_round,
        )
        self.processes[name] = _context.Process(target=live_with_false_rows, args=arguments)
        self.processes[name].start()

    def start_as(self, name: str, what: Any, *arguments: Any) -> None:
        """Start a member whose process does `what(options, output, *arguments)`."""
        options, output = self._options(name), str(self.folder(name) / "output.txt")
        self.processes[name] = self.process(what, options, output, *arguments)

    @staticmethod
    def process(what: Any, *arguments: Any) -> Any:
        """A process that does `what(*arguments)`, started."""
        made = _context.Process(target=what, args=arguments)
        made.start()
        return made

    def folder(self, name: str) -> Path:
        return self.stage.folder / name

    def keep_own_signatures(self) -> None:
        """Give every member a copy of the contract that it alone has signed."""
        for name in self.names:
            self.contracts[name] = self.folder(name) / "contract.toml"
            contract_files.write(self.stage.contract, self.contracts[name])
            mine = identity.Identity.read(self.folder(name) / "identity")
            contract_files.sign(self.contracts[name], mine)

    def until(self, name: str, words: str, seconds: float = 150.0) -> None:
        """Wait until a member's log says so."""
        end = time.monotonic() + seconds
        path = self.folder(name) / "state" / "log.jsonl"
        while not (path.exists() and words in path.read_text("utf-8")):
            assert time.monotonic() < end, f"{name} never said {words!r}: {self.output(name)}"
            time.sleep(0.02)

    def _options(self, name: str) -> dict[str, Any]:
        home = self.folder(name)
        return {
            "contract": self.contracts.get(name, self.stage.contract_path),
            "schema": self.stage.schema,
            "data": self.stage.data[name],
            "identity": home / "identity",
            "state": home / "state",
            "bind": self.stage.contract.member(name).address,
            "rehearsal": True,
            "quiet": True,
            "watch_tls": True,
            "addresses": self.addresses.get(name),
            "metrics_address": self.metrics,
            "ledger": None if self.ledgers is None else self.ledgers / name / "ledger.sqlite",
            **self.options.get(name, {}),
        }

    def kill(self, name: str) -> None:
        process = self.processes[name]
        if process.is_alive():
            process.kill()
        process.join(20)

    def freeze(self, name: str, seconds: float) -> None:
        pid = self.processes[name].pid
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)

    def wait(self, seconds: float = 120, names: list[str] | None = None) -> dict[str, int]:
        """The exit codes; whoever does not end is killed and has None."""
        end = time.monotonic() + seconds
        for name in names or self.names:
            self.processes[name].join(max(0.1, end - time.monotonic()))
        codes = {name: self.processes[name].exitcode for name in names or self.names}
        return codes

    def stop(self) -> None:
        for name in self.processes:
            self.kill(name)

    def output(self, name: str) -> str:
        path = self.folder(name) / "output.txt"
        return path.read_text("utf-8", "replace")[-1500:] if path.exists() else ""

    def log(self, name: str) -> str:
        return (self.folder(name) / "state" / "log.jsonl").read_text("utf-8")

    def charges(self, name: str) -> list[Any]:
        """Everything that a member's state holds as booked; the member must not be running."""
        state = NodeState(self.folder(name) / "state")
        try:
            return [(*key, event) for key, event in state.charges()]
        finally:
            state.close()

    def models(self) -> np.ndarray:
        return np.vstack([r.models.reshape(1, -1) for r in self.stage.results().values()])

    def finish(self, seconds: float = 120) -> np.ndarray:
        """Wait for all, insist that all ended well, and give the models (n, d)."""
        try:
            codes = self.wait(seconds)
        finally:
            self.stop()
        for name, code in codes.items():
            assert code == 0, f"{name} ended with {code}: {self.output(name)}"
        return self.models()


def live(options: dict[str, Any], output: str) -> None:
    """What a member's process does."""
    from tacenda.errors import TacendaError
    from tacenda_node.operate.settings import NodeSettings
    from tacenda_node.peer.run import run_node

    with open(output, "a", encoding="utf-8") as out:
        try:
            run_node(NodeSettings(**options))
        except TacendaError as error:
            print(f"Error: {type(error).__name__}: {error}", file=out, flush=True)
            sys.exit(2)
        except BaseException:
            traceback.print_exc(file=out)
            out.flush()
            sys.exit(1)


def live_on_terminal(options: dict[str, Any], output: str, terminal: str) -> None:
    """A member whose standard error is a terminal."""
    place = os.open(terminal, os.O_RDWR | os.O_NOCTTY)
    os.dup2(place, 2)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    live(options, output)


def live_and_lie(
    options: dict[str, Any], output: str, lies: dict[str, list[str]], after: str
) -> None:
    """A member that keeps to the program until its log says `after`; then it signs, for one view,
    what `lies` has for each neighbour."""
    import threading

    from tacenda_node.membership.votes import Vote, statement
    from tacenda_node.peer import session
    from tacenda_node.protocol import frames
    from tacenda_node.wire import endpoint

    class Lying(endpoint.Endpoint):
        def start(self) -> None:
            super().start()
            threading.Thread(target=self._lie, daemon=True).start()

        def _lie(self) -> None:
            log = Path(options["state"]) / "log.jsonl"
            while after not in log.read_text("utf-8"):
                time.sleep(0.02)
            me, contract = self.handshake.identity, self.handshake.contract
            for peer, absent in lies.items():
                vote = Vote(sorted(absent), self.handshake.done + 1, "")
                signature = me.sign_text(statement(contract.run_id(), 1, me.name, vote))
                frame = frames.Membership(
                    1, vote.absent, {me.name: frames.SignedStop(vote.round, signature)}
                )
                self._loop.call_soon_threadsafe(self.links[peer].tell, frame)

    session.Endpoint = Lying
    live(options, output)


def live_with_false_rows(
    options: dict[str, Any], output: str, shifts: dict[str, float], first_round: int
) -> None:
    """A member with a program of its own: from a round on, its rows for some neighbours are other
    rows, well signed."""
    from tacenda_node.peer import session
    from tacenda_node.protocol import frames
    from tacenda_node.wire import endpoint

    class Lying(endpoint.Endpoint):
        def post(self, messages: list[Any]) -> None:
            super().post([(key, peer, self._false(key, peer, raw)) for key, peer, raw in messages])

        def _false(self, key: Any, peer: str, raw: bytes) -> bytes:
            frame = frames.stored(raw, frames.Rows)
            if peer not in shifts or key[1] < first_round:
                return raw
            rows = np.frombuffer(frame.data, "<f8").reshape(1, -1) + shifts[peer]
            other = frames.rows_frame(*key, rows)
            return frames.encode(
                frames.replaced(
                    other,
                    signature=signed_by(self.handshake.identity, self.handshake.contract, other),
                )
            )

    session.Endpoint = Lying
    live(options, output)


def live_with_version(options: dict[str, Any], output: str, version: int) -> None:
    """A member whose program speaks this version of the frames."""
    from tacenda_node.protocol import frames

    frames.PROTOCOL = version
    live(options, output)


def live_with_forged_signature(options: dict[str, Any], output: str, victim: str) -> None:
    """A member that shows a signature of the contract as somebody else's."""
    from tacenda_node.protocol import frames
    from tacenda_node.protocol.contract_signatures import ContractSignatures

    honest = ContractSignatures.frame

    def frame(self: ContractSignatures) -> Any:
        made = honest(self)
        mine = next(iter(made.signatures.values()))
        return frames.replaced(made, signatures={**made.signatures, victim: mine})

    ContractSignatures.frame = frame  # type: ignore[method-assign]
    live(options, output)


def signed_by(who: identity.Identity, contract: Contract, frame: Any) -> str:
    """The signature that `who` puts under a row."""
    from tacenda_node.protocol import frames
    from tacenda_node.protocol.signed_rows import digest, row_text

    claim = frames.Claim(who.name, frame.view, frame.round, frame.call, digest(frame), "")
    return who.sign_text(row_text(contract.run_id(), claim))


def introduction(crowd: Crowd, name: str, peer: str, state_id: str = "", half: bytes = b"") -> Any:
    """What a member signs about its state when it meets `peer`."""
    from tacenda_node.protocol import frames
    from tacenda_node.protocol.signed_rows import state_text

    who = identity.Identity.read(crowd.folder(name) / "identity")
    mine = frames.Introduction(state_id, 0, half, "")
    return frames.replaced(
        mine, signature=who.sign_text(state_text(crowd.stage.contract.run_id(), name, peer, mine))
    )


def simulated(stage: Stage, rounds: int | None = None, seed: int = 0) -> np.ndarray:
    """The same run by `tacenda.simulate`, (n, d)."""
    import tacenda as tc
    from tacenda.algorithms.registry import from_plain
    from tacenda.data.encoding import encode
    from tacenda_node.peer.run_plan import loss_of, make_plan, topology_of

    c = stage.contract
    p = c.problem
    schema = Schema.read(stage.schema).as_model(p.model)
    sets = [encode(schema, stage.data[name]) for name in c.names]
    problem = tc.Problem(
        [(s.X, s.y) for s in sets],
        loss=loss_of(c),
        regulariser=p.regulariser,
        strength=p.strength,
        loss_scale=p.loss_scale,
        data_norm=p.data_norm,
        row_scale=p.row_scale,
        clip_norm=p.clip_norm,
        classes=None if p.classes is None else range(len(p.classes)),
        public_sizes=[float(m.size) for m in c.members],
    )
    privacy = tc.Privacy(
        epsilon=c.privacy.epsilon,
        delta=c.privacy.delta,
        adjacency=c.privacy.adjacency,
        coalition=c.privacy.coalition,
    )
    result = tc.simulate(
        problem,
        topology_of(c),
        from_plain(c.algorithm.model_dump()),
        rounds or c.rounds,
        privacy,
        seed=seed,
        record_every=0,
        finish_mixing=c.finish_mixing,
        groups=c.groups,
        output=c.output,
        mixing=make_plan(c).spec.method.mixing,
        prepare=c.preparation,
    )
    return np.asarray(result.models.reshape(len(c.members), -1))
