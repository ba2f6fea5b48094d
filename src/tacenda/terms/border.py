"""Settings in files: pydantic models that get them from the term which describes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, create_model

from tacenda.terms.method import SETTINGS, Method
from tacenda.terms.setting import AUTO, Auto, given

Model = TypeVar("Model", bound=BaseModel)


class MethodSettings(BaseModel):
    """A part of a file that holds settings of the method."""

    def fixed_settings(self) -> dict[str, Any]:
        """The settings that are fixed here, without those that are left open."""
        plain = self.model_dump(mode="json")
        return given(Method, {s.name: plain[s.name] for s in SETTINGS})


def with_settings(open_as: str | None) -> Callable[[type[Model]], type[Model]]:
    """Give a model all settings of `Method` that it does not declare itself.

    open_as: "auto", "unset" or None: what the planner may choose is "auto" by default; every
    setting may be missing; or nothing is open, and each has the method's own default.
    """

    def add(model: type[Model]) -> type[Model]:
        fields: dict[str, Any] = {}
        for s in SETTINGS:
            if s.name in model.model_fields:
                continue
            if open_as == "unset":
                fields[s.name] = (s.kind | Auto | None, None)
            elif s.planned and open_as == AUTO:
                fields[s.name] = (s.kind | Auto, AUTO)
            else:
                fields[s.name] = (s.kind if s.default is not None else s.kind | None, s.default)
        made: Any = create_model(
            model.__name__,
            __base__=model,
            __doc__=model.__doc__,
            __module__=model.__module__,
            **fields,
        )
        return made  # type: ignore[no-any-return]

    return add
