"""The English of pages, messages, help and docstrings (CONTRIBUTING, *How we write*): few words,
short sentences, no archaisms, and a first paragraph that says what the page is for."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from statistics import mean
from types import ModuleType
from typing import Any

import pytest
import typer

ROOT = Path(__file__).parents[2]
MOST_WORDS = 60_000
MOST_IN_README = 600
LONGEST_MEAN = 20  # words in a sentence
# Made by programs, or a record of what was chosen and measured
APART = ("decisions", "results", "results.md", "_build", "_templates", "gallery", "api")
ARCHAIC = re.compile(
    r"\b(so many|nobody|of which|as it is told|hence|whereof|thereof|whilst|for who|is said to|"
    r"such as are|whatever comes|no more\b(?! than)|one may|(?:is|are) told\b(?! apart)|"
    r"anew|for ever|beforehand)\b",
    re.IGNORECASE,
)
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(
        page
        for page in sorted((ROOT / "docs").rglob("*.md"))
        if page.relative_to(ROOT / "docs").parts[0] not in APART
    ),
]


def names(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(text: str) -> str:
    """What a person reads as sentences: no code, no comments, no targets of links."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S)
    text = re.sub(r"^(`{3,}|:{3,}).*?^\1\s*$", "", text, flags=re.S | re.M)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return re.sub(r"`[^`\n]*`", "`code`", text)


def sentences(text: str) -> list[str]:
    """Those of paragraphs and lists; cells of tables are no sentences."""
    found = []
    for block in re.split(r"\n\s*\n|\n(?=\s*[-*] |\s*\d+\. |\||#)", prose(text)):
        block = " ".join(block.split())
        if block and not block.startswith(("#", "|", "<", "!")):
            block = re.sub(r"^([-*]|\d+\.) ", "", block)
            found += re.split(r"(?<=[.!?])[\"')*]*\s+(?=[*\"'(\[`]*[A-Z0-9`])", block)
    return [one for one in found if words(one)]


def words(text: str) -> int:
    return sum(1 for word in text.split() if re.search(r"\w", word))


def test_the_pages_are_few_words() -> None:
    """Counted as `wc -w` does, which takes the bars of tables for words."""
    counted = {names(page): len(page.read_text("utf-8").split()) for page in PAGES[2:]}
    assert sum(counted.values()) <= MOST_WORDS, "cut as many words as you add (CONTRIBUTING)"
    assert len(PAGES[0].read_text("utf-8").split()) <= MOST_IN_README


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_sentences_are_short_and_words_usual(page: Path) -> None:
    text = page.read_text("utf-8")
    lengths = [words(one) for one in sentences(text)]
    assert not lengths or mean(lengths) < LONGEST_MEAN, f"{mean(lengths):.1f} words on average"
    plain = prose(text)
    if page.name == "CONTRIBUTING.md":
        plain = plain.partition("| before | after |")[0]  # the table shows what to avoid
    found = sorted({one[0].lower() for one in ARCHAIC.finditer(plain)})
    assert not found, f"say it with the usual word: {found}"


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_a_page_says_first_what_it_is_for(page: Path) -> None:
    text = re.sub(r"\A---\n.*?\n---\n", "", page.read_text("utf-8"), flags=re.S)
    if "{include}" in text:
        return
    title, _, rest = text.lstrip().partition("\n")
    assert title.startswith("# "), "a page begins with its title"
    said = sentences(rest.partition("\n## ")[0])
    assert said and words(said[0]) >= 3, "no sentence stands between the title and the rest"


def said_in(path: Path) -> Iterator[tuple[int, str]]:
    """Literals of several words in a file, without docstrings, as (line, text): what it can say."""
    tree = ast.parse(path.read_text("utf-8"))
    silent = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in silent:
            continue
        if isinstance(node.value, str) and len(node.value.split()) > 1:
            yield node.lineno, node.value


@pytest.mark.parametrize("package", ["tacenda", "tacenda_node", "tacenda_papers"])
def test_messages_use_usual_words(package: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word[0]!r} in {text[:60]!r}"
        for path in sorted((ROOT / "src" / package).rglob("*.py"))
        for line, text in said_in(path)
        for word in ARCHAIC.finditer(text)
    ]
    assert not found, "\n".join(found)


def test_templates_use_usual_words() -> None:
    kinds = (".j2", ".html", ".js")
    found = [
        f"{path.relative_to(ROOT)}: {word[0]!r}"
        for path in sorted((ROOT / "src").rglob("*"))
        if path.suffix in kinds
        for word in ARCHAIC.finditer(path.read_text("utf-8"))
    ]
    assert not found, "\n".join(found)


@cache
def commands() -> list[tuple[str, Any, Any]]:
    """(path, command, context) of every command that can be typed."""
    from tacenda.cli.app import app

    root = typer.main.get_command(app)
    context = root.make_context("tacenda", ["algorithms"], resilient_parsing=True)

    def below(command: Any, context: Any) -> Iterator[tuple[str, Any, Any]]:
        kids = getattr(command, "commands", {})
        if not kids:
            yield context.command_path, command, context
        for name, kid in kids.items():
            if not kid.hidden:
                yield from below(kid, type(context)(kid, info_name=name, parent=context))

    return list(below(root, context))


def test_every_command_has_an_example_and_every_option_its_help() -> None:
    for path, command, context in commands():
        assert "Example" in command.help, f"{path} --help shows no example"
        for option in command.get_params(context):
            assert getattr(option, "hidden", False) or option.help, f"{path}: {option.name}"


def test_help_uses_usual_words_in_short_sentences() -> None:
    for path, command, context in commands():
        plain = re.split(r"\n\s*(?:\x08\s*)?Examples?:", command.help)[0]
        texts = [plain, *(option.help or "" for option in command.get_params(context))]
        found = sorted({one[0] for text in texts for one in ARCHAIC.finditer(text)})
        assert not found, f"{path}: {found}"
        lengths = [words(one) for text in texts for one in sentences(text)]
        assert mean(lengths) < LONGEST_MEAN, f"{path}: {mean(lengths):.1f} words on average"


def reference() -> ModuleType:
    """The extension that writes the pages of docs/api: it knows what is public."""
    place = ROOT / "docs" / "_ext" / "api_pages.py"
    spec = importlib.util.spec_from_file_location("api_pages_of_the_site", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown_docstrings() -> Iterator[tuple[str, str]]:
    """(name, text) of everything that the reference of the site shows."""
    site = reference()
    for name in site.MODULES:
        module = import_module(name)
        yield name, inspect.getdoc(module) or ""
        for public in site.public_names(module):
            value = getattr(module, public)
            if not callable(value):
                continue
            yield f"{name}.{public}", inspect.getdoc(value) or ""
            for part, inner in vars(value).items() if inspect.isclass(value) else ():
                if not part.startswith("_") and (callable(inner) or isinstance(inner, property)):
                    yield f"{name}.{public}.{part}", inspect.getdoc(inner) or ""


def test_docstrings_of_the_reference_use_usual_words() -> None:
    found = [
        f"{name}: {word[0]!r}"
        for name, text in shown_docstrings()
        for word in ARCHAIC.finditer(text)
    ]
    assert not found, "\n".join(found)


def test_what_the_check_would_find() -> None:
    text = "# A\n\nOf which one. Two `x. Y` words.\n\n- three of them\n\n| a cell. Not | one |\n"
    assert sentences(text) == ["Of which one.", "Two `code` words.", "three of them"]
    assert ARCHAIC.search("so many of them") and ARCHAIC.search("Nobody knows")
    assert not ARCHAIC.search("no more than two")
    assert words("a | b - c") == 3
