"""What is said about settings, as docstrings and reference pages show it."""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Container
from typing import Any, Literal, TypeVar, get_args, get_origin

from tacenda.terms.setting import AUTO, UNSTATED, Setting, settings

Term = TypeVar("Term", bound=type)
User = TypeVar("User")
MARK = "{settings}"
WIDTH = 92


def documented(term: Term) -> Term:
    """Put the settings of a term into its docstring, in the place of the line `{settings}`."""
    term.__doc__ = _filled(term, term)
    return term


def takes(term: Any, default: Any = UNSTATED) -> Callable[[User], User]:
    """Show the settings of a term, which a class or a function takes as keyword arguments, in its
    docstring and its signature; default: of all of them, in place of the term's."""

    def show(user: User) -> User:
        function: Any = user.__init__ if inspect.isclass(user) else user
        found = inspect.signature(function)
        own = [p for p in found.parameters.values() if p.kind is not p.VAR_KEYWORD]
        there = {p.name for p in own}
        shown = [
            inspect.Parameter(
                s.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=s.default if default is UNSTATED else default,
                annotation=written,
            )
            for s, written in _written_types(term)
            if s.name not in there
        ]
        first = sum(p.kind is not p.KEYWORD_ONLY for p in own)
        function.__signature__ = found.replace(parameters=[*own[:first], *shown, *own[first:]])
        user.__doc__ = _filled(user, term, there, default)
        return user

    return show


def _written_types(term: Any) -> list[tuple[Setting, str]]:
    types = {f.name: str(f.type) for f in dataclasses.fields(term)}
    return [(s, types[s.name]) for s in settings(term)]


def _filled(user: Any, term: Any, there: Container[str] = (), default: Any = UNSTATED) -> str:
    """A docstring with the settings of a term in their place, less those that are there already."""
    lines = []
    for s, written in _written_types(term):
        if s.name in there:
            continue
        value = s.default if default is UNSTATED else default
        lines.append(f"{s.name} : {_values(s, written, value)}")
        lines.append(textwrap.indent(textwrap.fill(s.about, WIDTH - 4), "    "))
    return inspect.cleandoc(user.__doc__ or "").replace(MARK, "\n".join(lines))


def _values(s: Setting, written: str, default: Any) -> str:
    """The type of a setting and its default, as numpydoc writes them."""
    if s.written:
        kind = s.written
    elif get_origin(s.kind) is Literal and "None" not in written:
        kind = "{" + ", ".join(f'"{value}"' for value in get_args(s.kind)) + "}"
    else:
        kind = written.replace(" | ", " or ").replace("[", " of ").replace("]", "").lower()
        kind = kind.replace("none", "None")
    if s.required and default is None:
        return kind
    if default is None and "None" not in kind:
        kind = kind.replace(" or ", ", ") + " or None"
    return f"{kind}, default={_written(default)}"


def _written(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def lines(section: str, term: Any) -> list[str]:
    """reStructuredText of a term's settings: what each is, its flag, and where it is not."""
    title = f"[{section}]"
    found = [title, "-" * len(title), ""]
    for s, written in _written_types(term):
        default = AUTO if s.planned else s.assumed
        found += [f"``{s.key}`` : {_values(s, written, default)}", f"   {s.about}"]
        if "flag" not in s.left_out:
            flags = s.flags or (f"--{s.name.replace('_', '-')}",)
            found.append(f"   Flag: {', '.join(f'``{flag}``' for flag in flags)}.")
        found += [f"   Not in a {way}: {why}." for way, why in s.left_out.items()]
        found.append("")
    return found
