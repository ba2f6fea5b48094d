"""Every public name is documented: what `help(name)` shows is complete, agrees with the signature,
and its example runs."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import inspect
from collections.abc import Iterator
from functools import cached_property
from types import ModuleType
from typing import Any

import pytest
from numpydoc.docscrape import NumpyDocString

MODULES = (
    "tacenda",
    "tacenda.accounting",
    "tacenda.algorithms",
    "tacenda.auditing",
    "tacenda.checks",
    "tacenda.data",
    "tacenda.data.features",
    "tacenda.data.partition",
    "tacenda.engines",
    "tacenda.errors",
    "tacenda.evaluation",
    "tacenda.graph",
    "tacenda.inference",
    "tacenda.losses",
    "tacenda.planning",
    "tacenda.regularisers",
    "tacenda.report",
    "tacenda.schedules",
    "tacenda.selection",
    "tacenda_node.evidence",
    "tacenda_papers.theory",
)
# What public functions return, and what is therefore looked up by its readers
RETURNED = {
    "Coefficient": "tacenda.evaluation.coefficients",
    "CoefficientTable": "tacenda.evaluation.coefficients",
    "Fitted": "tacenda.runs.application",
    "History": "tacenda.runtime.history",
    "Statement": "tacenda.privacy.statement",
    "Description": "tacenda.data.partition_view",
}
MOST_IN_PROSE = 4  # parameters of a method that needs no sections
# Examples that take more than a second: they run with the slow tests
LONG_EXAMPLES = {"Fitted", "audit", "compare"}


def _named(module: ModuleType) -> list[str]:
    listed = getattr(module, "__all__", None)
    return listed or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]


def _public() -> dict[str, Any]:
    """Name -> class or function, each object once."""
    found: dict[int, tuple[str, Any]] = {}
    for module in map(importlib.import_module, MODULES):
        for name in _named(module):
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                found.setdefault(id(value), (f"{value.__module__}.{name}", value))
    for name, home in RETURNED.items():
        value = getattr(importlib.import_module(home), name)
        found.setdefault(id(value), (f"{value.__module__}.{name}", value))
    return dict(found.values())


PUBLIC = _public()


def _parameters(function: Any) -> list[str]:
    star = {inspect.Parameter.VAR_KEYWORD: "**", inspect.Parameter.VAR_POSITIONAL: "*"}
    return [
        star.get(parameter.kind, "") + name
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in ("self", "cls")
    ]


def _summary(doc: NumpyDocString) -> Iterator[str]:
    summary = doc["Summary"]
    if len(summary) != 1 or not summary[0].strip():
        yield "the summary must be one line"
    elif not summary[0].rstrip().endswith((".", "...")):
        yield "the summary must end with a full stop"


def _sections(doc: NumpyDocString) -> Iterator[str]:
    for section in ("Parameters", "Attributes", "Returns", "Raises"):
        for entry in doc[section]:
            if not " ".join(entry.desc).strip():
                yield f"{section}: {entry.name or entry.type} is not described"
            if section in ("Parameters", "Attributes") and not entry.type:
                yield f"{section}: {entry.name} has no type"


def _of_function(function: Any) -> Iterator[str]:
    """Sections belong to what a user calls. The summary says what is returned, so `Returns` is for
    what it leaves out."""
    doc = NumpyDocString(inspect.getdoc(function) or "")
    yield from _summary(doc)
    yield from _sections(doc)
    wanted, described = _parameters(function), [entry.name for entry in doc["Parameters"]]
    if wanted != described:
        yield f"Parameters: {described} instead of {wanted}"


def _of_method(function: Any) -> Iterator[str]:
    """A method of at most MOST_IN_PROSE parameters may tell of them in a sentence."""
    doc = NumpyDocString(inspect.getdoc(function) or "")
    if doc["Parameters"] or len(_parameters(function)) > MOST_IN_PROSE:
        yield from _of_function(function)
    else:
        yield from _summary(doc)
        yield from _sections(doc)


def _of_class(kind: type) -> Iterator[str]:
    doc = NumpyDocString(inspect.cleandoc(kind.__doc__ or ""))
    yield from _summary(doc)
    yield from _sections(doc)
    if issubclass(kind, Exception):
        return
    described = [entry.name for entry in doc["Parameters"]]
    attributes = [entry.name for entry in doc["Attributes"]]
    wanted = [] if getattr(kind, "_is_protocol", False) else _parameters(kind)
    if described and described != wanted:
        yield f"Parameters: {described} instead of {wanted}"
    # What functions return, and nobody makes, describes its fields as attributes
    if not described and not set(wanted) <= set(attributes):
        yield f"neither Parameters nor Attributes have {sorted(set(wanted) - set(attributes))}"
    known = {name for parent in kind.__mro__ for name in getattr(parent, "__annotations__", ())}
    source = inspect.getsource(kind)
    yield from (
        f"Attributes: {name} is none"
        for name in attributes  # scikit-learn's `coef_` and others exist after `fit` only
        if not name.endswith("_")
        and name not in known
        and not hasattr(kind, name)
        and f"self.{name}" not in source
    )


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties which this class itself defines, or inherits from a private
    one; those of a public parent are looked at there."""
    for name in dir(kind):
        if name.startswith("_"):
            continue
        owner = next((k for k in kind.__mro__ if name in vars(k)), None)
        if owner is None or not owner.__module__.startswith("tacenda"):
            continue
        value = vars(owner)[name]
        value = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if inspect.isfunction(value) or isinstance(value, (property, cached_property)):
            yield name, value


def _inherited(kind: type, name: str) -> bool:
    """Whether a parent documents the method already: what overrides it may say what differs."""
    owners = [k for k in kind.__mro__ if name in vars(k) and k.__module__.startswith("tacenda")]
    return len(owners) > 1


def _of_interface(kind: type, name: str) -> bool:
    """Whether an abstract class defines the method: authors fill it and users do not call it, so
    that a sentence is enough."""
    return inspect.isabstract(next(k for k in kind.__mro__ if name in vars(k)))


def _shortcomings(kind: type) -> Iterator[str]:
    attributes = {
        entry.name
        for parent in kind.__mro__
        if parent.__module__.startswith("tacenda")
        for entry in NumpyDocString(inspect.cleandoc(parent.__doc__ or ""))["Attributes"]
    }
    for name, value in _members(kind):
        if name in attributes:
            continue
        if _inherited(kind, name):
            if not inspect.getdoc(getattr(kind, name)):
                yield f"{name}: no docstring, here or at a parent"
        elif inspect.isfunction(value) and not _of_interface(kind, name):
            yield from (f"{name}: {what}" for what in _of_method(value))
        else:
            found = NumpyDocString(inspect.getdoc(value) or "")
            yield from (f"{name}: {what}" for what in _summary(found))


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_a_docstring_agrees_with_the_signature(name: str) -> None:
    value = PUBLIC[name]
    wrong = [*_of_class(value), *_shortcomings(value)] if inspect.isclass(value) else []
    wrong += [] if inspect.isclass(value) else list(_of_function(value))
    assert not wrong, "\n".join(wrong)


def _examples(name: str) -> doctest.DocTest:
    text = inspect.cleandoc(PUBLIC[name].__doc__ or "")
    return doctest.DocTestParser().get_doctest(text, {}, name, None, None)


def _needs_example(name: str) -> bool:
    value = PUBLIC[name]
    # One example of `except TacendaError` stands for all of its kinds.
    return not (inspect.isclass(value) and issubclass(value, Exception))


def _run(name: str) -> None:
    case = _examples(name)
    assert case.examples or not _needs_example(name), f"{name} has no example"
    said: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(case, out=said.append)
    assert runner.failures == 0, "".join(said)


LONG = sorted(name for name in PUBLIC if name.rpartition(".")[2] in LONG_EXAMPLES)


@pytest.mark.parametrize("name", sorted(set(PUBLIC) - set(LONG)))
def test_an_example_runs(name: str) -> None:
    _run(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_a_long_example_runs(name: str) -> None:
    _run(name)


def test_what_the_check_would_find() -> None:
    """The check itself: a wrong name, a missing section and a missing type are all found."""

    def wrong(first: int, second: int = 2) -> int:
        """Something.

        Parameters
        ----------
        first
            The first.
        """
        return first + second

    found = list(_of_function(wrong))
    assert any("no type" in what for what in found)
    assert any("['first'] instead of ['first', 'second']" in what for what in found)
    assert list(_of_method(wrong)) == found

    def many(a: int, b: int, c: int, d: int, e: int) -> int:
        """Add."""
        return a + b + c + d + e

    assert list(_of_method(many)) == ["Parameters: [] instead of ['a', 'b', 'c', 'd', 'e']"]

    @dataclasses.dataclass
    class Undescribed:
        """A class."""

        size: int

    assert list(_of_class(Undescribed)) == ["neither Parameters nor Attributes have ['size']"]
