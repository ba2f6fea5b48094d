"""Mutants of one source file: single small changes, each known by its content and not by its line
number.

The operators are mutmut's, less those whose mutants nearly always crash at once and so say little
(an argument or a variable that becomes None, another case of a string), plus a few that imitate
faults of this project's kind: another row, the other reduction, two arguments swapped, a check or a
call that is gone, a condition turned round.

Not mutated, because no test should look there: annotations, decorators, imports, docstrings,
sentences, the words of an error, asserts (they narrow types), what only a type checker reads
(protocols, aliases).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import libcst as cst
from libcst import metadata
from mutmut.mutation import mutators

DROPPED = {"operator_assignment", "operator_dict_arguments"}
TWINS = {
    "max": "min",
    "min": "max",
    "argmax": "argmin",
    "argmin": "argmax",
    "maximum": "minimum",
    "minimum": "maximum",
    "ceil": "floor",
    "floor": "ceil",
    "any": "all",
    "all": "any",
    "cumsum": "cumprod",
    "sin": "cos",
    "cos": "sin",
}
CONTAINERS = {"list", "dict", "tuple", "set", "frozenset"}
SYMMETRIC = {
    "max",
    "min",
    "maximum",
    "minimum",
    "array_equal",
    "compare_digest",
    "allclose",
    "gcd",
    "isinstance",
    "one_of",
}


@dataclass(frozen=True)
class Mutant:
    """One change of one file: text[start:end] becomes `new`. before, after: the changed lines; nth:
    among those alike."""

    path: str
    function: str
    operator: str
    start: int
    end: int
    new: str
    before: str
    after: str
    nth: int

    @property
    def name(self) -> str:
        """Twelve hex digits of what it changes, wherever in the file that stands."""
        content = "\0".join((self.path, self.function, self.before, self.after, str(self.nth)))
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    def apply(self, text: str) -> str:
        return text[: self.start] + self.new + text[self.end :]


def mutants_of(path: str, text: str) -> list[Mutant]:
    """All mutants of a file, in order; those that do not compile, or that read like the original,
    are left out."""
    wrapper = metadata.MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
    finder = _Finder(
        wrapper.resolve(metadata.WhitespaceInclusivePositionProvider), wrapper.module, text
    )
    wrapper.module.visit(finder)
    found: list[Mutant] = []
    seen: dict[tuple[str, str, str], int] = {}
    for function, operator, start, end, new in finder.found:
        changed = text[:start] + new + text[end:]
        before, after = _lines(text, start, end), _lines(changed, start, start + len(new))
        if before == after or not _compiles(changed):
            continue
        key = (function, before, after)
        seen[key] = seen.get(key, 0) + 1
        found.append(Mutant(path, function, operator, start, end, new, before, after, seen[key]))
    return found


def mutants_of_file(root: Path, path: str) -> list[Mutant]:
    return mutants_of(path, (root / path).read_text(encoding="utf-8"))


def _lines(text: str, start: int, end: int) -> str:
    """The whole lines around text[start:end], on one line with single spaces."""
    first, last = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    return " ".join(text[first : len(text) if last < 0 else last].split())


def _compiles(text: str) -> bool:
    try:
        compile(text, "mutant", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


class _Finder(cst.CSTVisitor):
    """Walks over what may be mutated, and notes (function, operator, start, end, new text)."""

    def __init__(self, spans: Any, module: cst.Module, text: str) -> None:
        self._spans, self._module, self._text = spans, module, text
        starts = [0]
        for line in text.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        self._starts, self._path = starts, ["module"]
        self.found: list[tuple[str, str, int, int, str]] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            self._path.append(node.name.value)
        if self._never(node):
            return False
        for operator, function in _operators(node):
            for changed in function(node):
                self._note(operator, node, changed)
        if isinstance(node, (cst.If, cst.While)):
            self._note("turned_condition", node.test, _turned(node.test))
        return not isinstance(node, cst.Raise)

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, (cst.FunctionDef, cst.ClassDef)):
            self._path.pop()

    def _never(self, node: cst.CSTNode) -> bool:
        if isinstance(
            node, (cst.Annotation, cst.Decorator, cst.Import, cst.ImportFrom, cst.Assert)
        ):
            return True
        if isinstance(node, cst.FunctionDef) and _is_declaration(node):
            return True
        if isinstance(node, cst.Expr) and isinstance(
            node.value, (cst.SimpleString, cst.ConcatenatedString, cst.Ellipsis)
        ):
            return True
        if isinstance(node, cst.Assign) and self._path == ["module"]:
            return isinstance(node.value, (cst.Subscript, cst.BinaryOperation)) and _is_type(
                node.value
            )
        return (
            isinstance(node, cst.If)
            and isinstance(node.test, cst.Name)
            and node.test.value == "TYPE_CHECKING"
        )

    def _note(self, operator: str, node: cst.CSTNode, changed: cst.CSTNode) -> None:
        span = self._spans[node]
        start = self._starts[span.start.line - 1] + span.start.column
        end = self._starts[span.end.line - 1] + span.end.column
        old, new = self._module.code_for_node(node), self._module.code_for_node(changed)
        # A node over several lines is written with another indentation
        if old.split() == self._text[start:end].split():
            self.found.append((".".join(self._path[1:]) or "module", operator, start, end, new))


def _is_declaration(node: cst.FunctionDef) -> bool:
    """Whether a function has no body but `...` or a docstring:
    a protocol's method, whose defaults nobody uses."""
    lines = node.body.body
    if isinstance(node.body, cst.SimpleStatementSuite):
        parts = list(lines)
    else:
        parts = [
            part
            for line in lines
            if isinstance(line, cst.SimpleStatementLine)
            for part in line.body
        ]
        if len(parts) != len(lines):
            return False
    return all(
        isinstance(part, cst.Expr) and isinstance(part.value, (cst.Ellipsis, cst.SimpleString))
        for part in parts
    )


def _is_type(node: cst.BaseExpression) -> bool:
    """Whether a module's `Name = ...` is an alias of a type: made of names, subscripts and |."""
    if isinstance(node, cst.BinaryOperation):
        return isinstance(node.operator, cst.BitOr)
    return (
        isinstance(node, cst.Subscript)
        and isinstance(node.value, cst.Name)
        and (node.value.value[:1].isupper() or node.value.value in CONTAINERS)
    )


# ---- operators


def _operators(node: cst.CSTNode) -> Iterator[tuple[str, Callable[[Any], Iterable[cst.CSTNode]]]]:
    for kind, function in mutators.mutation_operators:
        if isinstance(node, kind) and function.__name__ not in DROPPED:
            yield function.__name__.removeprefix("operator_"), _CUT.get(function.__name__, function)
    for kind, function in OWN:
        if isinstance(node, kind):
            yield function.__name__.removeprefix("_"), function


def _first_string(node: cst.BaseString) -> Iterator[cst.CSTNode]:
    """A name or a key; a sentence is for people to read."""
    if len(getattr(node, "value", "").split()) < 4:
        yield from list(mutators.operator_string(node))[:1]


def _removed_argument(node: cst.Call) -> Iterator[cst.CSTNode]:
    if len(node.args) > 1:
        for i in range(len(node.args)):
            left = [*node.args[:i], *node.args[i + 1 :]]
            yield node.with_changes(
                args=[*left[:-1], left[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)]
            )


_CUT: dict[str, Any] = {"operator_string": _first_string, "operator_arg_removal": _removed_argument}


def _other_reduction(node: cst.Name) -> Iterator[cst.CSTNode]:
    if node.value in TWINS:
        yield node.with_changes(value=TWINS[node.value])


def _row_zero(node: cst.Subscript) -> Iterator[cst.CSTNode]:
    """values[row] -> values[0]: another node's number."""
    if len(node.slice) != 1 or not isinstance(node.slice[0].slice, cst.Index):
        return
    if isinstance(node.slice[0].slice.value, cst.Name):
        yield node.with_changes(
            slice=[node.slice[0].with_changes(slice=cst.Index(cst.Integer("0")))]
        )


def _swapped_arguments(node: cst.Call) -> Iterator[cst.CSTNode]:
    name = (
        node.func.attr.value
        if isinstance(node.func, cst.Attribute)
        else getattr(node.func, "value", "")
    )
    if name in SYMMETRIC:
        return
    for i, (a, b) in enumerate(zip(node.args, node.args[1:], strict=False)):
        if (
            a.keyword is None
            and b.keyword is None
            and not a.star
            and not b.star
            and not a.value.deep_equals(b.value)
        ):
            swapped = [
                *node.args[:i],
                a.with_changes(value=b.value),
                b.with_changes(value=a.value),
                *node.args[i + 2 :],
            ]
            yield node.with_changes(args=swapped)


def _no_call(node: cst.Expr) -> Iterator[cst.CSTNode]:
    if isinstance(node.value, cst.Call):
        yield cst.Pass(semicolon=node.semicolon)


def _no_refusal(node: cst.Raise) -> Iterator[cst.CSTNode]:
    yield cst.Pass(semicolon=node.semicolon)


def _turned(test: cst.BaseExpression) -> cst.CSTNode:
    return cst.UnaryOperation(
        cst.Not(), test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    )


OWN: list[tuple[type, Callable[[Any], Iterable[cst.CSTNode]]]] = [
    (cst.Name, _other_reduction),
    (cst.Subscript, _row_zero),
    (cst.Call, _swapped_arguments),
    (cst.Expr, _no_call),
    (cst.Raise, _no_refusal),
]
