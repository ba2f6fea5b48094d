"""`tacenda node drill`: the loss of a key, a disk, a ledger and an operator, rehearsed on copies.

Everything is done in a temporary folder, with a copy of the member's files and of its ledger, which
is read without a lock. The real folder, ledger and marks are opened for reading only. Each drill
takes something away from the copy, gets it back as the operator would, and checks that it is whole
and that nothing could be spent twice. What cannot be tried on a copy is said.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from tacenda.errors import InputError, StateError, TacendaError
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda_node.identity import contract_files, keys
from tacenda_node.identity.certificates import Identity, request, self_sign, text_signed
from tacenda_node.membership.amendments import amended
from tacenda_node.operate.backup import Report, back_up, contents_of, restore
from tacenda_node.operate.settings import FILE, NodeSettings, read_settings, write_settings
from tacenda_node.proposals.box import in_force
from tacenda_node.state.accounts import default_ledger

KINDS = ("key", "disk", "ledger", "operator")
LEDGER = "ledger.sqlite"


@dataclass
class Drilled:
    """One drill. did: what was done and found; to_do: what the operator does in earnest; open: what
    is missing for it here."""

    kind: str
    seconds: float = 0.0
    did: list[str] = field(default_factory=list)
    to_do: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    failed: str = ""

    @property
    def ok(self) -> bool:
        return not self.failed


def drill(folder: Path, place: Path, kinds: tuple[str, ...] = KINDS) -> list[Drilled]:
    """Rehearse each of these. place: an empty folder for copies."""
    settings = read_settings(folder)
    tried = {"key": _key, "disk": _disk, "ledger": _ledger, "operator": _operator}
    found = []
    for kind in kinds:
        stage = Stage(folder, settings, place / kind)
        found.append(_timed(kind, tried[kind], stage))
    return found


class Stage:
    """A copy of a member's folder with a copy of its ledger, and a backup of both."""

    def __init__(self, folder: Path, real: NodeSettings, place: Path) -> None:
        place.mkdir(mode=0o700)
        self.real, self.home, self.place = real, place / "copy", place
        self.outside = contents_of(folder)[1]
        for name, path in contents_of(folder)[0].items():
            target = self.home / name
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            shutil.copy2(path, target)
        self._write_settings(folder)
        self.name = Identity.read(self.settings.identity).name
        self.real_ledger = real.ledger or default_ledger(self.name)
        _copy_ledger(self.real_ledger, self.ledger)
        self.words = secrets.token_urlsafe(24)
        self.file = place / "drill.backup"

    def _write_settings(self, folder: Path) -> None:
        """As the real ones, with every path inside the copy; the real records are not copied."""
        root = folder.resolve() if folder.is_dir() else folder.resolve().parent
        values = {
            "schema": _beside(self.real.schema, root, self.home),
            "contract": _beside(self.real.contract, root, self.home),
            "identity": _beside(self.real.identity, root, self.home),
            "data": str(self.real.data),
            "state": "state",
            "ledger": LEDGER,
            "dataset": self.real.dataset,
            "budget": self.real.budget,
            "no_budget": self.real.no_budget or None,
        }
        (self.home / FILE).unlink(missing_ok=True)
        write_settings(self.home, values)

    @property
    def settings(self) -> NodeSettings:
        return read_settings(self.home)

    @property
    def ledger(self) -> Path:
        return self.home / LEDGER

    def back_up(self) -> Report:
        return back_up(self.home, self.file, self.words)

    def restore(self, home: Path, **how: object) -> Report:
        return restore(self.file, home, self.words, **how)  # type: ignore[arg-type]

    def head(self) -> tuple[int, str]:
        with LedgerStore(self.ledger) as store:
            return store.head()


def _timed(kind: str, tried: Callable[[Stage, Drilled], None], stage: Stage) -> Drilled:
    begun, found = time.monotonic(), Drilled(kind)
    try:
        tried(stage, found)
    except TacendaError as wrong:
        found.failed = str(wrong)
    found.seconds = time.monotonic() - begun
    return found


def _key(stage: Stage, found: Drilled) -> None:
    """The files with keys are gone; the backup has them. Without one, a certificate can be
    replaced and a signing key cannot."""
    contract, place = in_force(stage.settings.contract), stage.settings.identity
    stage.back_up()
    gone = [place / name for name in (keys.TLS_KEY, keys.SIGNING_KEY) if (place / name).exists()]
    for path in gone:
        path.unlink()
    if gone:
        found.did.append(f"took away {', '.join(path.name for path in gone)}")
        stage.restore(stage.home)
    settings = keys.read_key_settings(place)
    if settings.has_commands:
        found.open.append(
            f"{keys.FILE} gets keys from a command: its keeper must have a copy, which is not in "
            "any backup of this folder"
        )
    mine, member = Identity.read(place), contract.member(stage.name)
    text = b"tacenda drill"
    if not text_signed(member.signing_key, text, mine.sign_text(text)):
        raise StateError(f"The signing key in {place} is not the one that the contract pins.")
    if mine.fingerprint != member.fingerprint:
        raise StateError(f"The certificate in {place} is not the one that the contract pins.")
    found.did.append("put them back from a backup: they sign, and the contract pins them")
    fresh = stage.place / "fresh"
    shutil.copytree(place, fresh)
    request(fresh, stage.name, new_key=True)
    self_sign(fresh, stage.name)
    replaced = Identity.read(fresh)
    card = {
        "name": stage.name,
        "authority": replaced.authority_pem,
        "fingerprint": replaced.fingerprint,
    }
    amended(contract, [card], [])
    found.did.append("without the TLS key: a new certificate in an amendment was accepted")
    found.to_do += [
        f"tacenda node restore FILE --folder {stage.name} --passphrase-file WORDS --nothing-begun",
        "without a backup, TLS key: tacenda certs request --new-key, then tacenda contract "
        "amend --replace CARD; all members sign; the run goes on",
        "without a backup, signing key: the run ends for this member (`consortium propose without "
        "NAME` by another one); it joins the next with a new card",
        "a key that was stolen: the same as without a backup, at once",
    ]


def _disk(stage: Stage, found: Drilled) -> None:
    """Folder and ledger are gone; the backup makes a new folder. States of runs are nowhere."""
    report, head = stage.back_up(), stage.head()
    before = {name: path.read_bytes() for name, path in contents_of(stage.home)[0].items()}
    shutil.rmtree(stage.home)
    new = stage.place / "new disk"
    stage.restore(new, nothing_begun=True)
    lost = [n for n, data in before.items() if (new / n).read_bytes() != data]
    if lost:
        raise StateError(f"The backup did not bring back {', '.join(lost)}.")
    with LedgerStore(new / LEDGER) as store:
        sound = store.verify(head)
        still_open = [run["run"] for run in store.runs() if run["open"]]
    if not sound.ok:
        raise StateError(f"The ledger from the backup is not whole: {sound}.")
    found.did += [
        f"took away the whole folder and made a new one from the backup: {len(before)} files, the "
        f"same bytes, and a ledger of {head[0]} rows, unbroken",
        f"runs that were open count as spent in full: {len(report.open_runs)}",
        *(f"run {run}: without its state folder it is refused" for run in still_open),
    ]
    found.to_do += [
        "put the records back at data of node.toml; no backup of a node holds them",
        "tacenda node restore FILE --folder NEW --passphrase-file WORDS, with --begun CONTRACT for "
        "every run that began after the backup, or --nothing-begun",
        'a run under way: under absence policy "continue" start with the empty folder, and join '
        'again; under "stop" all sign a new contract',
    ]
    found.open += [f"outside the folder, so in no backup: {path}" for path in stage.outside]
    data = stage.real.data
    if isinstance(data, Path | str) and not Path(data).exists():
        found.open.append(f"the records are not at {data} now")


def _ledger(stage: Stage, found: Drilled) -> None:
    """The ledger is gone, or older than it was; it never goes backwards without a word."""
    stage.back_up()
    head = stage.head()
    contract = stage.settings.contract
    stage.ledger.unlink()
    for tail in ("-wal", "-shm"):
        stage.ledger.with_name(LEDGER + tail).unlink(missing_ok=True)
    try:
        stage.restore(stage.home)
    except InputError as asked:
        found.did.append(f"took it away; a restore without your word was refused: {asked}")
    else:
        raise StateError("A ledger was put back without the operator's word on later runs.")
    stage.restore(stage.home, nothing_begun=True)
    with LedgerStore(stage.ledger) as store:
        sound, accounts = store.verify(head), store.datasets()
        budgets = {name: store.budget(name) for name in accounts}
    if not sound.ok:
        raise StateError(f"The ledger from the backup is not whole: {sound}.")
    found.did.append(f"put it back: {head[0]} rows, unbroken, accounts {', '.join(accounts)}")
    found.open += [
        f"account {name!r} has no budget, so nothing is ever refused there"
        for name, budget in budgets.items()
        if budget is None
    ]
    _copy_ledger(stage.ledger, stage.place / "second.sqlite")
    stage.ledger.unlink()
    dataset = stage.settings.dataset or (accounts[0] if accounts else stage.name)
    stage.restore(stage.home, begun=[contract], dataset=dataset)
    with LedgerStore(stage.ledger) as store:
        spent = store.spent_by_id(dataset)
    delta = contract_files.read(contract).privacy.delta
    found.did.append(
        "and as if the contract's run had begun after the backup: it counts as spent in full, in "
        f"all epsilon {spent.curve_with_reserved.epsilon(delta):.4g}"
    )
    found.to_do += [
        "stop the nodes; keep what is left of the ledger; never start with an empty one",
        "tacenda node restore as for a disk, then tacenda ledger verify LEDGER",
        "without any backup: all that was ever contracted counts as spent; set a budget that says "
        "so (tacenda ledger budget), by the officer's word",
    ]
    if not stage.real_ledger.exists():
        found.open.append(f"there is no ledger at {stage.real_ledger} yet: no run has begun")


def _operator(stage: Stage, found: Drilled) -> None:
    """Somebody else has the backup and its passphrase, and nothing of the operator's."""
    stage.back_up()
    new = stage.place / "deputy"
    stage.restore(new, nothing_begun=True)
    settings = read_settings(new)
    mine, contract = Identity.read(settings.identity), in_force(settings.contract)
    contract_files.require_own_signature(settings.contract, mine.name)
    found.did.append(
        f"from the backup and its passphrase alone: {mine.name}, certificate valid for "
        f"{mine.days_left():.0f} days, contract {contract.title!r} with its own signature"
    )
    others = [m for m in contract.members if m.name != mine.name]
    reach = ", ".join(f"{m.name} at {m.address}" for m in others)
    found.to_do += [
        "the deputy restores into a folder of their own account, on the same address",
        f"the deputy knows whom to call: {reach}",
        "tacenda node status shows where the run stands; tacenda node serve goes on",
        "afterwards renew what the operator knew: passphrase, `tacenda certs request --new-key`",
    ]
    if stage.real.ledger is None:
        found.open.append(
            f"the ledger is in the operator's own account ({stage.real_ledger}): set ledger in "
            "node.toml, so that a deputy's node finds it"
        )
    found.open += [f"outside the folder, so in no backup: {path}" for path in stage.outside]
    key_settings = keys.read_key_settings(settings.identity)
    if key_settings.has_commands or (settings.identity / keys.FILE).exists():
        found.open.append(f"{keys.FILE} names keys elsewhere: the deputy needs them, too")
    if stage.real.policy is None:
        found.open.append("no policy.toml: nothing but this operator limits what is signed")


def _beside(path: Path, root: Path, home: Path) -> str:
    """Where a file of the real folder lies in the copy; one from outside is copied there."""
    resolved = path.resolve()
    if resolved.is_relative_to(root):
        return str(resolved.relative_to(root))
    target = home / "outside" / path.name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if path.is_dir():
            shutil.copytree(path, target)
        else:
            for file in (path, contract_files.signatures_path(path)):
                if file.exists():
                    shutil.copy2(file, target.with_name(file.name))
    return str(target.relative_to(home))


def _copy_ledger(real: Path, copy: Path) -> None:
    """Its content at this moment, by a look that changes nothing, not even beside it; a new one
    where there is none."""
    if not real.exists():
        LedgerStore(copy).close()
        return
    os.close(os.open(copy, os.O_CREAT | os.O_EXCL, 0o600))
    # Where nobody has it open there is no log, and a reader would leave an empty one
    how = "mode=ro" if real.with_name(f"{real.name}-wal").exists() else "immutable=1"
    with (
        closing(sqlite3.connect(f"{real.resolve().as_uri()}?{how}", uri=True)) as source,
        closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)
