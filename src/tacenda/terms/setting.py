"""A setting of a run: what is said about it once, and used wherever the setting is.

    class Method:
        rounds: int = setting(kind=Annotated[int, ...], flags=("--rounds", "-T"), help="...")

From a class with such fields follow

    settings(Method)         what was said of each, for flags, tables, reports and reference pages
    given(Method, values)    what somebody has fixed, without what is left open
    with_settings            the same fields in a file or a contract (`terms.border`)

A setting goes every way in, unless `left_out` names a way and the reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

Auto = Literal["auto"]
AUTO: Auto = "auto"
Way = Literal["file", "flag", "contract"]
UNSTATED = dataclasses.MISSING


def _as_it_is(value: Any) -> Any:
    return value


def _unchecked(name: str, value: Any) -> Any:
    return value


@dataclass(frozen=True, eq=False, kw_only=True)
class Setting:
    """All that is said about a field.

    key                   its name in a file, where a class cannot have an attribute of that name
    kind                  the type of a value in a file, for pydantic
    default, required     of an object: its default, or that there is none
    assumed               the default in a file, where an object must be given one or has another
    agreed                (kind, default) in a contract, where these differ; a default of UNSTATED
                          makes it required there
    planned               whether it may be left to the planner, as "auto"
    takes_auto            whether "auto" is a value of its own, which the run itself fills in
    help, flags           for the command line
    typed                 the type of its flag, where that is not a number or a switch by `kind`,
                          or else text
    about, written        a longer text than `help` and the type in words, for reference pages
    title, words          its row in a report
    check(name, value)    the value, or an error that names it
    to_plain, from_plain  how a value is written to a file and read again
    later                 whether it is younger than files and hashes that count: its default is not
                          written, so that these stay what they are
    names_run             whether runs that differ in it are two runs, with noise of their own
    left_out              {way: why the setting is not there}
    """

    kind: Any
    help: str
    name: str = ""
    key: str = ""
    default: Any = None
    required: bool = False
    assumed: Any = field(default_factory=lambda: UNSTATED)
    agreed: tuple[Any, Any] | None = None
    about: str = ""
    written: str = ""
    planned: bool = False
    takes_auto: bool = False
    flags: tuple[str, ...] = ()
    typed: Any = None
    title: str = ""
    words: Callable[[Any], str] = str
    check: Callable[[str, Any], Any] = _unchecked
    to_plain: Callable[[Any], Any] = _as_it_is
    from_plain: Callable[[Any], Any] = _as_it_is
    later: bool = False
    names_run: bool = True
    left_out: Mapping[Way, str] = field(default_factory=dict)

    @property
    def parameter(self) -> str:
        """The name of its flag, as a parameter of a command."""
        first = self.flags[0] if self.flags else self.name
        return first.split("/")[0].strip("-").replace("-", "_")


def setting(default: Any = UNSTATED, **said: Any) -> Any:
    """A dataclass field that is a setting; said: all but its name, as `Setting` has it."""
    metadata = {"setting": Setting(**said)}
    if isinstance(default, dict | list):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def settings(term: Any, way: Way | None = None) -> tuple[Setting, ...]:
    """The settings of a term in their order, or those of them that go one way in."""
    return tuple(s for s in _all(term) if way not in s.left_out)


def _all(term: Any) -> Iterator[Setting]:
    for f in dataclasses.fields(term):
        said: Setting | None = f.metadata.get("setting")
        if said is None:
            continue
        made = f.default if f.default_factory is UNSTATED else f.default_factory()
        default = None if made is UNSTATED else made
        yield replace(
            said,
            name=f.name,
            key=said.key or f.name,
            title=said.title or f.name,
            about=said.about or said.help,
            typed=said.typed or _flag_type(said.kind),
            default=default,
            required=made is UNSTATED,
            assumed=default if said.assumed is UNSTATED else said.assumed,
        )


def _flag_type(kind: Any) -> Any:
    """The one kind of number, or the switch, that a setting takes; else text, read later."""
    parts = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    bare = {get_args(p)[0] if get_origin(p) is Annotated else p for p in parts} - {NoneType}
    (only, *more) = bare
    return only if not more and only in (int, float, bool) else str


def given(term: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `values` that are settings and not left open, read from plain values."""
    return {
        s.name: s.from_plain(values[s.name])
        for s in settings(term)
        if values.get(s.name) is not None and (s.takes_auto or values[s.name] != AUTO)
    }


def plain(term: Any, value: Any) -> dict[str, Any]:
    """Plain values of the settings of a term, which an object holds."""
    found = {s: s.to_plain(getattr(value, s.name)) for s in settings(term)}
    return {s.name: said for s, said in found.items() if not (s.later and said == s.default)}
