"""After a run: an archive of what must be kept, checked by hashes and a signature, and the deletion
of what may go.

    archive.json        this list: member, contract, every file with its SHA-256; signed
    contract/           the contract, its amendments, everybody's signatures
    policy/             what the officer allowed, and the exceptions
    run/                a run folder: model, statement, log, evidence; `tacenda report` reads it
    ledger.jsonl        the rows of this run and of its account's budget, each with its seal
    versions.json       what the program consisted of

The ledger stays where it is, whatever is deleted: it alone says what the records have lost.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from tacenda.errors import InputError, StateError
from tacenda.formats.files import write_bytes, write_json, write_text
from tacenda.formats.text import canonical_json
from tacenda.privacy.accounting.events import Event, at_members, event_from_dict
from tacenda.privacy.accounting.judge import judge
from tacenda.privacy.lasting.database import is_sealed
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.privacy.lasting.rounds import from_text
from tacenda.privacy.statement import Statement
from tacenda_node.evidence.signed_statement import FILE as STATEMENT
from tacenda_node.evidence.signed_statement import verify_statement
from tacenda_node.identity import contract_files
from tacenda_node.identity.certificates import Identity, text_signed
from tacenda_node.identity.contract import Contract
from tacenda_node.operate.policy import APPROVALS
from tacenda_node.operate.settings import NodeSettings
from tacenda_node.state.accounts import default_ledger
from tacenda_node.state.database import FILE as STATE
from tacenda_node.state.database import NodeState
from tacenda_node.state.looks import in_use
from tacenda_node.state.spending import is_evaluation_of, is_run_of

FILE, FORMAT = "archive.json", "tacenda-archive-1"
CONTRACT = "contract/contract.toml"
LEDGER, VERSIONS, RUN = "ledger.jsonl", "versions.json", "run"
DELETED = "deleted.json"
# Of the state folder: made to be kept. Anything else may hold a key.
KEPT = (
    *("config.toml", "manifest.json", "schema.toml", "ledger.json", "report.html", STATEMENT),
    *("evaluation.json", "log.jsonl*", "metrics.jsonl", "evidence-*.json", "results/*", DELETED),
    *("contract.toml", "contract.toml.signatures"),  # in force, with the signatures that travelled
)
# Of the state folder: of no use after the run
_STATES = (STATE, f"{STATE}-wal", f"{STATE}-shm")
REMOVED = (
    *(*_STATES, *(f"evaluation/{name}" for name in _STATES)),
    *("dashboard.token", "compiled", "checkpoints"),
)
ROUNDING = 1e-9
_PREFIX = b"tacenda archive v1\0"


def archive(settings: NodeSettings, target: str | Path, *, unfinished: bool = False) -> Path:
    """Copy what must be kept into a new folder, with its signed list.

    unfinished: also of a run without a result, which has left or was given up.
    """
    folder, state = Path(target), settings.state
    identity = Identity.read(settings.identity)
    contract = contract_files.read(settings.contract)
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"The folder {folder} is not empty; choose a new one with -o.")
    if not unfinished and not (state / STATEMENT).exists():
        raise InputError(
            f"{state} holds no {STATEMENT}, so this run has no result yet; wait until it is over, "
            "or say --unfinished to archive what there is."
        )
    _require_still(state)
    sources: dict[str, Path] = {CONTRACT: settings.contract}
    side = contract_files.signatures_path(settings.contract)
    beside = settings.contract.parent.glob(f"{settings.contract.stem}.amendment-*")
    for path in [side, *beside]:
        sources[f"contract/{path.name.replace(settings.contract.stem, 'contract', 1)}"] = path
    if settings.policy is not None:
        sources["policy/policy.toml"] = settings.policy
        for path in (settings.policy.parent / APPROVALS).glob("*.json"):
            sources[f"policy/{APPROVALS}/{path.name}"] = path
    for pattern in KEPT:
        sources |= {f"{RUN}/{p.relative_to(state)}": p for p in state.glob(pattern) if p.is_file()}
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in sources.items():
        if path.exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_bytes(folder / name, path.read_bytes())
    head, lines = ledger_extract(settings, contract, identity.name)
    write_text(folder / LEDGER, "".join(f"{line}\n" for line in lines))
    packages = {one.metadata["Name"]: one.version for one in distributions()}
    python = {"python": platform.python_version(), "system": platform.platform()}
    write_json(folder / VERSIONS, {**python, "packages": dict(sorted(packages.items()))})
    body: dict[str, Any] = {
        "member": identity.name,
        "title": contract.title,
        "contract": contract.hash(),
        "run": contract.run_id(),
        "archived_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "ledger_head": list(head),
        "files": hashes(folder, FILE),
    }
    signature = identity.sign_text(_text(body))
    return write_json(folder / FILE, {"format": FORMAT, "body": body, "signature": signature})


@dataclass(frozen=True)
class Checked:
    """An archive that was found in order."""

    member: str
    title: str
    contract: str
    archived_at: str
    files: int
    epsilon: float | None
    notes: list[str]


def verify_archive(folder: str | Path) -> Checked:
    """Check an archive by itself: files, signatures, statement and ledger rows; StateError with
    what is wrong."""
    folder = Path(folder)
    try:
        values = json.loads((folder / FILE).read_text("utf-8"))
        body, signature = values["body"], values["signature"]
        files: dict[str, str] = body["files"]
        if values["format"] != FORMAT:
            raise KeyError(FORMAT)
    except FileNotFoundError:
        raise InputError(
            f"There is no {FILE} in {folder}; `tacenda node archive` writes it."
        ) from None
    except (ValueError, KeyError, TypeError):
        raise StateError(f"{folder / FILE} is not a list in the format {FORMAT!r}.") from None
    found = hashes(folder, FILE)
    for name in sorted({*files, *found}):
        if files.get(name) != found.get(name):
            what = "is missing" if name not in found else "was changed or added"
            raise StateError(f"{folder / name} {what} since the archive was made.")
    contract = contract_files.read(folder / CONTRACT)
    member = str(body["member"])
    if body["contract"] != contract.hash():
        raise StateError(f"{folder / FILE} is about another contract than the one in {CONTRACT}.")
    if not text_signed(contract.member(member).signing_key, _text(body), signature):
        raise StateError(
            f"{folder / FILE} is not signed by {member} with the key in the contract, or was "
            "changed afterwards."
        )
    notes: list[str] = []
    signed = set(contract_files.signatures(folder / CONTRACT))
    in_force = folder / RUN / "contract.toml"
    if in_force.exists() and contract_files.read(in_force).hash() == contract.hash():
        signed |= set(contract_files.signatures(in_force))
    missing = [name for name in contract.signatories if name not in signed]
    if missing:
        notes.append(f"the contract lacks the signatures of {', '.join(missing)}")
    epsilon = None
    if (folder / RUN / STATEMENT).exists():
        signed_one = verify_statement(folder / RUN / STATEMENT, contract)
        statement = signed_one.statement
        epsilon = statement.epsilon
        _require_booked(folder, contract, member, is_run_of, statement)
        if signed_one.evaluation is not None:
            _require_booked(folder, contract, member, is_evaluation_of, signed_one.evaluation)
    else:
        notes.append("the run has no statement, because it was not finished")
    return Checked(
        member, contract.title, contract.hash(), body["archived_at"], len(files), epsilon, notes
    )


@dataclass(frozen=True)
class Deletion:
    """What deletion removes, and what remains, each with the reason."""

    remove: list[str]
    keep: list[tuple[str, str]]
    spends: list[str]  # open runs of the ledger that then count as spent in full


def plan_deletion(settings: NodeSettings, *, force_spent: bool = False) -> Deletion:
    """What `delete` would do; refused while the run may still go on.

    force_spent: the run is given up, and counts as spent in full.
    """
    state, name = settings.state, Identity.read(settings.identity).name
    contract = contract_files.read(settings.contract)
    ledger = settings.ledger or default_ledger(name)
    if in_use(state):
        raise StateError(f"A node runs on the state {state}; stop it first.")
    given_up = force_spent or _deleted_before(state, contract)
    if not given_up and _require_still(state) is False:
        raise StateError(
            f"The run in {state} is not over, or a neighbour may still need its last message; "
            "start the node again and let it end. To give the run up, say --force-spent: all "
            "of it then counts as spent, and this member cannot continue with it."
        )
    spends = []
    if ledger.exists():
        with LedgerStore(ledger) as store:
            spends = [
                run["run"]
                for run in store.runs()
                if run["open"] and _is_part_of(run["run"], contract, name)
            ]
    if spends and not given_up:
        raise StateError(
            f"The ledger {ledger} holds the run {spends[0]} as open, and its state is not here; "
            "put the state back and let the run end, or say --force-spent: all of it then counts "
            "as spent."
        )
    remove = [str(state / one) for one in REMOVED if (state / one).exists()]
    keep = [
        (str(ledger), "what the records have lost in all runs; never deleted"),
        (str(ledger.parent / "marks"), "shows whether the state is an old copy"),
        (str(state / "results"), "the model, with the statement, the log and the evidence"),
        (str(settings.identity), "the member's keys, for other runs and for what it has signed"),
        (str(settings.contract), "what was agreed, with all signatures"),
        (str(settings.data), "the records are yours; Tacenda never deletes them"),
    ]
    return Deletion(remove, [(path, why) for path, why in keep if Path(path).exists()], spends)


def delete(settings: NodeSettings, plan: Deletion) -> None:
    """Do it: first the ledger, then a note that survives a crash, then the files.

    They are overwritten before they go; a disk that keeps old blocks (most SSDs, snapshots) may
    still hold them, which only the destruction of its key can prevent.
    """
    name = Identity.read(settings.identity).name
    ledger = settings.ledger or default_ledger(name)
    contract = contract_files.read(settings.contract)
    if plan.spends:
        with LedgerStore(ledger) as store:
            for run in plan.spends:
                store.close_as_spent(run)
    settings.state.mkdir(parents=True, exist_ok=True)
    note = {
        "run": contract.run_id(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "removed": [Path(one).name for one in plan.remove],
        "spent_in_full": plan.spends,
    }
    if not _deleted_before(settings.state, contract):
        write_json(settings.state / DELETED, note)
    for place in map(Path, plan.remove):
        if place.is_dir():
            shutil.rmtree(place)
        else:
            _overwrite(place)
            place.unlink()


# ---- inside
def _require_still(state: Path) -> bool | None:
    """That no node runs on the state (StateError); whether its run is over for all, or None where
    there is no state."""
    if not (state / STATE).exists():
        return None
    over = (state / STATEMENT).exists()
    for place in (state, state / "evaluation"):
        if (place / STATE).exists():
            held = NodeState(place)
            try:
                over = over and bool(held.noted("all finished"))
            finally:
                held.close()
    return over


def _is_part_of(run: str, contract: Contract, name: str) -> bool:
    """Whether this is the ledger's name of the contract's run, or of its closing run."""
    return is_run_of(run, contract, name) or is_evaluation_of(run, contract, name)


def _require_booked(
    folder: Path,
    contract: Contract,
    member: str,
    is_one: Callable[[str, Contract, str], bool],
    statement: Statement,
) -> None:
    """That the ledger's rows of one run hold what its statement says."""
    charges = ledger_charges(folder / LEDGER, lambda run: is_one(run, contract, member))
    charges = at_members(charges, statement.members_per_person)
    booked = judge(charges, statement.adjacency).epsilon(statement.delta) if charges else 0.0
    if not booked >= statement.epsilon * (1 - ROUNDING):
        raise StateError(
            f"{folder / LEDGER} holds charges of epsilon {booked:.6g}, and the statement says "
            f"{statement.epsilon:.6g}: rows are missing."
        )


def _deleted_before(state: Path, contract: Contract) -> bool:
    """Whether a deletion of this very run was begun: it is then gone on with."""
    try:
        note = json.loads((state / DELETED).read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return False
    return isinstance(note, dict) and note.get("run") == contract.run_id()


def ledger_extract(
    settings: NodeSettings, contract: Contract, name: str
) -> tuple[tuple[int, str], list[str]]:
    """The member's ledger: its head, and the rows of this run and of its account's budget."""
    ledger = settings.ledger or default_ledger(name)
    if not ledger.exists():
        return (0, ""), []
    with LedgerStore(ledger) as store:
        return store.head(), _rows_of_run(list(store.export()), contract, name)


def _rows_of_run(lines: list[str], contract: Contract, name: str) -> list[str]:
    rows = [(line, json.loads(line)) for line in lines]
    accounts = {row["dataset"] for _, row in rows if _is_part_of(row["run"], contract, name)}
    return [
        line
        for line, row in rows
        if _is_part_of(row["run"], contract, name)
        or (row["kind"] == "budget" and row["dataset"] in accounts)
    ]


def ledger_charges(path: Path, wanted: Callable[[str], bool]) -> list[tuple[Event, int]]:
    """The charges of wanted runs in an extract of the ledger, each row sound in itself."""
    charges = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        row = json.loads(line)
        if not is_sealed(row):
            raise StateError(f"{path}, line {number}: its contents and seal differ.")
        if not wanted(row["run"]):
            continue
        if row["kind"] == "charge":
            charges.append((event_from_dict(json.loads(row["event"])), 1))
        elif row["kind"] == "charges":
            for stretch in from_text(row["body"]):
                for _, event in stretch.pattern:
                    charges.append((event_from_dict(json.loads(event)), stretch.rounds))
    return charges


def hashes(folder: Path, but: str) -> dict[str, str]:
    """SHA-256 of every file below the folder, except for the file `but`, which lists them."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(files)
        if path != folder / but
    }


def _text(body: dict[str, Any]) -> bytes:
    return _PREFIX + canonical_json(body).encode()


def _overwrite(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        for at in range(0, size, 1 << 20):
            file.write(bytes(min(1 << 20, size - at)))
        file.flush()
        os.fsync(file.fileno())


def described(plan: Deletion) -> list[str]:
    """The plan in lines for a person."""
    removed = [f"removes  {path}" for path in plan.remove] or ["removes  nothing: it is gone"]
    spent = [f"spends   run {run} in full, in the ledger" for run in plan.spends]
    kept = [f"keeps    {path}: {why}" for path, why in plan.keep]
    return [*removed, *spent, *kept]
