"""The public description of a table: which columns, which bounds, which levels, which labels.

Nothing here may be learnt from the records: a bound or a level read off private data leaks it. A
drafted schema therefore marks such values `confirmed = false` until somebody who knows the field
confirms that they are public.
"""

from __future__ import annotations

import hashlib
import math
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from tacenda.errors import InputError, PrivacyError
from tacenda.formats.files import write_text
from tacenda.formats.text import canonical_json

DEFAULT_MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")


class UnconfirmedSchemaWarning(UserWarning):
    """A schema holds values that were read off the data and not yet confirmed as public."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NumericColumn(_Part):
    """A number, clipped to [low, high] and scaled; `impute` is the public stand-in for a missing
    one.

    scale_to: "unit" is [0, 1] (a value at `low` costs no norm: right where most values lie there,
    as counts do), "symmetric" is [-1, 1] (a value in the middle costs none: right otherwise, and
    far quicker to learn from).
    """

    kind: Literal["numeric"] = "numeric"
    name: str = Field(min_length=1)
    low: float
    high: float
    scale_to: Literal["unit", "symmetric"] = "unit"
    impute: float | None = None
    confirmed: bool = True

    @model_validator(mode="after")
    def _bounds(self) -> NumericColumn:
        _ordered(self.name, self.low, self.high)
        if self.impute is not None and not self.low <= self.impute <= self.high:
            span = f"[{self.low:g}, {self.high:g}]"
            raise ValueError(
                f"column {self.name!r}: impute must lie in {span}, not {self.impute:g}"
            )
        return self

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the encoded features."""
        return (self.name,)


class CategoricalColumn(_Part):
    """One of the declared levels, one-hot; an undeclared one gets a column of its own ("column") or
    is an error."""

    kind: Literal["categorical"] = "categorical"
    name: str = Field(min_length=1)
    levels: tuple[str, ...] = Field(min_length=1)
    unknown: Literal["column", "error"] = "error"
    impute: str | None = None
    confirmed: bool = True

    @model_validator(mode="after")
    def _levels(self) -> CategoricalColumn:
        _distinct(f"column {self.name!r}: levels", self.levels)
        if self.impute is not None and self.impute not in self.levels:
            raise ValueError(
                f"column {self.name!r}: impute must be one of its levels, not {self.impute!r}"
            )
        return self

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the encoded features, `name=level`."""
        extra = (f"{self.name}=<other>",) if self.unknown == "column" else ()
        return tuple(f"{self.name}={level}" for level in self.levels) + extra


class Label(_Part):
    """The column to predict: `classes` for classification (codes follow their order), or numeric
    bounds.

    scale_to (numbers only): None keeps the label's own unit; "symmetric" maps [low, high] to [-1,
    1], which suits clipped gradients and Huber's threshold, and `tacenda predict` maps back.
    """

    name: str = Field(min_length=1)
    classes: tuple[str, ...] | None = None
    low: float | None = None
    high: float | None = None
    scale_to: Literal["symmetric"] | None = None
    confirmed: bool = True

    @model_validator(mode="after")
    def _one_kind(self) -> Label:
        bounds = self.low is not None and self.high is not None
        if (self.classes is None) == (not bounds) or (
            self.classes and (self.low is not None or self.high is not None)
        ):
            raise ValueError(f"label {self.name!r}: give either classes or both low and high")
        if self.classes is not None:
            if len(self.classes) < 2:
                raise ValueError(
                    f"label {self.name!r}: classes must name at least two, not {len(self.classes)}"
                )
            if self.scale_to is not None:
                raise ValueError(
                    f"label {self.name!r}: scale_to is for numbers; "
                    "leave it out where there are classes"
                )
            _distinct(f"label {self.name!r}: classes", self.classes)
        elif self.low is not None and self.high is not None:
            _ordered(self.name, self.low, self.high)
        return self

    @property
    def centre_and_reach(self) -> tuple[float, float]:
        """(a, b) of value = a + b * encoded; (0, 1) where the label keeps its unit."""
        if self.scale_to is None or self.low is None or self.high is None:
            return 0.0, 1.0
        return (self.low + self.high) / 2, (self.high - self.low) / 2


Column = Annotated[NumericColumn | CategoricalColumn, Field(discriminator="kind")]


class Schema(_Part):
    """Columns in feature order, label, node column, missing-value policy and the norm bound of an
    encoded row.

    missing: "drop" leaves such records out, "impute" needs a public `impute` in every column,
    "error" refuses them; an empty cell or a null is always missing, beside the texts in
    `missing_values`. intercept: a constant feature, added before the row is clipped to `row_norm`,
    hence inside the bound.
    """

    name: str = "table"
    notes: str = ""
    columns: tuple[Column, ...] = Field(min_length=1)
    label: Label
    node_column: str | None = None
    missing: Literal["drop", "impute", "error"] = "drop"
    missing_values: tuple[str, ...] = DEFAULT_MISSING
    row_norm: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    intercept: bool = False

    @field_validator("columns")
    @classmethod
    def _names(cls, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        _distinct("columns", [column.name for column in columns])
        return columns

    @model_validator(mode="after")
    def _whole(self) -> Schema:
        names = [column.name for column in self.columns]
        for role, used in (("label", self.label.name), ("node_column", self.node_column)):
            if used in names:
                raise ValueError(
                    f"{role} {used!r} must not be among the columns too; remove it there"
                )
        if self.missing == "impute":
            bare = [column.name for column in self.columns if column.impute is None]
            if bare:
                raise ValueError(
                    "missing = 'impute' needs a public impute value in every column; "
                    f"{bare} have none"
                )
        return self

    @classmethod
    def build(cls, **fields: Any) -> Schema:
        """The same as the constructor, with one-sentence errors."""
        try:
            return cls(**fields)
        except ValidationError as error:
            raise InputError(_sentence(error)) from None

    @classmethod
    def from_toml(cls, text: str) -> Schema:
        """A schema from TOML text."""
        try:
            return cls.build(**tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"the schema is not valid TOML: {error}.") from None

    @classmethod
    def read(cls, path: str | Path) -> Schema:
        """A schema from a TOML file."""
        from tacenda.data.libsvm import existing

        try:
            return cls.from_toml(existing(path).read_text("utf-8"))
        except UnicodeDecodeError:
            raise InputError(
                f"the schema {str(path)!r} must be UTF-8 text; save it in that encoding."
            ) from None

    def to_toml(self) -> str:
        """TOML text; values that still await confirmation carry a comment."""
        from tacenda.data.schema_toml import to_toml

        return to_toml(self)

    def write(self, path: str | Path) -> None:
        """`to_toml` into a file."""
        write_text(path, self.to_toml())

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of all encoded features, in order, the intercept last."""
        names = tuple(feature for column in self.columns for feature in column.features)
        return (*names, "intercept") if self.intercept else names

    @property
    def unconfirmed(self) -> tuple[str, ...]:
        """Names of the columns (and label) whose values still await confirmation."""
        parts = [*self.columns, self.label]
        return tuple(part.name for part in parts if not part.confirmed)

    def confirmed(self) -> Schema:
        """The same schema with every value declared public: the caller vouches for it."""
        columns = tuple(column.model_copy(update={"confirmed": True}) for column in self.columns)
        return self.model_copy(
            update={"columns": columns, "label": self.label.model_copy(update={"confirmed": True})}
        )

    def require_confirmed(self) -> None:
        """Refuse a schema that holds values read off the data."""
        if self.unconfirmed:
            raise PrivacyError(
                f"schema {self.name!r} has values read off the data in {list(self.unconfirmed)}; "
                "check that they are public and set confirmed = true there."
            )

    def hash(self) -> str:
        """SHA-256 over the canonical JSON of everything that shapes the encoding.

        Name, notes and confirmations are left out: two nodes with equal hashes encode equal records
        equally. So is the usual scale, so that schemas which do not name it keep the hash that they
        had before it could be named.
        """
        fields = self.model_dump(mode="json", exclude={"name": True, "notes": True})
        for part in [*fields["columns"], fields["label"]]:
            del part["confirmed"]
            if part.get("scale_to") in (None, "unit"):
                part.pop("scale_to", None)
        return hashlib.sha256(canonical_json(fields).encode()).hexdigest()


def _ordered(name: str, low: float, high: float) -> None:
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(
            f"column {name!r}: low must be below high, both finite, not {low:g} and {high:g}"
        )


def _distinct(what: str, words: Any) -> None:
    twice = sorted({word for word in words if list(words).count(word) > 1})
    if twice:
        raise ValueError(f"{what} must be distinct, but {twice} occur more than once")


def _sentence(error: ValidationError) -> str:
    """The first of pydantic's complaints, as one sentence with its place."""
    first = error.errors()[0]
    place = ".".join(str(step) for step in first["loc"]) or "schema"
    return (
        f"schema field {place}: {first['msg'].removeprefix('Value error, ')}; "
        "correct it in the schema file."
    )
