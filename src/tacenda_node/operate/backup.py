"""A member's backup: identity, contract, settings, policy and ledger in one encrypted file, and the
way back, by which nothing is ever spent twice.

What would make that possible is left out. There is no state of a run in a backup, so that no noise
key comes back: no message can be drawn again, and none can be drawn differently. There is no mark
either (`node.state.mark`), so that an old copy of a state finds none of its age. And a ledger never
goes backwards:

    ledger here        what restore does
    ahead, or equal    keeps it
    missing, behind    puts the backup's in its place; every run that was open at the backup stays
                       reserved as a whole, so that it counts as spent in full until its newest
                       state says otherwise; so does every contract begun since, which the operator
                       must name (or say that there is none): nobody else here can know
    of another origin  refuses

The ledger is in its place, whole, before any other file is: a crash in between loses nothing.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from tacenda.errors import InputError, StateError
from tacenda.formats.files import write_bytes
from tacenda.privacy.lasting.accounts import HELD_OUT
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda_node.identity import contract_files
from tacenda_node.identity.certificates import Identity
from tacenda_node.operate.policy import APPROVALS
from tacenda_node.operate.settings import FILE as SETTINGS
from tacenda_node.operate.settings import NodeSettings, read_settings, settings_file
from tacenda_node.peer.evaluation_plan import closing_plan
from tacenda_node.peer.run_plan import make_plan
from tacenda_node.state.accounts import default_ledger
from tacenda_node.state.spending import EVALUATION, is_run_of, ledger_run

MAGIC = b"tacenda backup 1\n"
ABOUT, LEDGER = "backup.json", "ledger.sqlite"
QUEUE = "queue.json"
SALT, NONCE = 16, 12  # bytes behind the magic words
SCRYPT = {"n": 1 << 17, "r": 8, "p": 1}
SHORTEST = 12  # characters of a passphrase
RESTORED = "restored"  # stands for the state of a run that is known from the operator alone


@dataclass
class Report:
    """What was done, in words and for programs."""

    file: str
    member: str
    at: str
    files: list[str]
    ledger: str
    ledger_rows: int
    open_runs: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def back_up(place: str | Path | None, target: str | Path, passphrase: str) -> Report:
    """Write the encrypted backup of a member's folder; nodes may run meanwhile."""
    _check_passphrase(passphrase)
    home_file = settings_file(place)
    if home_file is None:
        raise InputError(f"There is no {SETTINGS} here; give the member's folder.")
    home, settings = home_file.parent, read_settings(place)
    identity = Identity.read(settings.identity)
    inside, outside = _files(home, home_file, settings)
    ledger = settings.ledger or default_ledger(identity.name)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    report = Report(str(target), identity.name, at, sorted(inside), str(ledger), 0)
    report.outside = outside
    with tempfile.TemporaryDirectory() as place_of_copy:
        contents = {name: (path.read_bytes(), _mode(path)) for name, path in inside.items()}
        if ledger.exists():
            copy = Path(place_of_copy) / LEDGER
            with LedgerStore(ledger) as store:
                store.copy_to(copy)
            with LedgerStore(copy) as store:  # what is in the copy, and not what came after it
                report.ledger_rows = store.head()[0]
                report.open_runs = [run["run"] for run in store.runs() if run["open"]]
            contents[LEDGER] = (copy.read_bytes(), 0o600)
        about = {
            "member": identity.name,
            "at": at,
            "ledger_rows": report.ledger_rows,
            "open_runs": report.open_runs,
        }
        contents[ABOUT] = (json.dumps(about).encode(), 0o600)
    write_bytes(target, _sealed(_packed(contents), passphrase), private=True)
    return report


def restore(
    source: str | Path,
    folder: str | Path,
    passphrase: str,
    *,
    begun: Sequence[str | Path] = (),
    nothing_begun: bool = False,
    dataset: str | None = None,
) -> Report:
    """Put a backup back into a member's folder (made if missing).

    begun: contracts whose runs have begun since the backup; nothing_begun: the operator's word that
    there are none. dataset: the account of these runs, where the ledger has several.
    """
    contents = _unpacked(_opened(Path(source), passphrase), Path(source))
    about = json.loads(contents.pop(ABOUT)[0])
    ledger_bytes = contents.pop(LEDGER, (None, 0))[0]
    home, name = Path(folder), about["member"]
    _check_unchanged(home, contents)
    values = tomllib.loads(contents[SETTINGS][0].decode())
    ledger = (
        home / Path(values["ledger"]).expanduser() if "ledger" in values else default_ledger(name)
    )
    report = Report(str(source), name, about["at"], sorted(contents), str(ledger), 0)
    report.open_runs = about["open_runs"]
    home.mkdir(parents=True, exist_ok=True)
    ledger.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=ledger.parent) as beside:  # so that it can be moved
        ours = Path(beside) / LEDGER
        if ledger_bytes is not None:
            write_bytes(ours, ledger_bytes, private=True)
        note = _compared(ledger, ours)
        if note:
            report.notes.append(note)
        else:
            _check_word(begun, nothing_begun, about["at"])
            account = dataset or values.get("dataset")
            report.notes += _advanced(ours, name, begun, account)
            _moved(ours, ledger)
    with LedgerStore(ledger) as store:
        report.ledger_rows = store.head()[0]
    for file, (data, mode) in contents.items():
        path = home / file
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            write_bytes(path, data, private=not mode & 0o077)
    report.notes.append(
        "No state of a run was put back. A run whose newest state folder is still here goes on "
        "with it; any other run of this member counts as spent, and is refused."
    )
    return report


# ---- the ledger
def _compared(here: Path, ours: Path) -> str:
    """Why the ledger that is here stays; empty if the backup's takes its place."""
    if not here.exists():
        return ""
    with LedgerStore(here) as present:
        sound = present.verify()
        if not sound.ok:
            raise StateError(
                f"The ledger {here} is damaged ({sound}); move it away and keep it, "
                "then restore again: the backup takes its place."
            )
        if not ours.exists():
            return f"The backup holds no ledger; {here} was kept."
        with LedgerStore(ours) as stored:
            if present.verify(stored.head()).ok:
                return f"The ledger {here} is as new as the backup's or newer, and was kept."
            if stored.verify(present.head()).ok:
                return ""
            raise StateError(
                f"The ledger {here} ({present.head()[0]} rows) and the backup's "
                f"({stored.head()[0]} rows) have different histories, so neither shows everything "
                f"that was spent; nothing was changed. Restore with another `ledger` in node.toml "
                f"only "
                "for other records."
            )


def _check_word(begun: Sequence[str | Path], nothing_begun: bool, at: str) -> None:
    if bool(begun) == nothing_begun:
        raise InputError(
            f"The ledger is missing or older than this backup of {at}, which does not know of runs "
            "that began later. Name the contract of each with --begun (it then counts as spent in "
            "full), or say --nothing-begun if there was none: one of the two."
        )


def _advanced(
    ledger: Path, name: str, begun: Sequence[str | Path], dataset: str | None
) -> list[str]:
    """Spend all that may have been spent, in the copy; what was done, in words."""
    notes = []
    with LedgerStore(ledger) as store:
        sound = store.verify()
        if not sound.ok:
            raise StateError(f"The backup's ledger is damaged: {sound}; use another backup.")
        # An open run's whole reservation counts, and is given back by its newest state alone
        for run in [run["run"] for run in store.runs() if run["open"]]:
            notes.append(f"Run {run} was open at the backup: it counts as spent in full.")
        for path in begun:
            contract = contract_files.read(path)
            if any(is_run_of(run["run"], contract, name) for run in store.runs()):
                notes.append(f"The ledger has the run of {path} already.")
                continue
            plan, account = make_plan(contract), _account(store, dataset)
            store.book_spent(
                ledger_run(contract, RESTORED, name),
                account,
                f"{contract.title} ({name}), begun after a backup",
                contract.privacy.adjacency,
                plan.reservation(name),
                plan.unit,
            )
            notes.append(f"The run of {path} counts as spent in full, for {account!r}.")
            if contract.evaluation is not None:
                held_out = f"{account}{HELD_OUT}"
                closing = closing_plan(contract)
                store.book_spent(
                    ledger_run(contract, RESTORED, f"{name}{EVALUATION}"),
                    held_out,
                    f"{contract.title} ({name}), evaluation, begun after a backup",
                    contract.privacy.adjacency,
                    closing.reservation(name),
                    closing.unit,
                )
                notes.append(f"So does its evaluation, for {held_out!r}.")
    return notes


def _account(store: LedgerStore, dataset: str | None) -> str:
    known = [one for one in store.datasets() if not one.endswith(HELD_OUT)]
    if dataset is None and len(known) != 1:
        said = ", ".join(map(repr, known)) or "none"
        raise InputError(
            f"The records of the contracts in --begun must be named by --dataset: the backup's "
            f"ledger has {said}."
        )
    return dataset or known[0]


def _moved(ours: Path, here: Path) -> None:
    """In the place of the older one, which nobody may have open; whole or not at all."""
    if not ours.exists():  # nothing was spent before the backup
        LedgerStore(ours).close()
    if here.exists():
        LedgerStore(here).close()  # the last one who closes it takes its log into the file
    log = here.with_name(f"{here.name}-wal")
    if log.exists():
        raise StateError(
            f"The ledger {here} is in use, or was lost without its log {log}; stop all nodes and "
            "commands on it, move the log away if there still is one, then restore again."
        )
    _flush(ours)
    os.replace(ours, here)
    _flush(here.parent)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ---- the files
def _files(
    home: Path, home_file: Path, settings: NodeSettings
) -> tuple[dict[str, Path], list[str]]:
    """(name in the backup -> file, what lies outside of the member's folder)."""
    found: list[Path] = [home_file, settings.contract, settings.schema]
    found.append(contract_files.signatures_path(settings.contract))
    stem = settings.contract.stem
    found += sorted(settings.contract.parent.glob(f"{stem}.amendment-*"))
    found += sorted(settings.identity.rglob("*"))
    if settings.policy is not None:
        found += [settings.policy, *sorted((settings.policy.parent / APPROVALS).glob("*.json"))]
    found += [path for path in (settings.proxy_login, settings.relay_token) if path is not None]
    kept = ("*.card", "*.invite", QUEUE, "next-*", "start-*.safetensors", "proposals/*.json")
    for pattern in kept:
        found += sorted(home.glob(pattern))
    for path in _queued(home):
        found += sorted(path.parent.glob(f"{path.stem}.*"))
    inside: dict[str, Path] = {}
    outside: list[str] = []
    root = home.resolve()
    for path in found:
        if not path.is_file():
            continue
        if path.resolve().is_relative_to(root):
            name = SETTINGS if path == home_file else str(path.resolve().relative_to(root))
            inside[name] = path
        else:
            outside.append(str(path))
    return inside, outside


def _queued(home: Path) -> list[Path]:
    """The contracts of the queue."""
    try:
        entries = json.loads((home / QUEUE).read_text("utf-8"))["entries"]
        return [path for one in entries if (path := Path(one["what"])).suffix == ".toml"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return []


def contents_of(place: str | Path) -> tuple[dict[str, Path], list[str]]:
    """(name in a backup -> file, what lies outside of the member's folder)."""
    home_file = settings_file(place)
    assert home_file is not None
    return _files(home_file.parent, home_file, read_settings(place))


def _check_unchanged(home: Path, contents: dict[str, tuple[bytes, int]]) -> None:
    for name, (data, _) in contents.items():
        path = home / name
        if name == QUEUE or name.startswith("proposals/") or name.endswith(".signatures"):
            continue  # they go on by themselves: those that are here are newer
        if path.exists() and path.read_bytes() != data:
            raise InputError(
                f"{path} is there and differs from the backup's; nothing was changed. Move it away "
                "if the backup's is wanted, or restore into an empty folder."
            )


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def _packed(contents: dict[str, tuple[bytes, int]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, (data, mode) in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def _unpacked(data: bytes, path: Path) -> dict[str, tuple[bytes, int]]:
    found: dict[str, tuple[bytes, int]] = {}
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as tar:
        for entry in tar.getmembers():
            place = PurePosixPath(entry.name)
            stream = tar.extractfile(entry)
            if place.is_absolute() or ".." in place.parts or stream is None:
                raise StateError(f"The backup {path} names a file outside: {entry.name!r}.")
            found[entry.name] = (stream.read(), entry.mode)
    if ABOUT not in found or SETTINGS not in found:
        raise StateError(f"The backup {path} is not whole; use another one.")
    return found


# ---- the passphrase
def _check_passphrase(passphrase: str) -> None:
    if len(passphrase) < SHORTEST:
        raise InputError(
            f"The passphrase must have at least {SHORTEST} characters, not {len(passphrase)}, "
            "because anybody who has the backup can try as many as they like; use a long one."
        )


def _key(passphrase: str, salt: bytes) -> bytes:
    return Scrypt(salt=salt, length=32, **SCRYPT).derive(passphrase.encode())


def _sealed(data: bytes, passphrase: str) -> bytes:
    salt, nonce = os.urandom(SALT), os.urandom(NONCE)
    return MAGIC + salt + nonce + AESGCM(_key(passphrase, salt)).encrypt(nonce, data, MAGIC + salt)


def _opened(path: Path, passphrase: str) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as failed:
        raise InputError(f"The backup {path} cannot be read: {failed.strerror}.") from None
    body = data.removeprefix(MAGIC)
    if body == data or len(body) < SALT + NONCE:
        raise InputError(f"{path} is not a backup that `tacenda node backup` has written.")
    salt, nonce = body[:SALT], body[SALT : SALT + NONCE]
    try:
        return AESGCM(_key(passphrase, salt)).decrypt(nonce, body[SALT + NONCE :], MAGIC + salt)
    except InvalidTag:
        raise InputError(
            f"The backup {path} does not open: the passphrase is wrong, or the file is damaged; "
            f"nothing was changed."
        ) from None
