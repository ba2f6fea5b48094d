"""A setting of a run: what is said about it once, and used wherever the setting is.

    class Method:
        rounds: int = setting(kind=Annotated[int, ...], flags=("--rounds", "-T"), help="...")

From a class with such fields follow

    SETTINGS         what was said of each, for flags, tables and reports
    given(Method, values)    what somebody has fixed, without what is left open
    with_settings            the same fields in a file or a contract (`terms.border`)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Auto = Literal["auto"]
AUTO: Auto = "auto"


def _as_it_is(value: Any) -> Any:
    return value


@dataclass(frozen=True, eq=False)
class Setting:
    """All that is said about a field.

    kind                  the type of a value in a file, for pydantic
    planned               whether it may be left to the planner, as "auto"
    help, flags, typed    for the command line
    title, words          its row in a report
    check(name, value)    the value, or an error that names it
    to_plain, from_plain  how a value is written to a file and read again
    names_run             whether runs that differ in it are two runs, with noise of their own
    """

    name: str
    kind: Any
    default: Any
    help: str
    planned: bool
    flags: tuple[str, ...]
    typed: Any
    title: str
    words: Callable[[Any], str]
    check: Callable[[str, Any], Any]
    to_plain: Callable[[Any], Any]
    from_plain: Callable[[Any], Any]
    names_run: bool


def setting(
    default: Any = dataclasses.MISSING,
    *,
    kind: Any,
    help: str,
    planned: bool = False,
    flags: tuple[str, ...] = (),
    typed: Any = str,
    title: str = "",
    words: Callable[[Any], str] = str,
    check: Callable[[str, Any], Any] | None = None,
    to_plain: Callable[[Any], Any] = _as_it_is,
    from_plain: Callable[[Any], Any] = _as_it_is,
    names_run: bool = True,
) -> Any:
    """A dataclass field that is a setting."""
    said = {
        "kind": kind,
        "help": help,
        "planned": planned,
        "flags": flags,
        "typed": typed,
        "title": title,
        "words": words,
        "check": check or (lambda name, value: value),
        "to_plain": to_plain,
        "from_plain": from_plain,
        "names_run": names_run,
    }
    return field(default=default, metadata={"setting": said})


def settings(term: Any) -> Iterator[Setting]:
    """The settings of a term, in their order."""
    for f in dataclasses.fields(term):
        if "setting" in f.metadata:
            default = None if f.default is dataclasses.MISSING else f.default
            said = f.metadata["setting"]
            yield Setting(f.name, default=default, **{**said, "title": said["title"] or f.name})


def given(term: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `values` that are settings and not left open, read from plain values."""
    return {
        s.name: s.from_plain(values[s.name])
        for s in settings(term)
        if values.get(s.name) is not None and values[s.name] != AUTO
    }
