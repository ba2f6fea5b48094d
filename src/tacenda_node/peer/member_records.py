"""A member's own records, read by the contract's schema into problems with one node: those that are
trained on, and those that are held out. Nothing of them is ever shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacenda._types import Array, Flags, Floats
from tacenda.data.encoding import as_read, encode_usable
from tacenda.data.holding_out import held_out_by_coin
from tacenda.data.persons import persons_of
from tacenda.data.readers import read_table
from tacenda.data.schema import Schema
from tacenda.data.table import Table
from tacenda.errors import InputError
from tacenda.privacy.lasting.fingerprints import keyed
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.privacy.noise.held_out import keyed_positions
from tacenda.problem.problem import Problem
from tacenda_node.identity.contract import Contract
from tacenda_node.peer.agreed_tables import AgreedTables, require_agreed, table_records
from tacenda_node.peer.run_plan import declared_of, loss_of
from tacenda_node.peer.taking_part import ByIds, TakingPart


@dataclass(frozen=True, eq=False)
class MemberRecords:
    """A member's records: those that are trained on, and those that were held out for the
    evaluation, where the contract has one. A record is on one side for ever."""

    trained: Problem
    held_out: Problem | None = None
    chosen: TakingPart | None = None  # where ids have budgets of their own


def read_records(
    contract: Contract,
    member: str,
    schema: str | Path | Schema,
    data: Any,
    ledger: Path | None,
    by_ids: ByIds | None = None,
) -> MemberRecords:
    """The records as problems with this member as their only node; every disagreement with the
    contract is refused. schema: its file, or what `checked_schema` found in it. ledger: the
    member's lasting ledger, whose secret keys decide which records are held out, and which of a
    person's are kept; needed where the contract has an evaluation or is about persons. by_ids:
    where each id has a budget of its own."""
    if isinstance(schema, (str, Path)):
        schema = checked_schema(contract, schema)
    most, key = contract.privacy.records_per_person, None
    if most is not None:
        assert ledger is not None
        with LedgerStore(ledger) as store:
            key = store.secret("records kept of each person")
    whole = read_table(data, ragged="blank") if isinstance(data, (str, Path)) else Table.of(data)
    if contract.table_parts() and not contract.has_training:
        _check_size(contract, member, len(whole))
        X, y, ids, read, rows = table_records(contract, schema, whole)
        size = contract.member(member).size
        return MemberRecords(problem_of(contract, size, X, y, ids, read, key, rows))
    public = contract.privacy.adjacency == "replace-one"
    dataset = encode_usable(schema, whole, blank=public, records_per_person=most, person_key=key)
    if by_ids is None:
        _check_size(contract, member, dataset.X.shape[0])
    persons = None if most is None else dataset.persons
    marks = dataset.fingerprints
    beside = None
    if contract.tables is not None:
        asked = AgreedTables.of(contract, schema)
        beside = asked.beside(schema, whole, public, most, key)
        if public and most is None:  # the tables count records, too, that cannot be trained on
            marks = as_read(schema, whole)
    chosen = None
    if by_ids is not None:
        assert persons is not None and ledger is not None
        with LedgerStore(ledger) as store:
            key = store.secret("records held out of training")
        # Under replace-one, ids are public and stay, also those of records that are blank
        chosen = by_ids.choose(persons_of(schema, whole) if public else persons, key)
    if contract.evaluation is None and chosen is None:
        size = contract.member(member).size
        X, y = dataset.X, dataset.y
        return MemberRecords(problem_of(contract, size, X, y, persons, marks, beside=beside))
    assert ledger is not None
    assert marks is not None
    if chosen is None:
        kept = _held_out(contract, member, marks, ledger, persons)
        sides = [~kept, kept]
    else:
        sides = [chosen.trained, chosen.held_out][: 1 + (contract.evaluation is not None)]
    sizes = (contract.trained_size(member), contract.held_out_size(member))
    problems = [
        problem_of(
            contract,
            size,
            dataset.X[side],
            dataset.y[side],
            None if persons is None else persons[side],
            marks[side],
            beside=None if beside is None else beside[side],
        )
        for size, side in zip(sizes, sides, strict=False)
    ]
    return MemberRecords(problems[0], problems[1] if len(problems) > 1 else None, chosen)


def _held_out(
    contract: Contract, member: str, marks: Array, ledger: Path, persons: Array | None
) -> Flags:
    """(n,) which records are held out: by their positions, or under add-remove each record (as it
    was read) or person by a coin of its own, under a key of the member's ledger; whatever their
    values, and the same in every run, also under another schema of the same columns."""
    with LedgerStore(ledger) as store:
        key = store.secret("records held out of training")
    if contract.privacy.adjacency == "replace-one":
        return keyed_positions(key, len(marks), contract.held_out_size(member))

    assert contract.evaluation is not None
    if persons is not None:
        return held_out_by_coin(persons, contract.evaluation.held_out, key)
    hashes = keyed(marks[:, :2] + marks[:, 2:], key)
    return held_out_by_coin(hashes, contract.evaluation.held_out, key)


def require_public_rule(schema: Schema) -> None:
    """Refuse a schema by which one record could stop a node, which the others would see."""
    if schema.missing == "error":
        raise InputError(
            "the schema's missing is 'error': one record with an empty cell would stop a member's "
            "node in front of the others. Declare missing = 'drop', or 'impute' with a public "
            "stand-in for each column."
        )
    for column in schema.columns:
        if column.kind == "categorical" and column.unknown == "error":
            raise InputError(
                f"the schema's column {column.name!r} says unknown = 'error': one record with an "
                "undeclared level would stop a member's node in front of the others. Leave "
                "unknown out, and such a record does not count, or declare unknown = 'column'."
            )


def checked_schema(contract: Contract, schema_path: str | Path) -> Schema:
    """The schema, if its hash and shape are the contract's."""
    schema = Schema.read(schema_path).as_model(contract.problem.model)
    if schema.hash() != contract.schema_hash:
        raise InputError(
            f"contract field schema_hash: the schema {schema_path} is not the one that the "
            "members agreed on; get theirs, or sign a contract with this one."
        )
    require_public_rule(schema)
    p = contract.problem
    if contract.table_parts():
        require_agreed(contract, schema)
    if contract.privacy.records_per_person is not None and schema.person is None:
        raise InputError(
            "contract field privacy.records_per_person needs the schema's person, the column with "
            "the persons' ids, and the schema names none; agree on a schema that does."
        )
    if contract.table_parts() and not contract.has_training:
        return schema
    if len(schema.feature_names) != p.n_features:
        raise InputError(
            f"contract field problem.n_features must be the schema's {len(schema.feature_names)} "
            f"features, not {p.n_features}."
        )
    if p.data_norm < 1.0:
        raise InputError(
            "contract field problem.data_norm must be at least 1, the norm of the schema's rows "
            f"after their division by row_scale, not {p.data_norm:g}."
        )
    if p.row_scale != schema.row_scale:
        raise InputError(
            "contract field problem.row_scale must be the number by which the schema divides its "
            f"rows, {schema.row_scale!r}, not {p.row_scale!r}."
        )
    if (p.classes is None) != (schema.label.classes is None) or tuple(p.classes or ()) != (
        schema.label.classes or ()
    ):
        raise InputError(
            "contract field problem.classes must be the schema's label classes, in their order."
        )
    _check_label(contract, schema)
    return schema


def _check_label(contract: Contract, schema: Schema) -> None:
    """What the schema declares of a number to predict lies where the loss takes it: from public
    facts, so that no record's label is ever refused."""
    loss, label = loss_of(contract), schema.label
    least, most = loss.label_range
    label.check_loss("contract field problem.loss:", loss)
    if loss.kind != "regression" or label.encoded_range is None:
        return
    low, high = label.encoded_range
    if not least <= low <= high <= most:
        raise InputError(
            f"contract field problem.loss_options: the loss {loss.name!r} takes labels from "
            f"{least:g} to {most:g}, and the schema's label {label.name!r} lies from {low:g} to "
            f"{high:g} after scaling; declare label_bound = {high:g} there, and for counts low = 0 "
            "and no scale_to for the label in the schema."
        )


def _check_size(contract: Contract, member: str, found: int) -> None:
    size = contract.member(member).size
    if contract.privacy.adjacency == "replace-one" and found != size:
        raise InputError(
            f"contract field members.{member}.size is {size}, "
            "but another number of records was found; "
            "under replace-one the number is public and must agree: "
            "correct the contract or the data."
        )


def problem_of(
    contract: Contract,
    size: int,
    x: Any,
    y: Any,
    persons: Array | None = None,
    fingerprints: Array | None = None,
    key: bytes | None = None,
    beside: Floats | None = None,
) -> Problem:
    """Encoded rows and label codes as a member's part of the problem; size: the public one;
    persons: whose each record is, where persons are the unit; fingerprints: of the records as they
    were read; key: of the draw of kept records, where it is still to be made; beside: as for
    `Problem`."""
    p = contract.problem
    unit: dict[str, Any] = {}
    if persons is not None:
        most, members = contract.privacy.person
        unit = {"persons": [persons], "records_per_person": most, "members_per_person": members}
    return Problem(
        [(x, y)],
        **declared_of(contract),
        classes=None if p.classes is None else range(len(p.classes)),
        public_sizes=[float(size)],
        fingerprints=fingerprints,
        person_key=key,
        beside=beside,
        **unit,
    )
