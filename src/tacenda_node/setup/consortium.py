"""From nothing to a signed contract in two exchanges of files.

    new      the organiser's folder, keys and settings, and an invitation to send
    join     a member's folder, keys and settings from the invitation, and a card to send back
    draft    the contract of all cards, signed by the organiser, to send
    accept   what the contract means, whether it is what was invited to, and the member's signature

An invitation holds title, schema, terms, the proposed members and the organiser's card, and is
signed by the organiser. Who can change files on their way can put in keys of its own: that is why
people compare the codes of certificates by telephone before they sign.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacenda.data.encoding import encode_usable
from tacenda.data.schema import Schema
from tacenda.errors import InputError, PrivacyError, StateError
from tacenda.formats.files import write_text
from tacenda.formats.text import canonical_json, from_toml, toml
from tacenda.planning.contract_terms import PLANNED
from tacenda.terms.setting import AUTO
from tacenda_node.identity import certificates, contract_files
from tacenda_node.identity.addresses import check_address
from tacenda_node.identity.certificates import Identity, check_name, text_signed
from tacenda_node.identity.contract import Contract, differing_fields
from tacenda_node.identity.keys import TLS_KEY
from tacenda_node.operate.settings import FILE as SETTINGS
from tacenda_node.operate.settings import read_settings, write_settings
from tacenda_node.peer.agreed_tables import open_shares
from tacenda_node.peer.public_start import file_of
from tacenda_node.setup import drafting

FORMAT = "tacenda-invitation-1"
SCHEMA, CONTRACT, IDENTITY = "schema.toml", "contract.toml", "identity"
SUFFIX = ".invite"


@dataclass(frozen=True)
class Site:
    """What a member says of its own place when it joins.

    size: the public number of records, counted where the relation makes it public. identity: a
    folder with keys and certificate that exists already. brought: arguments of
    `certificates.adopt` for an existing certificate; where both are missing, keys are made and the
    member signs its own certificate. settings: further fields of node.toml.
    """

    data: Path
    address: str
    size: int | None = None
    listens: bool = True
    identity: Path | None = None
    brought: dict[str, Any] | None = None
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Invitation:
    """What the organiser proposes."""

    title: str
    members: list[str]
    schema: Schema
    terms: dict[str, Any]
    organiser: dict[str, Any]
    signature: str = ""

    def to_plain(self) -> dict[str, Any]:
        """Plain values; without the signature they are what is hashed and signed."""
        return {
            "format": FORMAT,
            "title": self.title,
            "members": list(self.members),
            "signature": self.signature,
            "schema": self.schema.to_toml(),
            "terms": self.terms,
            "organiser": self.organiser,
        }

    def hash(self) -> str:
        """SHA-256 over everything but the signature."""
        return hashlib.sha256(self._text()).hexdigest()

    def signed(self, identity: Identity) -> Invitation:
        """The same with the organiser's signature."""
        return Invitation(
            self.title,
            self.members,
            self.schema,
            self.terms,
            self.organiser,
            identity.sign_text(self._text()),
        )

    def is_signed(self) -> bool:
        """Whether the organiser in it has signed it."""
        return text_signed(str(self.organiser.get("signing_key")), self._text(), self.signature)

    def _text(self) -> bytes:
        values = {k: v for k, v in self.to_plain().items() if k != "signature"}
        return b"tacenda invitation v1\n" + canonical_json(values).encode()


def new(
    folder: Path, name: str, members: list[str], terms: dict[str, Any], schema: Schema, site: Site
) -> Path:
    """Make the organiser's folder and the invitation; returns the invitation's path.

    The terms are tried with members like the organiser before anything is written.
    """
    others = [check_name(member) for member in members if member != name]
    if not others:
        raise InputError("--member must name at least one other member; repeat it for each.")
    title = str(terms.get("title", "")).strip()
    if not title:
        raise InputError("title must not be empty; give --title or a title in the terms.")
    size = _checked_place(folder, name, schema, terms, site)
    trial = [_like(k, member, size) for k, member in enumerate((name, *others))]
    drafting.draft(trial, terms, schema)
    identity = _identity(folder, name, site)
    card = contract_files.card_of(identity, site.address, size, listens=site.listens)
    invitation = Invitation(title, [name, *others], schema, terms, card).signed(identity)
    _furnish(folder, identity, invitation, card, site)
    return invitation_path(folder, title)


def join(invitation: Path, folder: Path, name: str, site: Site, *, later: bool = False) -> Path:
    """Make a member's folder from an invitation; returns the card to send back. later: of a member
    that was not invited, and comes in by a proposal of a next run."""
    found = read_invitation(invitation)
    if later == (name in found.members):
        rule = "is" if later else "is not"
        raise InputError(
            f"name {name!r} {rule} one of the invited members {', '.join(found.members)}; "
            "choose yours with --name. With --later a member comes in by the next run."
        )
    if name == found.organiser["name"]:
        raise InputError(
            f"{name} wrote this invitation and has joined already; choose yours with --name."
        )
    size = _checked_place(folder, name, found.schema, found.terms, site)
    identity = _identity(folder, name, site)
    card = contract_files.card_of(identity, site.address, size, listens=site.listens)
    return _furnish(folder, identity, found, card, site)


def draft(folder: Path, cards: list[Path]) -> drafting.Drafted:
    """The contract of the invited members in the organiser's folder, signed by the organiser."""
    invitation, identity = invitation_of(folder), identity_of(folder)
    target = folder / CONTRACT
    if target.exists():
        raise StateError(
            f"{target} exists; if its members are to sign another one, move it away first."
        )
    own = drafting.read_card(card_path(folder, identity.name))
    found = {own["name"]: own}
    for path in cards:
        card = drafting.read_card(path)
        if card["name"] not in invitation.members:
            raise InputError(
                f"The card {path} is of {card['name']!r}, who is not invited "
                f"({', '.join(invitation.members)}); leave it out, or write a new invitation."
            )
        if card.get("invitation") != invitation.hash():
            raise InputError(
                f"The card {path} answers another invitation than the one in {folder}; "
                f"{card['name']} joins with this one."
            )
        if card["name"] in found and found[card["name"]] != card:
            raise InputError(
                f"There are two different cards of {card['name']}; find out by telephone which "
                "one is right, and give that one only."
            )
        found[card["name"]] = card
    missing = [name for name in invitation.members if name not in found]
    if missing:
        raise InputError(
            f"The cards of {', '.join(missing)} are missing; each runs "
            "`tacenda consortium join` and sends its card."
        )
    ordered = [found[name] for name in invitation.members]
    drafted = drafting.draft(ordered, invitation.terms, invitation.schema)
    contract_files.write(drafted.contract, target)
    contract_files.sign(target, identity)
    return drafted


def review(folder: Path, contract: Contract) -> None:
    """Refuse a contract that is not what this member was invited to and has answered."""
    invitation, identity = invitation_of(folder), identity_of(folder)
    card = drafting.read_card(card_path(folder, identity.name))
    mine = contract.member(identity.name).model_dump()
    _same_card("your own", identity.name, mine, card)
    later = identity.name not in invitation.members
    first = invitation.organiser
    if not later or first["name"] in contract.names:
        organiser = contract.member(first["name"]).model_dump()
        _same_card("the organiser's", first["name"], organiser, first)
    if identity.authority_pem not in contract.authorities:
        raise InputError(
            "contract field authorities lacks the certificate of your card; "
            "ask the organiser to draft it again."
        )
    if later:  # members and terms are those of the run that the others have agreed on
        if contract.schema_hash != invitation.schema.hash():
            raise PrivacyError(
                "contract field schema_hash is not that of the invitation's schema; ask the "
                "organiser for the invitation that belongs to this run."
            )
        return
    strangers = [name for name in contract.names if name not in invitation.members]
    if strangers:
        raise PrivacyError(
            f"contract field members: {', '.join(strangers)} were not in the invitation; "
            "ask the organiser, and join a new invitation if that is what all want."
        )
    dropped = [name for name in invitation.members if name not in contract.names]
    if dropped:
        raise PrivacyError(
            f"contract field members: {', '.join(dropped)} were invited and are not in it; "
            "ask the organiser, and join a new invitation if that is what all want."
        )
    fields = _departures(invitation, contract)
    if fields:
        raise PrivacyError(
            f"The contract is not what the invitation said: it differs in {', '.join(fields)}; "
            "ask the organiser, and join a new invitation if that is what all want."
        )


def accept(folder: Path, contract: Path) -> Path:
    """Put the reviewed contract into the member's folder and sign it; returns its path there."""
    found, identity = contract_files.read(contract), identity_of(folder)
    review(folder, found)
    target = folder / CONTRACT
    if target.exists() and contract_files.read(target).hash() != found.hash():
        raise StateError(
            f"{target} is another contract; move it away first if this one takes its place."
        )
    if not target.exists():
        contract_files.write(found, target)
    if found.continues is not None:
        start = file_of(contract.parent, found.continues.start)
        if start.is_file() and start.parent.resolve() != folder.resolve():
            shutil.copy(start, folder)
    given = contract_files.signatures(contract)  # the valid ones
    if given and contract.resolve() != target.resolve():
        contract_files.write_signatures(target, {**given, **contract_files.signatures(target)})
    contract_files.sign(target, identity)
    return target


def read_invitation(path: str | Path) -> Invitation:
    """An invitation from its file, if the organiser in it has signed it."""
    try:
        values = from_toml(Path(path).read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"The invitation {path} is not there; check its name and folder."
        ) from None
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"The invitation {path} cannot be read: {error}; ask the organiser to send it again."
        ) from None
    # People read it on their terminals before they join
    if not str(values.get("title")).isprintable():
        raise InputError(
            f"The invitation {path}, field title: it must have printable characters only; "
            "ask the organiser for another one."
        )
    wrong = f"{path} is not an invitation of this version of Tacenda; ask the organiser to send it"
    if values.get("format") != FORMAT:
        raise InputError(f"{wrong} again.")
    try:
        found = Invitation(
            str(values["title"]),
            [check_name(name) for name in values["members"]],
            Schema.from_toml(values["schema"]),
            dict(values["terms"]),
            drafting.checked_card(dict(values["organiser"]), f"of the organiser in {path}"),
            str(values["signature"]),
        )
        signed = found.is_signed()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{wrong} again ({error}).") from None
    if not signed:
        raise InputError(
            f"The invitation {path} was changed after the organiser signed it; "
            "ask the organiser to send it again."
        )
    return found


def invitation_of(folder: Path) -> Invitation:
    """The invitation in a member's folder."""
    found = sorted(folder.glob(f"*{SUFFIX}"))
    if len(found) != 1:
        raise InputError(
            f"{folder} must hold one invitation (*{SUFFIX}), not {len(found)}; "
            "give the member's folder with --folder, as `consortium new` or `join` made it."
        )
    return read_invitation(found[0])


def identity_of(folder: Path) -> Identity:
    """The identity that the folder's node.toml names."""
    return Identity.read(read_settings(folder).identity)


def card_path(folder: Path, name: str) -> Path:
    """Where a member's own card lies."""
    return folder / f"{name}.card"


def invitation_path(folder: Path, title: str) -> Path:
    """Where the invitation lies in a member's folder."""
    return folder / f"{file_name(title)}{SUFFIX}"


def file_name(title: str) -> str:
    """A title as a file's name: small letters, digits and hyphens."""
    words = "".join(c if c.isascii() and c.isalnum() else " " for c in title.lower()).split()
    return "-".join(words)[:60].strip("-") or "study"


def _checked_place(
    folder: Path, name: str, schema: Schema, terms: dict[str, Any], site: Site
) -> int:
    """The member's public size, after everything that could go wrong was looked at: nothing is
    written yet."""
    check_name(name)
    check_address("--address", site.address)
    if (folder / SETTINGS).exists():
        raise StateError(
            f"{folder} holds a member's {SETTINGS} already; use another --folder, or move it away "
            f"to start again."
        )
    if terms.get("privacy", {}).get("adjacency", "replace-one") != "replace-one":
        if site.size is None:
            raise InputError(
                "--size must be given under add-remove: a public number in place of your number "
                "of records, which stays secret."
            )
        return site.size

    records = encode_usable(schema, site.data, blank=True, sparse=True).n_records
    if site.size is not None and site.size != records:
        raise InputError(
            f"--size is {site.size}, and {site.data} holds another number of records; "
            "leave it out, and they are counted."
        )
    return records


def _identity(folder: Path, name: str, site: Site) -> Identity:
    place = folder / IDENTITY
    if site.identity is not None:
        found = Identity.read(site.identity)
    elif site.brought is not None:
        found = certificates.adopt(place, name=name, **site.brought)
    else:
        if not (place / TLS_KEY).exists():
            certificates.init(place, name)
            certificates.self_sign(place, name)
        found = Identity.read(place)
    if found.name != name:
        raise InputError(
            f"The certificate in {found.folder} is of {found.name}, not of {name}; "
            "use the name in the certificate, or another certificate."
        )
    return found


def _furnish(
    folder: Path, identity: Identity, invitation: Invitation, card: dict[str, Any], site: Site
) -> Path:
    """Invitation, schema, settings and card in the member's folder; returns the card's path."""
    write_text(invitation_path(folder, invitation.title), toml(invitation.to_plain()))
    write_text(folder / SCHEMA, invitation.schema.to_toml())
    values = {
        "contract": CONTRACT,
        "schema": SCHEMA,
        "data": _from(folder, site.data),
        "identity": _from(folder, identity.folder),
        "state": "state",
        **{k: _from(folder, v) if isinstance(v, Path) else v for k, v in site.settings.items()},
    }
    path = write_text(
        card_path(folder, identity.name), toml({**card, "invitation": invitation.hash()})
    )
    ledger = site.settings.get("ledger")
    if ledger is not None:
        Path(ledger).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_settings(folder, values)  # last: it says that the folder is complete
    return path


def _from(folder: Path, path: Path) -> str:
    """A path as node.toml has it: relative inside the member's folder, absolute elsewhere."""
    here, there = folder.resolve(), Path(path).resolve()
    return os.path.relpath(there, here) if there.is_relative_to(here) else str(there)


def _like(k: int, name: str, size: int) -> dict[str, Any]:
    """A stand-in for a member's card, to try terms with."""
    import base64

    return {
        "name": name,
        "size": size,
        "address": "localhost:1",
        "fingerprint": f"{k:064x}",
        "signing_key": base64.b64encode(k.to_bytes(32, "big")).decode(),
        "authority": "-----BEGIN CERTIFICATE-----",
    }


def trial_contract(folder: Path) -> Contract:
    """The contract as the invitation would give it if all members were like this one: to see cost
    and course before anybody has signed."""
    invitation, identity = invitation_of(folder), identity_of(folder)
    card = drafting.read_card(card_path(folder, identity.name))
    cards = [
        {**card, "name": name} if name == identity.name else _like(k, name, card["size"])
        for k, name in enumerate(dict.fromkeys([*invitation.members, identity.name]))
    ]
    return drafting.draft(cards, invitation.terms, invitation.schema).contract


def _same_card(whose: str, name: str, member: dict[str, Any], card: dict[str, Any]) -> None:
    for known in member:
        if member[known] != card.get(known, member[known]):
            raise PrivacyError(
                f"contract field members.{name}.{known} is not that of {whose} card; "
                "ask the organiser to draft the contract from the card that was sent."
            )


def _departures(invitation: Invitation, contract: Contract) -> list[str]:
    """The fields in which a contract is not what its invitation gives; what the planner was to
    choose is the organiser's, and is shown before it is signed."""
    terms, plain = dict(invitation.terms), contract.to_plain()
    for name in open_shares(terms):
        if name in plain:
            terms[name] = {**terms[name], "share": plain[name].get("share", drafting.FIRST_SHARE)}
    if drafting.leaves_open(terms):
        privacy = dict(terms.get("privacy", {}))
        asked = privacy.pop("coalition", drafting.DEFAULT_COALITION)
        chosen = plain["privacy"].get("coalition")
        if chosen is not None and chosen != asked:
            return ["privacy.coalition"]
        if chosen is not None:
            privacy["coalition"] = chosen
        rounds = terms.get("rounds", AUTO)
        if rounds not in (AUTO, contract.rounds):
            return ["rounds"]
        for name in (*PLANNED, "algorithm"):
            terms.pop(name, None)
            if name in plain:
                terms[name] = plain[name]
        terms["privacy"] = privacy
    cards = [
        {**member.model_dump(), "authority": contract.authorities[0]}
        for member in sorted(contract.members, key=lambda m: invitation.members.index(m.name))
    ]
    proposed = drafting.draft(cards, terms, invitation.schema).contract
    fields = differing_fields(proposed.field_hashes(), contract.field_hashes())
    return [name for name in fields if name != "authorities"]
