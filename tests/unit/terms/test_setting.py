"""What follows from a field that is a setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge

from tacenda.terms.setting import setting, settings


@pytest.mark.parametrize(
    ("kind", "said", "flag"),
    [
        (Annotated[int, Ge(0)], {}, int),
        (Annotated[float, Ge(0)] | None, {}, float),
        (bool | None, {}, bool),
        (str, {}, str),
        (Literal["full", "none"], {}, str),
        (Annotated[int, Ge(0)] | Literal["exact"], {}, str),
        (Annotated[int, Ge(0)] | Literal["auto"], {"typed": int}, int),
    ],
)
def test_a_flag_takes_what_its_setting_takes(kind: Any, said: dict[str, Any], flag: type) -> None:
    @dataclass
    class Term:
        one: Any = setting(None, kind=kind, help="", **said)

    (found,) = settings(Term)
    assert found.typed is flag
