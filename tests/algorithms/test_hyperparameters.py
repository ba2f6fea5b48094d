"""Every hyperparameter of every algorithm refuses what means nothing, by its name."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from tacenda.algorithms.registry import ALGORITHMS, by_name
from tacenda.algorithms.support import support
from tacenda.errors import InputError

FIELDS = [
    (name, field.name)
    for name, cls in ALGORITHMS.items()
    for field in dataclasses.fields(cls)
    if not isinstance(field.default, bool)
]


@pytest.mark.parametrize(("name", "field"), FIELDS)
@pytest.mark.parametrize("value", [math.nan, -1.0, math.inf, "nonsense", None])
def test_nonsense_is_refused_by_name(name: str, field: str, value: Any) -> None:
    cls = ALGORITHMS[name]
    default = next(f.default for f in dataclasses.fields(cls) if f.name == field)
    if value is None and default is None:
        pytest.skip("None is this field's own way to say: all records, or no limit")
    with pytest.raises(InputError, match=rf"{cls.__name__}\.{field}\b"):
        cls(**{field: value})


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_unknown_hyperparameter_is_named(name: str) -> None:
    with pytest.raises(InputError, match=f"hyperparameter of {ALGORITHMS[name].__name__}"):
        by_name(name, nonsense=1.0)


def test_a_row_of_support_names_its_parts() -> None:
    row = support("dvp", "logistic", "l2")
    assert (row.algorithm, row.loss, row.regulariser) == ("dvp", "logistic", "l2")


def test_a_name_may_be_written_as_the_papers_write_it() -> None:
    for written in ("IP-ADMM", "ip-admm", "IPADMM", "I-P-A-D-M-M"):
        assert by_name(written, inner_steps=4) == ALGORITHMS["ipadmm"](inner_steps=4)
    with pytest.raises(InputError, match="Did you mean 'ipadmm'"):
        by_name("ipadm")
