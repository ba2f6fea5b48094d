"""The public description of a table: which columns, which bounds, which levels, which labels.

Nothing here may be learnt from the records: a bound or a level read from private data leaks it. A
drafted schema therefore marks such values `confirmed = false` until somebody who knows the field
confirms that they are public.
"""

from __future__ import annotations

import hashlib
import math
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from tacenda.checks import one_of
from tacenda.data.basis import FUNCTIONS, LEAST_FUNCTIONS, MOST_FEATURES, NUMBER_FUNCTIONS
from tacenda.data.columns import Column, FeatureRule, NumericColumn, Pair, Part, distinct
from tacenda.data.label import Label, Survival
from tacenda.data.libsvm import existing
from tacenda.data.schema_toml import to_toml, without_usual
from tacenda.errors import InputError, PrivacyError
from tacenda.formats.files import write_text
from tacenda.formats.text import canonical_json, from_toml

DEFAULT_MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
DRAFT = ", or make one with `tacenda schema draft FILE --label COLUMN`"


class UnconfirmedSchemaWarning(UserWarning):
    """A schema holds values that were read from the data and not yet confirmed as public."""


class Schema(Part):
    """Public description of a table: columns, label and missing values.

    Every encoded row is divided by one public number that follows from the declarations
    (`row_scale`), so that no row has a norm above 1. Nothing in it may be learnt from the records:
    a bound or a level read from private data leaks it.

    Parameters
    ----------
    name : str, default="table"
        Name of the table.
    notes : str, default=""
        Free text.
    columns : tuple of NumericColumn or CategoricalColumn
        In feature order.
    label : Label
        The column to predict; left out where it is the time until an event, as [survival] says.
    node_column : str or None, default=None
        The column that names the holder of each record. Declared among the columns too, with its
        levels, it gives each holder an intercept of its own.
    person : str or None, default=None
        The column with the id of the person behind each record, where a person is to be the unit
        of the guarantee. It is never a feature.
    missing : {"drop", "impute", "error"}, default="drop"
        "drop" leaves such records out, "impute" needs a public `impute` in every column,
        "error" refuses them.
    missing_values : tuple of str, optional
        Texts that count as missing, beside an empty cell or a null.
    row_norm : float or None, default=None
        Longer rows are shortened to this norm, in training and in prediction. None, or a number
        that no row can exceed, shortens none. Where rows may be shortened, coefficients have no
        original units, and there are no intervals.
    intercept : bool, default=False
        A constant feature of value 1. Ordered classes and survival always have it.
    survival : Survival or None, default=None
        Columns of time and event, and the time points at which survival is estimated.
    pairs : tuple of (str, str), default=()
        Pairs of columns which an additive model learns together: the products of a few functions of
        each, beside the columns' own.

    Examples
    --------
    >>> import tacenda as tc
    >>> schema = tc.data.Schema.build(
    ...     columns=[{"kind": "numeric", "name": "age", "low": 0, "high": 100}],
    ...     label={"name": "ill", "classes": ["no", "yes"]},
    ... )
    >>> schema.feature_names, schema.unconfirmed
    (('age',), ())
    """

    name: str = "table"
    notes: str = ""
    columns: tuple[Column, ...] = Field(min_length=1)
    label: Label
    node_column: str | None = None
    person: str | None = None
    missing: Literal["drop", "impute", "error"] = "drop"
    missing_values: tuple[str, ...] = DEFAULT_MISSING
    row_norm: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    intercept: bool = False
    survival: Survival | None = None
    pairs: tuple[tuple[str, str], ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _label_of_survival(cls, values: Any) -> Any:
        """A schema with [survival] and without [label] predicts the former."""
        if not isinstance(values, dict) or not isinstance(values.get("survival"), (dict, Survival)):
            return values
        if values.get("label") is None:
            asked = Survival.model_validate(values["survival"])
            label = Label(name=asked.event, classes=asked.cells, survival=True)
            values = {**values, "label": label}
        return values

    @field_validator("columns")
    @classmethod
    def _names(cls, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        distinct("columns", [column.name for column in columns])
        return columns

    @model_validator(mode="after")
    def _whole(self) -> Schema:
        names = [column.name for column in self.columns]
        if self.label.stacked and not self.intercept:
            object.__setattr__(self, "intercept", True)
        if self.label.survival:
            if self.survival is None or self.label.classes != self.survival.cells:
                raise ValueError("survival is a label only where [survival] says its points")
            if self.survival.time in names:
                raise ValueError(
                    f"the time {self.survival.time!r} must not be among the columns too; remove it "
                    "there"
                )
        for pair in self.pairs:
            if pair[0] == pair[1] or not set(pair) <= set(names):
                raise ValueError(f"pairs must name two different columns each, not {list(pair)}")
        distinct("pairs", [" and ".join(sorted(pair)) for pair in self.pairs])
        roles: tuple[tuple[str, str | None], ...] = (
            ("label", self.label.name),
            ("node_column", self.node_column),
            ("person", self.person),
        )
        if self.person is not None and self.person in (self.label.name, self.node_column):
            raise ValueError(
                f"person {self.person!r} must be a column of its own, not the label's or the "
                "node's; name the column with the persons' ids"
            )
        held_by = next((c for c in self.columns if c.name == self.node_column), None)
        if held_by is not None and held_by.kind == "categorical":
            roles = tuple(part for part in roles if part[0] != "node_column")
        for role, used in roles:
            if used in names:
                raise ValueError(
                    f"{role} {used!r} must not be among the columns too; remove it there"
                )
        if self.missing == "impute":
            bare = [
                column.name
                for column in self.columns
                if column.impute is None and not column.missing_indicator
            ]
            if bare:
                raise ValueError(
                    "missing = 'impute' needs a public impute value in every column; "
                    f"{bare} have none"
                )
        return self

    @classmethod
    def build(cls, **fields: Any) -> Schema:
        """Make a schema; wrong fields give an error of one sentence."""
        try:
            return cls(**fields)
        except ValidationError as error:
            raise InputError(_sentence(error)) from None

    @classmethod
    def from_toml(cls, text: str) -> Schema:
        """Read a schema from TOML text."""
        try:
            return cls.build(**from_toml(text))
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"the schema is not valid TOML: {error}.") from None

    @classmethod
    def read(cls, path: str | Path) -> Schema:
        """Read a schema from a TOML file."""
        try:
            return cls.from_toml(existing(path, DRAFT).read_text("utf-8"))
        except UnicodeDecodeError:
            raise InputError(
                f"the schema {str(path)!r} must be UTF-8 text; save it in that encoding."
            ) from None

    def to_toml(self) -> str:
        """The schema as TOML text; values that are not confirmed carry a comment."""
        return to_toml(self)

    def write(self, path: str | Path) -> None:
        """Write the schema to a TOML file."""
        write_text(path, self.to_toml())

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of all encoded features, in order, the intercept last."""
        return tuple(rule.feature for rule in self.rules)

    @property
    def rules(self) -> tuple[FeatureRule, ...]:
        """How each feature follows from the raw values, before rows are shortened, if any is."""
        found = [rule for column in self.columns for rule in column.rules]
        for pair in self.paired:
            found += pair.rules
        if self.intercept:
            found.append(FeatureRule("intercept", None, "1", 0.0, 1.0))
        s = self.row_scale
        return tuple(replace(rule, offset=rule.offset / s, slope=rule.slope / s) for rule in found)

    @property
    def largest_norm(self) -> float:
        """The largest norm that an encoded row can have, before it is divided."""
        blocks = len(self.pairs) + float(self.intercept)  # the others, of norm 1
        return math.sqrt(sum(c.largest_square for c in self.columns) + blocks)

    @property
    def paired(self) -> tuple[Pair, ...]:
        """The pairs, in order, each with its two columns."""
        named = {column.name: column for column in self.columns}
        return tuple(Pair(named[first], named[second]) for first, second in self.pairs)

    @property
    def additive(self) -> bool:
        """Whether a column is a curve, or a pair a surface: coefficients then have no unit."""
        hats = any(isinstance(c, NumericColumn) and c.basis is not None for c in self.columns)
        return hats or bool(self.pairs)

    def as_model(self, model: str = "linear", functions: int | None = None) -> Schema:
        """Make the schema that of a model.

        For a linear one it is as it is declared. For an additive one hat functions take the place
        of every number whose declaration leaves it open and that has more than two values, and
        there is a constant. Nothing is read from records, and an additive schema stays what it is.

        model: "linear" or "additive". functions: hats of such a number; None: 32, for labels that
        are numbers 24, or as many as keep all features within 1000.

        Examples
        --------
        >>> import tacenda as tc
        >>> schema = tc.data.Schema.build(
        ...     columns=[{"kind": "numeric", "name": "age", "low": 0, "high": 100}],
        ...     label={"name": "ill", "classes": ["no", "yes"]},
        ... )
        >>> len(schema.as_model("additive").feature_names)
        33
        """
        if model == "auto":
            raise InputError(
                "model 'auto' is decided from how many records there are; name 'linear' or "
                "'additive' here (`tacenda plan --data FILE --model auto` says which it takes)."
            )
        if one_of("model", model, ("linear", "additive")) == "linear":
            return self
        if functions is None:
            least = self.as_model(model, LEAST_FUNCTIONS)
            even = [column for column in self._open.values() if column.breaks is None]
            spare = (MOST_FEATURES - len(least.rules)) // max(1, len(even))
            usual = FUNCTIONS if self.label.classes else NUMBER_FUNCTIONS
            functions = min(usual, LEAST_FUNCTIONS + max(0, spare))
        columns = list(self.columns)
        for k, column in self._open.items():
            columns[k] = column.model_copy(update={"hats": functions})
        return self.model_copy(update={"columns": tuple(columns), "intercept": True})

    @property
    def _open(self) -> dict[int, NumericColumn]:
        """The numbers of which an additive model makes curves, by position."""
        numbers = {k: c for k, c in enumerate(self.columns) if isinstance(c, NumericColumn)}
        return {k: c for k, c in numbers.items() if c.hats is None and not c.two_valued}

    @property
    def row_scale(self) -> float:
        """The number by which every row is divided: `largest_norm`, or a smaller `row_norm`."""
        largest = self.largest_norm
        return largest if self.row_norm is None else min(self.row_norm, largest)

    @property
    def shortened_by(self) -> float:
        """The largest factor by which a row may be shortened; 1 where none is."""
        return self.largest_norm / self.row_scale

    @property
    def unconfirmed(self) -> tuple[str, ...]:
        """Names of the columns (and label) whose values are not confirmed as public."""
        parts = [*self.columns, self.label]
        return tuple(part.name for part in parts if not part.confirmed)

    def confirmed(self) -> Schema:
        """The same schema with every value declared public: the caller is responsible for that."""
        columns = tuple(column.model_copy(update={"confirmed": True}) for column in self.columns)
        return self.model_copy(
            update={"columns": columns, "label": self.label.model_copy(update={"confirmed": True})}
        )

    def require_confirmed(self) -> None:
        """Refuse a schema that holds values read from the data."""
        if self.unconfirmed:
            raise PrivacyError(
                f"schema {self.name!r} has values read from the data in {list(self.unconfirmed)}; "
                "check that they are public and set confirmed = true there."
            )

    def hash(self) -> str:
        """SHA-256 over the canonical JSON of everything that shapes the encoding.

        Name, notes, confirmations, their sources and reference levels are left out: two nodes with
        equal hashes encode equal records equally. So is every later field at its usual value, so
        that schemas which do not name it keep the hash that they had before it could be named.

        Result: 64 hexadecimal digits.
        """
        fields = self.model_dump(mode="json", exclude={"name": True, "notes": True})
        for field in ("person", "survival", "pairs"):
            if not fields[field]:
                del fields[field]
        for part in [*fields["columns"], fields["label"]]:
            del part["confirmed"], part["source"]
            part.pop("reference", None)
            if "unknown" in part:  # the same encoding
                part["unknown"] = part["unknown"] or "error"
            without_usual(part)
            if part.get("scale_to") in (None, "unit"):
                part.pop("scale_to", None)
        return hashlib.sha256(canonical_json(fields).encode()).hexdigest()


def _sentence(error: ValidationError) -> str:
    """The first of pydantic's complaints, as one sentence with its place."""
    first = error.errors()[0]
    place = ".".join(str(step) for step in first["loc"]) or "schema"
    return (
        f"schema field {place}: {first['msg'].removeprefix('Value error, ')}; "
        "correct it in the schema file."
    )
