"""Settings in files: pydantic models that get them from the term which describes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, Field, create_model

from tacenda.terms.method import SETTINGS, Method
from tacenda.terms.setting import AUTO, UNSTATED, Auto, Setting, given, settings

Model = TypeVar("Model", bound=BaseModel)


class MethodSettings(BaseModel):
    """A part of a file that holds settings of the method."""

    def fixed_settings(self) -> dict[str, Any]:
        """The settings that are fixed here, without those that are left open."""
        plain = self.model_dump(mode="json")
        return given(Method, {s.name: plain[s.name] for s in SETTINGS})

    def method_of(self, algorithm: Any) -> Method:
        """The method of an algorithm with the settings that are fixed here."""
        return Method(algorithm, **self.fixed_settings())


def with_settings(
    term: Any, way: Literal["file", "contract"], open_as: str | None = None
) -> Callable[[type[Model]], type[Model]]:
    """Give a model all settings of a term that go this way and that it does not declare itself.

    open_as: "auto", "unset" or None: what the planner may choose is "auto" by default; every
    setting may be missing; or nothing is open, and each has the term's own default.
    """

    def add(model: type[Model]) -> type[Model]:
        fields: dict[str, Any] = {}
        for s in settings(term, way):
            if s.name not in model.model_fields:
                kind, default = _field(s, way, open_as)
                alias = None if s.key == s.name else s.key
                fields[s.name] = kind, Field(default, alias=alias)
        made: Any = create_model(
            model.__name__,
            __base__=model,
            __doc__=model.__doc__,
            __module__=model.__module__,
            **fields,
        )
        return made

    return add


def _field(s: Setting, way: str, open_as: str | None) -> tuple[Any, Any]:
    """(type, default) of a setting in a file or a contract."""
    if open_as == "unset":
        return s.kind | Auto | None, None
    if s.planned and open_as == AUTO:
        return s.kind | Auto, AUTO
    if way == "file":
        kind, default = s.kind, s.assumed
    else:
        kind, default = s.agreed or (s.kind, UNSTATED if s.required else s.default)
    if default is UNSTATED:
        return kind, ...
    return (kind if default is not None else kind | None), default


def stated(term: Any, part: BaseModel) -> dict[str, Any]:
    """The settings of a term that a part of a file or a contract has, read from its plain values;
    what is not there has the term's default."""
    return {
        s.name: s.from_plain(getattr(part, s.name))
        for s in settings(term)
        if s.name in type(part).model_fields
    }
