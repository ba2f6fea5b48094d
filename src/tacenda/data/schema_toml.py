"""A schema as TOML that people read and confirm."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tacenda.checks import one_of
from tacenda.errors import InputError
from tacenda.formats.text import from_toml, toml

if TYPE_CHECKING:
    from tacenda.data.schema import Schema

UNCONFIRMED = "# read from the data: to be confirmed as public, then set to true"


def to_toml(schema: Schema) -> str:
    """Top-level fields, then [label], then one [[columns]] table each: one thing to a line."""
    fields = schema.model_dump(mode="json", exclude_none=True)
    columns, label = fields.pop("columns"), fields.pop("label")
    survival = fields.pop("survival", None)
    if not schema.pairs:
        del fields["pairs"]
    parts = [
        toml(fields),
        *([] if survival is None else ["[survival]\n" + toml(survival)]),
        *([] if schema.label.survival else ["[label]\n" + _declared(label)]),
        *("[[columns]]\n" + _declared(column) for column in columns),
    ]
    return "\n".join(parts)


def confirmed(text: str, names: Sequence[str], source: str | None) -> str:
    """A schema's TOML text in which these columns, or the label, are confirmed; all else, comments
    too, stays as it is."""
    from tacenda.data.schema import Schema

    schema = Schema.from_toml(text)
    known = [part.name for part in (schema.label, *schema.columns)]
    for name in names:
        one_of("columns", name, known)
    blocks = re.split(r"(?m)^(?=\[)", text)
    made = "".join(
        _confirmed(block, source) if block.startswith("[") and _name(block) in names else block
        for block in blocks
    )
    if set(names) & set(Schema.from_toml(made).unconfirmed):
        raise InputError(
            "the schema is written in a way that cannot be changed in place; set confirmed = true "
            "by hand in these columns."
        )
    return made


def _name(block: str) -> str:
    """The name that a [label] or [[columns]] table declares."""
    values = from_toml(block)
    part = values["label"] if "label" in values else values.get("columns", [{}])[0]
    return str(part.get("name"))


def _confirmed(block: str, source: str | None) -> str:
    words = {"confirmed": "confirmed = true"}
    if source is not None:
        words["source"] = toml({"source": source}).strip()
    for key, line in words.items():
        lines = block.splitlines()
        at = next((k for k, text in enumerate(lines) if re.match(rf"{key}\s*=", text)), None)
        if at is None:
            at = max(k for k, text in enumerate(lines) if text.strip()) + 1
            lines.insert(at, "")
        lines[at] = line
        block = "\n".join(lines) + "\n"
    return block


def _declared(values: dict[str, Any]) -> str:
    confirmed, source = values.pop("confirmed"), values.pop("source")
    without_usual(values)
    if source:
        values["source"] = source
    return toml(values) + (
        "confirmed = true\n" if confirmed else f"confirmed = false  {UNCONFIRMED}\n"
    )


# Fields that came after the first schemas, and the value that means what those meant.
_USUAL: dict[str, Any] = {
    "transform": "clip",
    "centre": None,
    "scale": None,
    "period": None,
    "date": None,
    "two_valued": False,
    "typical": None,
    "ordered": False,
    "survival": False,
    "missing_indicator": False,
    "hats": None,
    "breaks": None,
    "atoms": [],
    "monotone": None,
}


def without_usual(part: dict[str, Any]) -> None:
    """Take fields at their usual value out of a column's fields."""
    for field, usual in _USUAL.items():
        if field in part and part[field] == usual:
            del part[field]
