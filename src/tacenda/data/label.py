"""What a schema predicts: a class, a number, or the time until an event."""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import Field, model_validator

from tacenda.data.columns import Part, distinct, ordered
from tacenda.errors import InputError


class Label(Part):
    """The column to predict: classes, or a number with public bounds.

    Parameters
    ----------
    name : str
        Name of the column in the table.
    classes : tuple of str or None, default=None
        For classification; codes follow their order.
    ordered : bool, default=False
        Whether the classes have an order, from the lowest to the highest.
    survival : bool, default=False
        Whether the label is the schema's [survival]: classes are then the cells of its life table.
        A schema with [survival] and without [label] has such a label.
    low : float or None, default=None
        Public lower bound, for regression.
    high : float or None, default=None
        Public upper bound, for regression.
    scale_to : {"symmetric"} or None, default=None
        For numbers. None keeps the label's own unit; "symmetric" maps [low, high] to [-1, 1],
        which suits clipped gradients and Huber's threshold. `tacenda predict` maps back.
    typical : float or None, default=None
        For counts (low = 0): a typical one, from public knowledge, in whose unit they are learnt.
        The fit starts from this rate for everybody. None is a typical count of 1.
    confirmed : bool, default=True
        Whether somebody confirmed that the values are public.
    source : str, default=""
        Where the values come from.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.data.Label(name="income", low=0, high=100, scale_to="symmetric").centre_and_reach
    (50.0, 50.0)
    """

    name: str = Field(min_length=1)
    classes: tuple[str, ...] | None = None
    ordered: bool = False
    survival: bool = False
    low: float | None = None
    high: float | None = None
    scale_to: Literal["symmetric"] | None = None
    typical: float | None = Field(default=None, gt=0.0, allow_inf_nan=False)
    confirmed: bool = True
    source: str = ""

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
            for field in ("scale_to", "typical"):
                if getattr(self, field) is not None:
                    raise ValueError(
                        f"label {self.name!r}: {field} is for numbers; "
                        "leave it out where there are classes"
                    )
            distinct(f"label {self.name!r}: classes", self.classes)
        elif self.ordered:
            raise ValueError(f"label {self.name!r}: ordered is for classes; leave it out")
        elif self.low is not None and self.high is not None:
            ordered(self.name, self.low, self.high)
            if self.typical is not None and (
                self.low != 0.0 or self.typical > self.high or self.scale_to is not None
            ):
                raise ValueError(
                    f"label {self.name!r}: typical is for counts from low = 0 to high, without "
                    f"scale_to; here low is {self.low:g}, high {self.high:g} and typical "
                    f"{self.typical:g}"
                )
        return self

    @property
    def stacked(self) -> bool:
        """Whether its usual loss asks several questions about a record, which need a constant."""
        return self.ordered or self.survival

    @property
    def usual_loss(self) -> str:
        """The loss that goes with the label, where none is named."""
        if self.stacked:
            return "discrete-hazard" if self.survival else "ordinal"
        if self.classes is None:
            return "huber"
        return "logistic" if len(self.classes) == 2 else "multinomial"

    def check_loss(self, where: str, loss: Any) -> None:
        """Refuse a loss that does not fit what is declared of the label."""
        wanted = {"order": self.ordered, "hazard": self.survival}
        if wanted.get(loss.predicts, not self.survival):
            return
        remedy = {
            "order": "declare ordered = true under [label], with the classes from low to high",
            "hazard": "declare [survival] with time, event and points, and leave [label] out",
        }.get(loss.predicts, "use 'discrete-hazard', or declare a [label]")
        raise InputError(
            f"{where} {loss.name!r} does not fit the schema's label {self.name!r}; {remedy}."
        )

    @property
    def encoded_range(self) -> tuple[float, float] | None:
        """Between which numbers encoded labels lie; None where no bounds are declared."""
        if self.low is None or self.high is None:
            return None
        centre, reach = self.centre_and_reach
        return (self.low - centre) / reach, (self.high - centre) / reach

    @property
    def centre_and_reach(self) -> tuple[float, float]:
        """(a, b) of value = a + b * encoded; (0, 1) where the label keeps its unit."""
        if self.typical is not None:
            return 0.0, self.typical
        if self.scale_to is None or self.low is None or self.high is None:
            return 0.0, 1.0
        return (self.low + self.high) / 2, (self.high - self.low) / 2


class Survival(Part):
    """Time until an event, or until a record was last seen without it.

    Parameters
    ----------
    time : str
        Name of the column with the time, above 0.
    event : str
        Name of the column that tells whether the event was seen.
    happened : tuple of str, default=("1",)
        Its values that mean that it was; all others mean that it was not.
    points : tuple of float
        Public time points, rising and above 0, at which survival is estimated.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.data.Survival(time="week", event="arrest", points=(13, 26, 39, 52)).happened
    ('1',)
    """

    time: str = Field(min_length=1)
    event: str = Field(min_length=1)
    happened: tuple[str, ...] = Field(default=("1",), min_length=1)
    points: tuple[float, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _rising(self) -> Survival:
        ends = (0.0, *self.points)
        if not all(math.isfinite(b) and a < b for a, b in zip(ends, ends[1:], strict=False)):
            raise ValueError(f"survival points must be rising and above 0, not {self.points}")
        return self

    @property
    def cells(self) -> tuple[str, ...]:
        """What a life table counts.

        Events by period, and records last seen without one by how many points they had reached.
        """
        by = [f"event by {point:g}" for point in self.points]
        return (*by, *(f"none, seen until {point:g}" for point in (0.0, *self.points)))

    @property
    def spellings(self) -> tuple[str, ...]:
        """`happened`, with whole numbers written as 1 and as 1.0, as typed tables have them."""
        found = list(self.happened)
        for value in self.happened:
            try:
                number = float(value)
            except ValueError:
                continue
            if number.is_integer():
                found += [str(number), str(int(number))]
        return tuple(dict.fromkeys(found))
