"""`tacenda doctor`: what can be wrong before a run, each finding with its fix. It reads no records
and sends nothing."""

from __future__ import annotations

import platform
import shutil
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tacenda import __version__
from tacenda.addresses import host_and_port
from tacenda.errors import TacendaError
from tacenda.privacy.lasting.files import MOUNTS, REMOTE, REMOTE_FUSE, mount_type
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.words import counted
from tacenda_node.identity import contract_files
from tacenda_node.identity.addresses import RELAY
from tacenda_node.identity.certificates import Identity
from tacenda_node.identity.contract import Contract
from tacenda_node.operate.settings import NodeSettings
from tacenda_node.peer.evaluation_plan import closing_plan
from tacenda_node.peer.member_records import checked_schema
from tacenda_node.peer.run_plan import make_plan
from tacenda_node.state.accounts import default_ledger
from tacenda_node.wire.probe import dates, load_chain, look_at
from tacenda_node.wire.proxy import Proxy, read_secret
from tacenda_node.wire.rooms import Token, greeted

PACKAGES = ("tacenda", "numpy", "grpcio", "cryptography", "msgspec", "safetensors")
LEAST_SPACE = 200 * 2**20
SOON_DAYS = 14


@dataclass(frozen=True)
class Finding:
    """One check: its name, whether all is well, what was found, and what to do otherwise."""

    name: str
    ok: bool
    found: str
    fix: str = ""


def examine(
    contract: Path,
    identity: Path,
    schema: Path | None,
    state: Path,
    ledger: Path | None = None,
    *,
    peers: bool = True,
    settings: NodeSettings | None = None,
) -> list[Finding]:
    """All checks; one that cannot be made because an earlier one failed is left out. peers: also
    whether the neighbours answer. settings: with which ways out it calls
    relays."""
    findings = [*_versions(), _disk(state), _kind_of_disk(state)]
    mine = _try(
        findings,
        "identity",
        lambda: Identity.read(identity),
        "make or restore it: tacenda certs init",
    )
    where = ledger if ledger is not None or mine is None else default_ledger(mine.name)
    if where is not None:
        findings.append(_ledger(where))
    if mine is not None:
        findings.append(_certificate(mine))
    terms = _try(
        findings,
        "contract",
        lambda: contract_files.read(contract),
        "get the contract from the other members",
    )
    if terms is None:
        return findings
    findings.extend(_contract(contract, terms, None if mine is None else mine.name))
    if schema is not None:
        findings.append(_schema(terms, schema))
    if mine is not None:
        ways = _try(findings, "relay", lambda: _ways_out(settings), "correct the line in node.toml")
        if ways is not None:
            findings.extend(_relays(terms, mine, peers, *ways))
        findings.extend(_membership(terms, mine, peers))
    return findings


def _ways_out(settings: NodeSettings | None) -> tuple[Proxy | None, Token]:
    """The proxy, and the token of the relays."""
    if settings is None:
        return None, Token("")
    login, token = settings.proxy_login, settings.relay_token
    return (
        None if settings.proxy is None else Proxy.read(settings.proxy, login),
        Token("") if token is None else Token.read(read_secret(token, "--relay-token")),
    )


def as_text(findings: list[Finding]) -> str:
    """One line for each finding, and one for the fix of what is not well."""
    lines = []
    for finding in findings:
        lines.append(f"{'ok  ' if finding.ok else 'FAIL'} {finding.name:12} {finding.found}")
        if not finding.ok:
            lines.append(f"     fix: {finding.fix}")
    return "\n".join(lines) + "\n"


def _try(findings: list[Finding], name: str, read: Callable[[], Any], fix: str) -> Any:
    try:
        return read()
    except TacendaError as wrong:
        findings.append(Finding(name, False, str(wrong), fix))
        return None


def _versions() -> Iterator[Finding]:
    found, missing = [], []
    for name in PACKAGES:
        try:
            found.append(f"{name} {__version__ if name == 'tacenda' else version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    summary = f"Python {platform.python_version()}, {', '.join(found)}"
    yield Finding(
        "versions",
        not missing,
        summary,
        f"install {', '.join(missing)}: pip install 'tacenda[node]'",
    )
    year = time.gmtime().tm_year
    fix = "set the clock and turn on time synchronisation (timedatectl set-ntp true)"
    yield Finding(
        "clock", 2025 <= year < 2100, time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()), fix
    )


def _disk(state: Path) -> Finding:
    free = shutil.disk_usage(_existing(state)).free
    return Finding(
        "space",
        free > LEAST_SPACE,
        f"{free / 2**30:.1f} GiB free for {state}",
        "free some space, or use another --state",
    )


def _kind_of_disk(state: Path) -> Finding:
    """The durable outbox needs a disk whose locks and flushes are real, which network file systems
    do not promise."""
    place = _existing(state).resolve()
    kind = mount_type(str(place), MOUNTS.read_text()) if MOUNTS.exists() else "unknown"
    fix = (
        "use a --state folder on a local disk: SQLite's write-ahead log is not safe over a "
        "network, and memory is not a disk"
    )
    return Finding(
        "disk",
        kind not in REMOTE and kind not in REMOTE_FUSE and kind != "tmpfs",
        f"{kind} at {place}",
        fix,
    )


def _ledger(path: Path) -> Finding:
    if not path.exists():
        return Finding("ledger", True, f"none yet at {path}; the first run makes it")
    try:
        with LedgerStore(path) as store:
            checked = store.verify()
            head = store.head()
    except TacendaError as damaged:
        return Finding(
            "ledger", False, str(damaged), "restore the ledger from a backup; do not delete it"
        )
    return Finding(
        "ledger",
        checked.ok,
        f"{counted(head[0], 'row')} in {path}, chain {'whole' if checked.ok else 'broken'}",
        "restore it from a backup",
    )


def _certificate(mine: Identity) -> Finding:
    days = mine.days_left()
    wrong = dates(mine.certificate, "this member")
    return Finding(
        "certificate",
        days > SOON_DAYS and not wrong,
        wrong or f"{mine.name}, {counted(round(days), 'day')} left",
        "renew: tacenda certs request, then a new card in the contract (contract amend --replace)",
    )


def _contract(path: Path, terms: Contract, name: str | None) -> Iterator[Finding]:

    try:
        plan = make_plan(terms)
        if terms.evaluation is not None:
            closing_plan(terms)
        summary = (
            f"{plan.spec.algorithm.title}, {counted(terms.rounds, 'round')}, "
            f"epsilon {terms.privacy.epsilon:g}, hash {terms.hash()[:16]}"
        )
        yield Finding("contract", True, summary)
    except TacendaError as wrong:
        yield Finding(
            "contract", False, str(wrong), "agree on a corrected contract and sign it again"
        )
    missing = contract_files.missing_signatures(path)
    mine = name not in missing
    others = [other for other in missing if other != name]
    summary = "by all" if not missing else f"not here yet: {', '.join(missing)}"
    if mine and others:
        summary += "; they arrive over the network, and the run begins when all are there"
    yield Finding("signatures", mine, summary, "read the contract, then: tacenda contract sign")


def _schema(terms: Contract, path: Path) -> Finding:
    try:
        schema = checked_schema(terms, path)
        schema.require_confirmed()
    except TacendaError as wrong:
        return Finding(
            "schema", False, str(wrong), "use the schema file that all members agreed on"
        )
    return Finding(
        "schema",
        True,
        f"{counted(len(schema.feature_names), 'feature')}, hash {terms.schema_hash[:16]} as agreed",
    )


def _membership(terms: Contract, mine: Identity, peers: bool) -> Iterator[Finding]:
    if mine.name not in terms.names:
        yield Finding(
            "member",
            False,
            f"{mine.name} is not in the contract",
            "use the identity whose card went into it",
        )
        return
    member = terms.member(mine.name)
    same = member.fingerprint == mine.fingerprint
    yield Finding(
        "member",
        same,
        f"{mine.name}, the contract {'pins' if same else 'does not pin'} this certificate",
        "sign a new card",
    )
    called = [terms.member(name) for name in terms.neighbours(mine.name)] if peers else []
    if member.listens and not member.address.startswith(RELAY):
        yield _port(member.address)
    for other in called:
        if other.listens and not other.address.startswith(RELAY):
            yield _peer(terms, mine, other.name)


def _relays(
    terms: Contract, mine: Identity, peers: bool, proxy: Proxy | None, token: Token
) -> Iterator[Finding]:
    """Whether the relays answer at which this member waits or calls."""
    if mine.name not in terms.names:
        return
    called = terms.neighbours(mine.name) if peers else []
    met = [m for m in map(terms.member, (mine.name, *called)) if m.listens]
    fix = "check that the relay runs, and that this machine may call out to it"
    for place in sorted({m.address for m in met if m.address.startswith(RELAY)}):
        address = place.removeprefix(RELAY)
        why = greeted(address, token, proxy)
        yield Finding("relay", not why, why or f"{address} answers", fix)


def _port(address: str) -> Finding:
    _, port = host_and_port(address, lowest=0)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as taken:
            return Finding(
                "port",
                False,
                f"{port}: {taken.strerror}",
                "stop the other program, or use another port in the contract",
            )
    return Finding("port", True, f"{port} is free to listen on")


def _peer(terms: Contract, mine: Identity, name: str) -> Finding:
    """Whether a neighbour answers with a certificate of the contract's authorities; the pinned
    fingerprint is compared."""
    import hashlib

    address = terms.member(name).address
    context = ssl.create_default_context(cadata="\n".join(terms.authorities))
    load_chain(context, mine)
    context.set_alpn_protocols(["h2"])
    where = f"{name} at {address}"
    try:
        with (
            socket.create_connection(host_and_port(address, lowest=0), 5) as raw,
            context.wrap_socket(raw, server_hostname=name) as tls,
        ):
            shown = hashlib.sha256(tls.getpeercert(binary_form=True) or b"").hexdigest()
    except ssl.SSLCertVerificationError as wrong:
        fix = (
            "compare certificates, names, dates and clocks with that member; "
            "both need one that the contract's authorities signed"
        )
        found = look_at(terms.member(name).address, name, mine) or wrong.verify_message
        return Finding("peer", False, f"{where}: {found}", fix)
    except (OSError, ssl.SSLError) as away:
        found = look_at(terms.member(name).address, name, mine) or str(away)
        return Finding(
            "peer",
            False,
            f"{where}: {found}",
            "is its node running, and is the port open in both firewalls?",
        )
    same = shown == terms.member(name).fingerprint
    return Finding(
        "peer",
        same,
        f"{where} shows {'the pinned' if same else 'another'} certificate",
        "that member signs a new card",
    )


def _existing(path: Path) -> Path:
    place = path.absolute()
    while not place.exists():
        place = place.parent
    return place
