"""A member's kit: what who runs the machine needs, filled in with this member's paths.

`kit/` in the member's folder has a systemd unit, a compose file, firewall lines, what `doctor`
found and a page that explains them. It is written again at every step, with what is known by
then.
"""

from __future__ import annotations

import getpass
import ipaddress
import os
import sys
from pathlib import Path
from typing import Any

from tacenda.addresses import host_and_port
from tacenda.formats.files import write_text
from tacenda_node.identity import contract_files
from tacenda_node.identity.addresses import RELAY
from tacenda_node.identity.contract import Contract
from tacenda_node.operate.settings import NodeSettings, read_settings
from tacenda_node.setup import doctor
from tacenda_node.setup.consortium import card_path, identity_of, invitation_of
from tacenda_node.setup.drafting import read_card
from tacenda_node.state.accounts import default_ledger

KIT = "kit"
USER = "tacenda"
IMAGE_USER = 10001  # of deploy/Dockerfile
HOMES = ("/home", "/root", "/run/user")  # what ProtectHome= hides


def write_kit(folder: str | Path) -> Path:
    """All files of the kit; returns its folder."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    home = Path(folder).resolve()
    settings = read_settings(home)
    contract = contract_files.read(settings.contract) if settings.contract.exists() else None
    values = _values(home, settings, contract)
    target = home / KIT
    target.mkdir(exist_ok=True)
    env = Environment(
        loader=PackageLoader("tacenda_node", "templates"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    outs = {
        "tacenda-node.service": values["unit"],
        "tacenda-node.user.service": values["user_unit"],
        **{name: name for name in ("compose.yaml", "firewall.nft", "README.md")},
    }
    for name, out in outs.items():
        write_text(target / out, env.get_template(name).render(values))
    write_text(target / "policy.example.toml", env.get_template("policy.toml").render())
    if contract is not None:
        findings = doctor.examine(
            settings.contract,
            settings.identity,
            settings.schema,
            settings.state,
            settings.ledger,
            peers=False,
            settings=settings,
        )
        write_text(target / "doctor.txt", doctor.as_text(findings))
    return target


def _values(home: Path, settings: NodeSettings, contract: Contract | None) -> dict[str, Any]:
    identity = identity_of(home)
    card = read_card(card_path(home, identity.name))
    name, address = card["name"], card["address"]
    ledger = settings.ledger or default_ledger(name)
    near = [] if contract is None else [contract.member(n) for n in contract.neighbours(name)]
    others = [_place(member.name, member.address, member.listens) for member in near]
    mine = _place(f"the relay of {name}", address, True)
    listens = card["listens"] and not mine["relay"]
    called = [member for member in others if member["listens"]]
    state = settings.state.resolve()
    _make(state, ledger.resolve().parent)
    # `node serve` keeps the queue, proposals and each run's state in the member's folder
    writable = _outermost([home, state, ledger.resolve().parent])
    readable = _outermost([settings.data.resolve(), settings.identity.resolve()])
    as_root = os.geteuid() == 0
    used = [*dict.fromkeys([*writable, *readable, Path(sys.prefix)])]
    return {
        "title": " ".join(invitation_of(home).title.split()),
        "name": name,
        "folder": home,
        "kit": home / KIT,
        "doctor": contract is not None,
        "unit": f"tacenda-{name}.service",
        "user_unit": f"tacenda-{name}.user.service",
        "cache": f"tacenda-{name}",
        "as_root": as_root,  # a node needs no rights of its own: then a user is made for it
        "user": USER if as_root else getpass.getuser(),
        "uid": IMAGE_USER if as_root else os.geteuid(),
        "gid": IMAGE_USER if as_root else os.getegid(),
        "python": sys.executable,
        "address": address,
        "port": host_and_port(address.removeprefix(RELAY), lowest=0)[1],
        "listens": listens,
        "callers": others,
        "called": [*called, mine] if mine["relay"] else called,
        "all_known": all(member["ip"] for member in others),
        "contract": settings.contract.resolve(),
        "schema": settings.schema.resolve(),
        "data": settings.data.resolve(),
        "identity": settings.identity.resolve(),
        "state": state,
        "ledger": ledger.resolve(),
        # Where the default ledger is found, also by another user
        "data_home": None if settings.ledger else ledger.parents[2],
        "readable": [path for path in readable if path not in writable],
        "writable": writable,
        "at_home": any(_below(path, place) for path in used for place in HOMES),
        # Closed to every user but root, whatever the unit says
        "hidden": [path for path in used if as_root and _below(path, "/root")],
    }


def _make(*folders: Path) -> None:
    """Folders that a unit may write; systemd starts nothing where one is not there."""
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)


def _below(path: Path, place: str) -> bool:
    return path.is_relative_to(place)


def _outermost(paths: list[Path]) -> list[Path]:
    """The folders without those that lie in another of them."""
    return [
        path
        for k, path in enumerate(paths)
        if not any(
            path.is_relative_to(other) and (path != other or k > n)
            for n, other in enumerate(paths)
            if n != k
        )
    ]


def _place(name: str, address: str, listens: bool) -> dict[str, Any]:
    relay = address.startswith(RELAY)
    host, port = host_and_port(address.removeprefix(RELAY), lowest=0)
    try:
        found = ipaddress.ip_address(host)
        ip, family = str(found), "ip6" if found.version == 6 else "ip"
    except ValueError:
        ip, family = "", "ip"
    return {
        "name": name,
        "relay": relay,
        "host": host,
        "port": port,
        "listens": listens,
        "ip": ip,
        "family": family,
    }
