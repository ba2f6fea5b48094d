"""What a member's run has really cost, signed with the key that signed the contract: the charges
themselves, so that anybody can compose them again.

    state/statement.json    {"format", "body": {...}, "signature"}; the signature is over the body
                            in canonical JSON, behind a prefix that no other signature here has

Where the contract has an evaluation, the body has a second statement, for the records that were
held out. A record was either trained on or held out, so one of the two covers it, never their sum.

A statement is made once. A finished node that is started again keeps the file; only the evaluation
is added to it, once, when there is one.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacenda.errors import InputError, StateError
from tacenda.formats.files import write_json
from tacenda.formats.text import canonical_json, strict
from tacenda.losses.registry import rows_of
from tacenda.privacy.noise.keyed import KINDS
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.statement import Statement
from tacenda_node.evidence.model_certificate import same_values
from tacenda_node.identity.certificates import Identity, text_signed
from tacenda_node.identity.contract import Contract, PrivacyTerms

FILE = "statement.json"
FORMAT = "tacenda-signed-statement-1"
_PREFIX = b"tacenda privacy statement v1\0"
_FIELDS = ("member", "title", "run", "contract", "signing_key", "signed_at", "privacy")
ROUNDING = 1e-9
COVERS = (
    "each record is covered by one of the two: it was trained on, or held out for the evaluation, "
    "never both"
)


@dataclass(frozen=True)
class SignedStatement:
    """A statement that was read and found in order."""

    member: str
    title: str
    contract: str
    signed_at: str
    statement: Statement
    evaluation: Statement | None = None


def write_statement(
    folder: Path,
    statement: Statement,
    contract: Contract,
    identity: Identity,
    evaluation: tuple[str, Statement] | None = None,
) -> Path:
    """Sign what was spent, and write it into the state folder, unless a statement of this run is
    there. evaluation: the digest of the model that was evaluated, and what the held-out records
    lost by it."""
    kept = _kept(folder, contract, identity)
    if kept is not None and (evaluation is None or "evaluation" in kept):
        return folder / FILE
    body: dict[str, Any] = kept or {
        "member": identity.name,
        "title": contract.title,
        "run": contract.run_id(),
        "contract": contract.hash(),
        "signing_key": identity.signing_key,
        "signed_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "privacy": strict(statement.to_plain()),
    }
    if evaluation is not None:
        body["records"] = contract.trained_size(identity.name)
        body["evaluation"] = {
            "model": evaluation[0],
            "records": contract.held_out_size(identity.name),
            "covers": COVERS,
            "privacy": strict(evaluation[1].to_plain()),
        }
    signature = identity.sign_text(statement_text(body))
    values = {"format": FORMAT, "body": body, "signature": signature}
    return write_json(folder / FILE, values)


def _kept(folder: Path, contract: Contract, identity: Identity) -> dict[str, Any] | None:
    """The body of this member's statement of this run in the folder, if a valid one is there."""
    try:
        if verify_statement(folder, contract).member == identity.name:
            return _read(folder)[0]
    except (InputError, StateError):  # none yet, of another run, or damaged: it is made anew
        return None
    return None


def verify_statement(path: str | Path, contract: Contract) -> SignedStatement:
    """The statement, if a member of this contract has signed it and its figures follow from its
    charges; otherwise StateError with what is wrong."""
    body, signature = _read(Path(path))
    member = str(body.get("member"))
    if member not in contract.names:
        raise StateError(f"{path} is by {member!r}, which is not a member of the contract.")
    if not text_signed(contract.member(member).signing_key, statement_text(body), signature):
        raise StateError(
            f"{path} is not signed by {member} with the key in the contract, or was changed "
            "afterwards; ask that member for its own file."
        )
    if body.get("contract") != contract.hash():
        raise StateError(
            f"{path} is about another contract ({str(body.get('contract'))[:16]}) than this one "
            f"({contract.hash()[:16]}); give the contract that was run with --contract."
        )
    for field, agreed in (("title", contract.title), ("run", contract.run_id())):
        if body.get(field) != agreed:
            raise StateError(f"{path} states another {field} than the contract.")
    terms = contract.privacy
    rows = rows_of(str(contract.problem.loss), len(contract.problem.classes or ()))
    statement = _composed(path, body, terms.epsilon, terms.delta, terms, rows)
    evaluation = None
    expected = {*_FIELDS}
    if contract.evaluation is not None and "evaluation" in body:
        expected |= {"records", "evaluation"}
        found = body["evaluation"] if isinstance(body["evaluation"], dict) else {}
        closing = contract.evaluation
        evaluation = _composed(
            path, found, closing.epsilon or terms.epsilon, closing.delta or terms.delta, terms
        )
        wanted = {
            "model": found.get("model"),
            "records": contract.held_out_size(member),
            "covers": COVERS,
            "privacy": found["privacy"],
        }
        if found != wanted or body.get("records") != contract.trained_size(member):
            raise StateError(
                f"{path} says something else of its evaluation, or of the records trained on, than "
                "the contract gives; the member's program may have been changed."
            )
    if body.keys() != expected or body["signing_key"] != contract.member(member).signing_key:
        raise StateError(
            f"{path} has other fields than a statement of this contract has, or another key; the "
            "member's program may have been changed."
        )
    return SignedStatement(
        member,
        str(body["title"]),
        str(body["contract"]),
        str(body["signed_at"]),
        statement,
        evaluation,
    )


def _composed(
    path: str | Path,
    body: dict[str, Any],
    target: float,
    delta: float,
    terms: PrivacyTerms,
    rows: int = 1,
) -> Statement:
    """The statement in it, composed again from its charges; its words are those that these give.
    rows: how many the loss makes of a record."""
    try:
        counts = [one["count"] for one in body["privacy"]["charges"]]
        if any(type(count) is not int or count < 1 for count in counts):
            raise ValueError
        statement = Statement.from_plain(body["privacy"])
        stated = float(body["privacy"]["epsilon"])
        again = strict(statement.to_plain())
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise StateError(f"{path} does not hold a whole privacy statement.") from None
    if not math.isclose(statement.epsilon, stated, rel_tol=ROUNDING):
        raise StateError(
            f"{path} states epsilon {stated:.6g}, but its own charges compose to "
            f"{statement.epsilon:.6g}; the member's program may have been changed."
        )
    for field, said, wanted in (
        ("delta", statement.delta, delta),
        ("adjacency", statement.adjacency, terms.adjacency),
        ("records per person", statement.records_per_person, terms.person[0] * rows),
        ("rows of one record", statement.one_record, rows > 1),
        ("members per person", statement.members_per_person, terms.person[1]),
    ):
        if said != wanted:
            raise StateError(
                f"{path} states its epsilon for {field} {said}, and the contract has {wanted}; "
                "the member's program may have been changed."
            )
    # What follows from no charge, and is a member's to choose nowhere
    alone = statement.n_nodes == 1 and statement.hidden is None
    kinds = (*KINDS, SimulatedNoise.kind)
    if not (
        alone
        and statement.target == target
        and statement.noise in kinds
        and same_values(again, body["privacy"])
    ):
        raise StateError(
            f"{path} has other words or figures than its charges and the contract give; the "
            "member's program may have been changed."
        )
    return statement


def _read(path: Path) -> tuple[dict[str, Any], str]:
    if path.is_dir():
        path = path / FILE
    try:
        values = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"there is no statement at {str(path)!r}; a node writes {FILE} into its state folder "
            "after the last round."
        ) from None
    except ValueError:
        raise StateError(f"{path} is not readable JSON; ask for the file again.") from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise StateError(f"{path} is not a signed statement in the format {FORMAT!r}.")
    body, signature = values.get("body"), values.get("signature")
    if not isinstance(body, dict) or not isinstance(signature, str):
        raise StateError(f"{path} has no body or no signature; ask for the file again.")
    return body, signature


def statement_text(body: dict[str, Any]) -> bytes:
    """What a member signs."""
    return _PREFIX + canonical_json(body).encode()
