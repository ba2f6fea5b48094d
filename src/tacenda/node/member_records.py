"""A member's own records, read by the contract's schema into a problem with one node. Nothing of
them is ever shown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacenda.errors import InputError
from tacenda.node.identity.contract import Contract
from tacenda.problem.problem import Problem

if TYPE_CHECKING:
    from tacenda.data.schema import Schema


def read_records(
    contract: Contract, member: str, schema: str | Path | Schema, data: Any
) -> Problem:
    """The records as a Problem with this member as its only node; every disagreement with the
    contract is refused. schema: its file, or what `checked_schema` found in it."""
    from tacenda.data.encoding import encode

    if isinstance(schema, (str, Path)):
        schema = checked_schema(contract, schema)
    dataset = encode(schema, data, strict=True)
    return problem_of(contract, member, dataset.X, dataset.y)


def checked_schema(contract: Contract, schema_path: str | Path) -> Schema:
    """The schema, if its hash and shape are the contract's."""
    from tacenda.data.schema import Schema

    schema = Schema.read(schema_path)
    if schema.hash() != contract.schema_hash:
        raise InputError(
            f"contract field schema_hash: the schema {schema_path} is not the one that the "
            "members agreed on; get theirs, or sign a contract with this one."
        )
    p = contract.problem
    if len(schema.feature_names) != p.n_features:
        raise InputError(
            f"contract field problem.n_features must be the schema's {len(schema.feature_names)} "
            f"features, not {p.n_features}."
        )
    if schema.row_norm > p.data_norm:
        raise InputError(
            "contract field problem.data_norm must be at least the schema's row_norm, "
            f"{schema.row_norm:g}."
        )
    if (p.classes is None) != (schema.label.classes is None) or tuple(p.classes or ()) != (
        schema.label.classes or ()
    ):
        raise InputError(
            "contract field problem.classes must be the schema's label classes, in their order."
        )
    return schema


def problem_of(contract: Contract, member: str, x: Any, y: Any) -> Problem:
    """Encoded rows and label codes as the member's part of the problem."""
    p, size = contract.problem, contract.member(member).size
    counts_public = contract.privacy.adjacency == "replace-one"
    if counts_public and x.shape[0] != size:
        raise InputError(
            f"contract field members.{member}.size is {size}, "
            "but another number of usable records was found; "
            "under replace-one the number is public and must agree: "
            "correct the contract or the data."
        )
    return Problem(
        [(x, y)],
        loss=p.loss,
        regulariser=p.regulariser,
        strength=p.strength,
        loss_scale=p.loss_scale,
        data_norm=p.data_norm,
        radius=p.radius,
        clip_norm=p.clip_norm,
        classes=None if p.classes is None else range(len(p.classes)),
        public_sizes=[float(size)],
    )
