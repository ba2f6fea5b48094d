"""`check`: a pack, or the certificate inside a model's file, checked line by line with nothing but
itself and what the checker knows from elsewhere."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tacenda._version import RELEASE
from tacenda.data.schema import Schema
from tacenda.errors import InputError, StateError, TacendaError
from tacenda.formats.text import canonical_json, strict, toml
from tacenda.privacy.lasting.database import ROW
from tacenda.runtime.result import load
from tacenda.words import against
from tacenda_node.evidence.annexes import NOT_PROVED, NOT_PROVED_SIMULATION
from tacenda_node.evidence.facts import (
    AUDIT,
    BILL,
    CERTIFICATE,
    CONTRACT,
    EVALUATION,
    GRID,
    LEDGER,
    ORGANISATION,
    SCHEMA,
    SIMULATED,
    STATEMENT,
    as_planned,
    booked,
    compare,
    composed,
    read_json,
    released_evaluation,
    same_charges,
    signed_statement,
)
from tacenda_node.evidence.model_certificate import FORMAT as CERTIFICATE_FORMAT
from tacenda_node.evidence.model_certificate import (
    certificate_signed,
    check_certificate,
    check_words,
    promise,
    weights_of,
)
from tacenda_node.evidence.model_signatures import signers
from tacenda_node.evidence.pack import FORMAT, HTML, JSON, MANIFEST, YAML, compose, sealed_text
from tacenda_node.evidence.page import page
from tacenda_node.evidence.registry import deployment, yaml
from tacenda_node.evidence.signed_statement import SignedStatement
from tacenda_node.identity import contract_files
from tacenda_node.identity.certificates import text_signed
from tacenda_node.identity.contract import Contract
from tacenda_node.membership.amendments import amendment_path, check_amendment
from tacenda_node.operate.archive import hashes
from tacenda_node.peer.evaluation_plan import closing_plan, model_digest
from tacenda_node.peer.run_plan import make_plan
from tacenda_node.state.spending import is_evaluation_of, is_run_of

MODEL_LIMITS = (
    "Whose key that is: compare it by another channel (--contract, --key).",
    "That the data were what the schema says, and that the signer's machine drew its noise as the "
    "program does.",
    "That the model is right, fair, or fit for a purpose.",
)
LARGEST = 1 << 28  # bytes of one file
AMENDMENT = re.compile(r"contract/contract\.amendment-[1-9][0-9]{0,3}\.toml(\.signatures)?")
OF_BOTH = {HTML, JSON, YAML, BILL, ORGANISATION, AUDIT}
OF_SIMULATION = {*OF_BOTH, SIMULATED}
OF_MEMBER = {
    *OF_BOTH,
    *(CONTRACT, f"{CONTRACT}.signatures", STATEMENT, LEDGER, SCHEMA, CERTIFICATE, EVALUATION),
}
_DAMAGE = (TacendaError, ValueError, KeyError, TypeError, IndexError, AttributeError, OSError)


@dataclass(frozen=True)
class Line:
    """One thing that was looked at.

    Attributes
    ----------
    what : str
        What was checked.
    ok : bool
        Whether it was found in order.
    found : str
        What was found; where it is not in order, what and where.

    Examples
    --------
    >>> from tacenda_node import evidence
    >>> evidence.Line("seal", True, "signed by north").ok
    True
    """

    what: str
    ok: bool
    found: str


@dataclass(frozen=True)
class Checked:
    """Everything that was looked at, and what cannot be proved in this way.

    Attributes
    ----------
    place : str
        The folder or the file.
    lines : list of Line
        The checks, in order.
    facts : dict
        Epsilon, delta, relation, unit, coalition, members and who signed, as they were recomputed.
    not_proved : list of str
        What the result does not prove.

    Examples
    --------
    >>> from tacenda_node import evidence
    >>> evidence.Checked("a-pack", [evidence.Line("seal", False, "not signed")]).ok
    False
    """

    place: str
    lines: list[Line]
    facts: dict[str, Any] = field(default_factory=dict)
    not_proved: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing was found to be different."""
        return bool(self.lines) and all(line.ok for line in self.lines)

    def to_plain(self) -> dict[str, Any]:
        """Plain values for --json.

        Result: numbers, strings, lists and dictionaries only.
        """
        return {
            "place": self.place,
            "ok": self.ok,
            "facts": self.facts,
            "checks": [vars(line) for line in self.lines],
            "not_proved": self.not_proved,
        }


def check(
    place: str | Path,
    *,
    contract: str | Path | None = None,
    keys: Mapping[str, str] | None = None,
    model: str | Path | None = None,
) -> Checked:
    """Check an evidence pack, or the certificate inside a model's file.

    Parameters
    ----------
    place : str or Path
        The pack's folder; or a model's file, or the folder of an exported model.
    contract : str, Path or None, default=None
        Your own copy of the contract, from elsewhere than the pack.
    keys : mapping or None, default=None
        Members' public keys that you know from elsewhere, by name.
    model : str, Path or None, default=None
        For a pack: a model that claims to be the run's.

    Returns
    -------
    Checked
        Every check with what it found; `ok` only if no difference was found.

    Raises
    ------
    InputError
        If there is neither a pack nor a model.

    Examples
    --------
    >>> import tacenda as tc
    >>> from tacenda_node import evidence
    >>> try:
    ...     evidence.check("no-such-pack")
    ... except tc.errors.InputError as error:
    ...     print(str(error).split(";")[0])
    There is no pack and no model at no-such-pack
    """
    path = Path(place)
    known = None if contract is None else contract_files.read(contract)
    if any((path / name).exists() for name in (HTML, JSON)) or _is_list(path / MANIFEST):
        return _Pack(path, known, dict(keys or {}), model).checked()
    if not path.exists():
        raise InputError(f"There is no pack and no model at {path}; check its name and folder.")
    if model is not None:
        raise InputError("--model is for a pack; give the model alone to check its certificate.")
    return _check_model(path, known, keys or {})


def _is_list(path: Path) -> bool:
    """Whether this is the list of a pack, and not that of a run folder."""
    try:
        return str(json.loads(path.read_text("utf-8"))["format"]).startswith("tacenda-evidence")
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


# ---- a model's file
def _check_model(path: Path, contract: Contract | None, keys: Mapping[str, str]) -> Checked:
    limits = list(MODEL_LIMITS[1:] if contract is not None or keys else MODEL_LIMITS)
    try:
        body = check_certificate(path, contract=contract, keys=keys)
        p, run = body["privacy"], body["run"]
        lines = [
            Line("signature", True, f"{body['member']} signed it at {body['issued_at']}"),
            Line("weights", True, f"unchanged since then ({body['model']['digest'][:16]})"),
            Line(
                "epsilon",
                True,
                f"{_number(p['epsilon'])} at delta {p['delta']:g}, composed again from the "
                f"charges; {p['unit']}, {p['relation']}, against {against(p['coalition'])}",
            ),
        ]
        if contract is not None:
            lines.append(Line("contract", True, f"the one given, {contract.hash()[:16]}"))
            if names := signers(weights_of(path), contract):
                share = f"{', '.join(names)}: {len(names)} of {len(contract.members)} members"
                lines.append(Line("members who signed this model", True, share))
        elif run is not None:
            said = f"said to be {run['contract']}; none was given to compare with"
            lines.append(Line("contract", True, said))
    except _DAMAGE as wrong:
        if isinstance(wrong, InputError):
            raise
        what = str(wrong) if isinstance(wrong, TacendaError) else "it is not whole."
        return Checked(str(path), [Line("certificate", False, what)], {}, limits)
    facts = {**p, "member": body["member"], "signing_key": body["signing_key"], "run": run}
    words = {"who_may_rely_on_what": body["who_may_rely_on_what"]}
    return Checked(str(path), lines, {**facts, **words}, limits)


# ---- a pack
class _Pack:
    """One folder under examination. Every check is a method that returns what it found, or raises
    with what is wrong; a later one runs also where an earlier one failed."""

    def __init__(
        self,
        folder: Path,
        contract: Contract | None,
        keys: dict[str, str],
        model: str | Path | None,
    ) -> None:
        self.folder, self.known, self.keys, self.model = folder, contract, keys, model
        self.simulated = (folder / SIMULATED).is_file()
        self.values: dict[str, Any] = {}
        self.packed: dict[str, Any] = {}

    @cached_property
    def _agreed(self) -> tuple[Contract, SignedStatement]:
        """The contract and the statement, whose signature and figures hold."""
        return signed_statement(self.folder)

    def checked(self) -> Checked:
        for file in self.folder.rglob("*"):
            if file.is_file() and file.stat().st_size > LARGEST:
                large = f"{file.name} is too large to be a part of a pack."
                return Checked(str(self.folder), [Line("every file", False, large)])
        steps: list[tuple[str, Callable[[], str]]] = [
            ("list of files", self._list),
            ("every file", self._files),
            ("program", self._program),
        ]
        if not self.simulated:
            steps += [
                ("seal of the pack", self._seal),
                ("contract", self._contract),
                ("signatures of the contract", self._signatures),
                ("statement", self._statement),
                ("ledger", self._ledger),
                ("epsilon of the ledger", self._booked),
                ("noise against the contract's plan", self._planned),
                ("epsilon against the contract", self._promised),
                ("schema", self._schema),
                ("model", self._model),
                ("evaluation", self._evaluation),
            ]
        steps += [("every number", self._numbers), (YAML, self._yaml), (HTML, self._html)]
        lines = [self._line(what, step) for what, step in steps]
        limits = (*NOT_PROVED_SIMULATION, *NOT_PROVED) if self.simulated else NOT_PROVED
        return Checked(str(self.folder), lines, self._facts(), list(limits))

    def _line(self, what: str, step: Callable[[], str]) -> Line:
        try:
            return Line(what, True, step())
        except _DAMAGE as wrong:
            named = str(wrong) if isinstance(wrong, TacendaError) else f"unreadable: {wrong!r}"
            return Line(what, False, named)
        except RecursionError:
            return Line(what, False, "nested too deeply to be read.")

    def _facts(self) -> dict[str, Any]:
        if not self.values:
            return {}
        facts = self.values["facts"]
        names = ("simulation", "title", "member", "contract", "run", "privacy", "members")
        return {name: facts[name] for name in names}

    # -- files and signatures
    def _manifest(self) -> tuple[dict[str, Any], Any]:
        values = read_json(self.folder / MANIFEST)
        if values.get("format") != FORMAT:
            raise StateError(
                f"{MANIFEST} has the format {values.get('format')!r}, and this program reads "
                f"{FORMAT!r}."
            )
        body = values["body"]
        if not isinstance(body, dict) or not isinstance(body["files"], dict):
            raise StateError(f"{MANIFEST} has no list of files.")
        return body, values["signature"]

    def _list(self) -> str:
        body, signature = self._manifest()
        if self.simulated != (body["member"] is None) or self.simulated != (signature is None):
            raise StateError(
                f"{MANIFEST} and {SIMULATED} differ in whether this is a simulation, which is not "
                "signed."
            )
        return f"{len(body['files'])} files, made at {body['made_at']}"

    def _files(self) -> str:
        links = [p.name for p in self.folder.rglob("*") if p.is_symlink()]
        if links:
            raise StateError(f"{links[0]} is a link; a pack holds files only.")
        stated, found = self._manifest()[0]["files"], hashes(self.folder, MANIFEST)
        parts = OF_SIMULATION if self.simulated else OF_MEMBER
        for name in sorted({*stated, *found}):
            if name not in parts and (self.simulated or not AMENDMENT.fullmatch(name)):
                raise StateError(f"{name} is no part of a pack.")
            if name not in found:
                raise StateError(f"{name} is missing.")
            if name not in stated:
                raise StateError(f"{name} was added; it is not in the list.")
            if stated[name] != found[name]:
                raise StateError(f"{name} was changed since the pack was made.")
            if name.endswith(".json"):
                read_json(self.folder / name)
        return "is as listed (SHA-256)"

    def _program(self) -> str:
        stated = str(self._manifest()[0]["tacenda"])
        if stated != RELEASE:
            raise StateError(
                f"the pack was made by tacenda {stated}, and this is {RELEASE}: the same "
                f"version is needed to compute its words again (pip install tacenda=={stated})."
            )
        bill = read_json(self.folder / BILL)["metadata"]["component"]
        if (bill["name"], bill["version"].partition("+")[0]) != ("tacenda", stated):
            raise StateError(f"{BILL} is of {bill['name']} {bill['version']}, not of {stated}.")
        return f"tacenda {stated}, as here"

    def _seal(self) -> str:
        body, signature = self._manifest()
        contract, signed = self._agreed
        member = str(body["member"])
        if member != signed.member:
            raise StateError(
                f"the pack is sealed by {member}, and its statement is by {signed.member}."
            )
        key = contract.member(member).signing_key
        if not text_signed(key, sealed_text(body), str(signature)):
            raise StateError(
                f"{MANIFEST} is not signed by {member} with the key in the contract, or was "
                "changed afterwards."
            )
        for name, value in (("contract", contract.hash()), ("run", contract.run_id())):
            if body[name] != value:
                raise StateError(f"{MANIFEST} names another {name} than {CONTRACT} gives.")
        return f"signed by {member} with the key in the contract"

    def _contract(self) -> str:
        contract = contract_files.read(self.folder / CONTRACT)
        if self.known is not None and self.known.hash() != contract.hash():
            raise StateError(
                f"the pack's contract ({contract.hash()[:16]}) is not the one that you gave "
                f"({self.known.hash()[:16]})."
            )
        for name, key in self.keys.items():
            if contract.member(name).signing_key != key:
                raise StateError(f"{CONTRACT} has another key of {name} than the one you gave.")
        path = self.folder / CONTRACT
        if path.read_text("utf-8") != toml(contract.to_plain()):
            raise StateError(f"{CONTRACT} holds remarks, or is not written as the program does.")
        self._amendments(contract)
        known = "the one you gave" if self.known is not None else "compare it with your own copy"
        return f"{contract.hash()} ({known})"

    def _amendments(self, contract: Contract) -> None:
        """Later texts of the contract follow each other, and are signed by who must."""
        for number in range(1, 1001):
            path = amendment_path(self.folder / CONTRACT, number)
            if not path.is_file():
                if list(path.parent.glob("contract.amendment-*.toml"))[number - 1 :]:
                    raise StateError(f"amendment {number} is missing.")
                return
            text = contract_files.read(path)
            if number > (contract.amendment or 0):
                check_amendment(contract, text)
                contract = text
            elif text.run_id() != contract.run_id() or text.amendment != number:
                raise StateError(f"amendment {number} is of another contract.")
            missing = contract_files.missing_signatures(path)
            if missing:
                raise StateError(f"amendment {number} lacks a signature of {', '.join(missing)}.")

    def _signatures(self) -> str:
        missing = contract_files.missing_signatures(self.folder / CONTRACT)
        if missing:
            raise StateError(f"{CONTRACT} lacks a valid signature of {', '.join(missing)}.")
        contract = contract_files.read(self.folder / CONTRACT)
        known = self.known is not None and self.known.hash() == contract.hash()
        if 2 * len(contract.signatories) <= len(contract.members) and not known:
            raise StateError(
                f"only {', '.join(contract.signatories)} have signed, and "
                f"{', '.join(contract.left or ())} are said to have left: give your own copy of "
                "the contract (--contract)."
            )
        gone = f"; {', '.join(contract.left)} had left before" if contract.left else ""
        return f"{', '.join(contract.signatories)} have signed this very text{gone}"

    # -- numbers
    def _statement(self) -> str:
        contract, signed = self._agreed
        privacy, terms = signed.statement, contract.privacy
        if privacy.mode != "sound":
            raise StateError(f"the statement is in the mode {privacy.mode!r}, not sound.")
        again = make_plan(contract).spec.statement(privacy.charges, privacy.noise, n_nodes=1)
        assert again is not None
        compare(strict(again.to_plain()), strict(privacy.to_plain()), STATEMENT)
        pooled = privacy.curve().coalition
        if pooled is not None and (terms.coalition is None or pooled < terms.coalition):
            raise StateError(
                f"the statement holds against {against(pooled)}, and the contract says "
                f"{against(terms.coalition)}."
            )
        return (
            f"signed by {signed.member}; its charges compose to epsilon {privacy.epsilon:.6g} at "
            f"delta {privacy.delta:g}, {privacy.adjacency}, for {privacy.unit}, against "
            f"{against(pooled)}"
        )

    def _ledger(self) -> str:
        contract, signed = self._agreed
        lines = (self.folder / LEDGER).read_text("utf-8").split("\n")[:-1]
        for number, line in enumerate(lines, 1):
            row = json.loads(line)
            if canonical_json(row) != line or row.keys() != set(ROW):
                raise StateError(f"{LEDGER}, line {number}: it is not as a ledger writes it.")
            run, me = row["run"], signed.member
            own = is_run_of(run, contract, me) or is_evaluation_of(run, contract, me)
            if not own and row["kind"] != "budget":
                raise StateError(f"{LEDGER}, line {number}: it is of another run.")
        charges = booked(self.folder, contract, signed.member, is_run_of)
        if not same_charges(signed.statement, charges):
            made, held = len(signed.statement.charges), sum(count for _, count in charges)
            raise StateError(
                f"{LEDGER} holds other charges ({held}) than the statement ({made}): rows are "
                "missing, added or changed."
            )
        return f"{sum(count for _, count in charges)} releases, the same as in the statement"

    def _booked(self) -> str:
        contract, signed = self._agreed
        s = signed.statement
        charges = booked(self.folder, contract, signed.member, is_run_of)
        epsilon = composed(s, charges).epsilon if charges else 0.0
        if not math.isclose(epsilon, s.epsilon, rel_tol=GRID):
            raise StateError(
                f"{LEDGER} composes to epsilon {epsilon:.6g}, and the statement says "
                f"{s.epsilon:.6g}."
            )
        return f"{epsilon:.6g}, composed by the accountant {s.accountant}"

    def _planned(self) -> str:
        contract, signed = self._agreed
        plan = make_plan(contract)
        if as_planned(signed.statement, plan, contract.position(signed.member)):
            planned = composed(signed.statement, plan.events(signed.member)).epsilon
            return f"every release has the noise of the contract's plan (epsilon {planned:.6g})"
        if contract.absence.policy == "continue" or contract.left:
            return (
                "the members present changed, so that releases differ from the plan, and their "
                f"number is {signed.member}'s word: rely on the contract's epsilon "
                f"{contract.privacy.epsilon:g}"
            )
        raise StateError("the releases are not those of the contract's plan, with their noise.")

    def _promised(self) -> str:
        contract, signed = self._agreed
        found, agreed = signed.statement.epsilon, contract.privacy.epsilon
        if not found <= agreed * (1 + 1e-4):  # the width of the accountants' grids
            raise StateError(f"epsilon {found:.6g} is more than the contract's {agreed:g}.")
        return f"{found:.6g} of at most {agreed:g}"

    def _schema(self) -> str:
        contract = contract_files.read(self.folder / CONTRACT)
        schema = Schema.read(self.folder / SCHEMA).as_model(contract.problem.model)
        if schema.hash() != contract.schema_hash:
            raise StateError(f"{SCHEMA} is not the schema whose hash the members signed.")
        return "the one whose hash the members signed"

    def _model(self) -> str:
        contract, signed = self._agreed
        values = read_json(self.folder / CERTIFICATE)
        body = values["body"]
        key = contract.member(signed.member).signing_key
        if (
            values["format"] != CERTIFICATE_FORMAT
            or body["member"] != signed.member
            or not certificate_signed(body, values["signature"], key)
        ):
            raise StateError(f"{CERTIFICATE} is not signed by {signed.member}.")
        compare(promise(signed.statement), body["privacy"], CERTIFICATE)
        check_words(body, contract, signed.statement)
        if self.model is not None:
            held = check_certificate(self.model, contract=contract)
            if held["model"]["digest"] != body["model"]["digest"]:
                raise StateError(f"{self.model} is another model than the one of this run.")
            return f"{self.model} is the run's ({body['model']['digest'][:16]})"
        return f"certificate of {body['model']['digest'][:16]}, signed by {signed.member}"

    def _evaluation(self) -> str:
        contract, signed = self._agreed
        found = released_evaluation(self.folder, contract, signed)
        if found is None:
            agreed = "has one, and it was not made" if contract.evaluation else "has none"
            return f"the contract {agreed}"
        assert signed.evaluation is not None and contract.evaluation is not None
        if not same_charges(
            signed.evaluation, booked(self.folder, contract, signed.member, is_evaluation_of)
        ):
            raise StateError(f"{LEDGER} holds other charges of the evaluation than the statement.")
        absent = set(contract.names) - set(found.about["members"])
        plan = closing_plan(contract, str(found.about["model"]), absent)
        if not as_planned(signed.evaluation, plan, plan.contract.position(signed.member)):
            raise StateError("the evaluation has other noise than the contract's plan.")
        if self.model is not None:
            digest = model_digest(load(weights_of(self.model)).models)
            if digest != found.about["model"]:
                raise StateError(f"{self.model} is another model than the one that was evaluated.")
        return (
            f"{len(found.measures)} measures computed again from the released sums; epsilon "
            f"{signed.evaluation.epsilon:.6g} for {signed.evaluation.unit}, of those held out, "
            "which were not trained on"
        )

    # -- what people read
    def _numbers(self) -> str:
        self.packed = read_json(self.folder / JSON)
        self.values = compose(self.folder)
        compare(json.loads(json.dumps(self.values)), self.packed, JSON)
        return f"of {JSON} was computed again and is the same"

    def _yaml(self) -> str:
        if (self.folder / YAML).read_text("utf-8") != yaml(deployment(self._read())):
            raise StateError(f"{YAML} says something else than the numbers give.")
        return "says what the numbers give"

    def _html(self) -> str:
        found = (self.folder / HTML).read_text("utf-8")
        wanted = page(self._read())
        if found == wanted:
            return "says what the numbers give, word for word"
        pairs = zip(found.splitlines(), wanted.splitlines(), strict=False)
        number = next((k for k, (a, b) in enumerate(pairs, 1) if a != b), 0)
        raise StateError(f"{HTML} was changed (line {number}): it says something else.")

    def _read(self) -> dict[str, Any]:
        """The values of evidence.json once they are known to be right: the last digits of another
        machine must not change a word."""
        if not self.values:
            raise StateError("the numbers could not be computed again.")
        try:
            compare(json.loads(json.dumps(self.values)), self.packed, JSON)
        except StateError:
            return self.values
        return self.packed


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
