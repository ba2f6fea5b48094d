"""A schema as TOML that people read and confirm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacenda.formats.text import toml

if TYPE_CHECKING:
    from tacenda.data.schema import Schema

UNCONFIRMED = "# read from the data: to be confirmed as public, then set to true"


def to_toml(schema: Schema) -> str:
    """Top-level fields, then [label], then one [[columns]] table each: one thing to a line."""
    fields = schema.model_dump(mode="json", exclude_none=True)
    columns, label = fields.pop("columns"), fields.pop("label")
    parts = [
        toml(fields),
        "[label]\n" + _declared(label),
        *("[[columns]]\n" + _declared(column) for column in columns),
    ]
    return "\n".join(parts)


def _declared(values: dict[str, Any]) -> str:
    from tacenda.data.schema import without_usual

    confirmed, source = values.pop("confirmed"), values.pop("source")
    without_usual(values)
    if source:
        values["source"] = source
    return toml(values) + (
        "confirmed = true\n" if confirmed else f"confirmed = false  {UNCONFIRMED}\n"
    )
