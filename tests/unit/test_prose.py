"""The pages' English (CONTRIBUTING, *How we write*): few words, short sentences, no archaisms,
and a first paragraph that says what the page is for."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import mean

import pytest

ROOT = Path(__file__).parents[2]
MOST_WORDS = 60_000
MOST_IN_README = 600
LONGEST_MEAN = 20  # words in a sentence
# Made by programs, or a record of what was chosen and measured
APART = ("decisions", "results", "results.md", "_build", "_templates", "gallery", "api")
ARCHAIC = re.compile(
    r"\b(so many|nobody|of which|as it is told|hence|whereof|thereof|whilst|for who|is said to|"
    r"such as are|whatever comes|no more\b(?! than)|one may|as is told|it is told)\b",
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


def test_what_the_check_would_find() -> None:
    text = "# A\n\nOf which one. Two `x. Y` words.\n\n- three of them\n\n| a cell. Not | one |\n"
    assert sentences(text) == ["Of which one.", "Two `code` words.", "three of them"]
    assert ARCHAIC.search("so many of them") and ARCHAIC.search("Nobody knows")
    assert not ARCHAIC.search("no more than two")
    assert words("a | b - c") == 3
