"""The papers' claims, decided by the findings of stored rows, of accounted epsilons and of the
papers' own formulas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tacenda.report import Column, TextTable
from tacenda_papers.experiments.headline import Headline
from tacenda_papers.experiments.spec import PUBLISHED, SOUND, Claim, Finding

HEADLINE, FORMULAS = "headline", "formulas"  # beside the experiments: findings without rows
HOLDS, FAILS, DEPENDS, NOT_RUN = "holds", "does not hold", "depends", "not run"
UNDECIDED = "undecided"  # no deciding difference reaches two standard errors
MOST_SHOWN = 4  # findings of a mode that are told in full; of more the extremes
MODES = {PUBLISHED: "as published", SOUND: "at equal epsilon"}


@dataclass(frozen=True)
class Decided:
    """A claim with its verdict and the numbers behind it; missing: experiments without rows."""

    claim: Claim
    verdict: str
    figures: str
    sources: tuple[str, ...]
    missing: tuple[str, ...]


def decide(claim: Claim, found: Mapping[str, Sequence[Finding]]) -> Decided:
    """The verdict of a claim; `found`: the findings of every experiment that has rows."""
    sources = tuple(dict.fromkeys(name for name, _ in claim.findings))
    missing = tuple(name for name in sources if name not in found)
    used = [
        f for name, part in claim.findings if name in found for f in found[name] if part in f.claim
    ]
    by_mode = {mode: [f for f in used if f.mode == mode] for mode in MODES}
    words = {mode: _word(some) for mode, some in by_mode.items() if some}
    if not words:
        return Decided(claim, NOT_RUN, "", sources, missing)
    if len(set(words.values())) == 1:
        verdict = next(iter(words.values()))
    else:
        verdict = "; ".join(f"{MODES[mode]} {word}" for mode, word in words.items())
    told = [
        (f"{MODES[mode]}: " if len(words) > 1 else "") + _figures(some)
        for mode, some in by_mode.items()
        if some
    ]
    return Decided(claim, verdict, "; ".join(told), sources, missing)


def _word(found: Sequence[Finding]) -> str:
    if not any(f.sure for f in found):
        return UNDECIDED
    held = [f.holds for f in found]
    part = f"{DEPENDS}: {sum(held)} of {len(held)} hold"
    word = HOLDS if all(held) else part if any(held) else FAILS
    return word if all(f.sure for f in found) else f"{word} (not all clear)"


def _figures(found: Sequence[Finding]) -> str:
    if len(found) <= MOST_SHOWN:
        return "; ".join(dict.fromkeys(_numbers(f) for f in found))
    held, clear = [f for f in found if f.holds], [f for f in found if f.clear]
    lost = [f for f in found if not f.holds]
    sure = [f for f in lost if f.sure]
    shown = [part[0] for part in (clear or held, sure or lost) if part]
    count = f"in {len(held)} of {len(found)} settings ({len(clear)} clearly"
    count += f"; {len(sure)} of the others clearly not)" if lost else ")"
    return f"{count}, for example {'; '.join(_numbers(f) for f in shown)}"


def _numbers(finding: Finding) -> str:
    return finding.short or finding.detail.rstrip(".")


def from_headlines(rows: Iterable[Headline]) -> list[Finding]:
    """Whether the epsilon that a paper states is really one, for each of its main settings."""
    return [
        Finding(
            PUBLISHED,
            f"{h.paper}: the stated epsilon holds ({h.setting})",
            h.true <= h.claimed,
            f"Stated {h.claimed:.4g}, accounted {h.shown} at delta {h.delta or 1e-5:g} "
            f"({h.adjacency}).",
            h.exact or h.true <= h.claimed,
            doubt="only an upper bound is above it",
        )
        for h in rows
    ]


def table(decided: Sequence[Decided], caption: str, named: Callable[[str], str]) -> TextTable:
    """One line for each claim; named: how a source is written."""
    titles = ("claim", "verdict", "what decides", "figures", "from")
    lines = [
        [
            f"{d.claim.words} ({d.claim.where})",
            d.verdict,
            d.claim.setting + _not_run(d),
            d.figures,
            ", ".join(named(s) for s in d.sources),
        ]
        for d in decided
    ]
    return TextTable(caption, [Column(t) for t in titles], lines)


def in_words(source: str) -> str:
    """A source as readers know it."""
    return {HEADLINE: "what the noise guarantees", FORMULAS: "the paper's formulas"}.get(
        source, source
    )


def _not_run(d: Decided) -> str:
    return f" Not run at this size: {', '.join(d.missing)}." if d.missing else ""
