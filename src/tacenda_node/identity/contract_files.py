"""Contracts and their signatures as files.

`contract.toml` holds the contract, `contract.toml.signatures` one line `name signature` per member.
Members sign their own copies; the signature files are lines that may simply be put together.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from tacenda import checks
from tacenda.errors import InputError, PrivacyError
from tacenda.formats.files import write_text
from tacenda.formats.text import from_toml, toml
from tacenda_node.identity.certificates import Identity, text_signed
from tacenda_node.identity.contract import Contract


def read(path: str | Path) -> Contract:
    """A contract from a TOML file."""
    try:
        values = from_toml(Path(path).read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"There is no contract at {path}; the organiser's `tacenda consortium draft` writes "
            "it, and `tacenda consortium accept` puts it into a member's folder."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"The contract {path} is not valid TOML: {error}.") from None
    if "evaluates" in values:
        raise InputError(
            f"contract field evaluates: {path} is the text of a closing run, which members derive "
            f"and do not write or sign; remove the field, or take the contract of the run itself."
        )
    return Contract.build(values)


def write(contract: Contract, path: str | Path) -> Path:
    """The contract as TOML; reading it back gives the same hash."""
    return write_text(path, toml(contract.to_plain()))


def signatures_path(contract: str | Path) -> Path:
    """Where the signatures of a contract lie."""
    return Path(f"{contract}.signatures")


def sign(path: str | Path, identity: Identity) -> Path:
    """Add this member's signature to the side file; the member must be in the contract, with this
    very certificate and key."""
    contract = read(path)
    member = contract.member(identity.name)
    for field, mine in (
        ("fingerprint", identity.fingerprint),
        ("signing_key", identity.signing_key),
    ):
        if getattr(member, field) != mine:
            raise InputError(
                f"contract field members.{member.name}.{field} is not that of the certificate in "
                f"{identity.folder}; put your own card into the contract before you sign it."
            )
    others = [line for line in _lines(path) if not line.startswith(f"{member.name} ")]
    target = signatures_path(path)
    write_text(
        target,
        "\n".join([*others, f"{member.name} {identity.sign_text(signed_text(contract))}"]) + "\n",
    )
    return target


def write_signed(contract: Contract, by_member: dict[str, str], folder: Path) -> Path:
    """The contract and its signatures, as two files in `folder`."""
    path = write(contract, folder / "contract.toml")
    write_signatures(path, by_member)
    return path


def write_signatures(path: str | Path, by_member: dict[str, str]) -> Path:
    """The side file of a contract: these signatures and no others."""
    lines = [f"{name} {text}\n" for name, text in by_member.items()]
    return write_text(signatures_path(path), "".join(lines))


def signatures(path: str | Path) -> dict[str, str]:
    """The valid signatures of this very text in its side file, by member."""
    contract = read(path)
    text, valid = signed_text(contract), {}
    for line in _lines(path):
        name, _, signature = line.partition(" ")
        if name in contract.names and text_signed(
            contract.member(name).signing_key, text, signature.strip()
        ):
            valid[name] = signature.strip()
    return valid


def missing_signatures(path: str | Path) -> list[str]:
    """The members who must sign and have no valid signature of this very text."""
    valid = signatures(path)
    return [name for name in read(path).signatories if name not in valid]


def require_own_signature(path: str | Path, name: str) -> None:
    """Refuse a contract that this member itself has not signed; the others' signatures arrive over
    the network."""
    if name not in signatures(path):
        raise PrivacyError(
            f"The contract {path} lacks a valid signature of {name}, whose node this is; read it, "
            f"then run `tacenda contract sign --contract {path}`."
        )


def card_of(identity: Identity, address: str, size: int, *, listens: bool = True) -> dict[str, Any]:
    """The public facts of one member."""
    return {
        "name": identity.name,
        "size": size,
        "address": address,
        "fingerprint": identity.fingerprint,
        "signing_key": identity.signing_key,
        "listens": listens,
        "authority": identity.authority_pem,
    }


def write_card(
    identity: Identity, address: str, size: int, path: str | Path, *, listens: bool = True
) -> Path:
    """The public facts of one member, as a TOML file to send to who drafts the contract."""
    return write_text(path, toml(card_of(identity, address, size, listens=listens)))


def named_edges(graph: str, names: list[str]) -> list[list[str]]:
    """Edges of a named graph over the members in their order."""
    checks.one_of("graph", graph, ("ring", "path", "star", "complete"))
    n = len(names)
    if graph == "complete":
        return [[names[i], names[j]] for i in range(n) for j in range(i + 1, n)]
    if graph == "star":
        return [[names[0], names[j]] for j in range(1, n)]
    path = [[names[k], names[k + 1]] for k in range(n - 1)]
    return path if graph == "path" or n < 3 else [*path, [names[0], names[-1]]]


def signed_text(contract: Contract) -> bytes:
    """What a member signs when it agrees to the contract."""
    return b"tacenda contract v1\n" + contract.canonical()


def _lines(path: str | Path) -> list[str]:
    side = signatures_path(path)
    if not side.exists():
        return []
    try:
        return [line.strip() for line in side.read_text("ascii").splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise InputError(
            f"{side} must hold lines 'name signature'; ask the members for their lines again."
        ) from None
