"""The verdict and its conditions in plain words: what is promised, to whom,
against whom, and what is not."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacenda.privacy.statement import UNIT, Statement
from tacenda.report import numbers
from tacenda.report.account import GRID, Account, together
from tacenda.report.reading import Folder, Group
from tacenda.words import public_sums

ACCOUNTANTS = {
    "gaussian-exact": "closed formula for Gaussian noise",
    "pure-optimal": "optimal composition of pure rounds",
    "l2-laplace": "loss distribution of l2-Laplace noise, convolved",
    "pld": "privacy loss distribution (dp-accounting)",
    "zcdp": "zero-concentrated privacy, converted",
    "rdp": "Rényi privacy (dp-accounting), converted",
}
RELATIONS = {
    "replace-one": "one record exchanged for any other; how many records each node holds is public",
    "add-remove": "one record added or taken away",
}


def relation_of(statement: Statement) -> str:
    """The neighbouring relation in words, for the statement's own unit."""
    words = RELATIONS[statement.adjacency]
    if statement.unit == UNIT:
        return words
    return words.replace("one record", "one person with all their records", 1)


def _whom(statement: Statement) -> str:
    """For whom the promise is, as the beginning of a sentence."""
    if statement.unit == UNIT:
        return "Every single record of every node"
    whom = statement.for_whom
    return whom[0].upper() + whom[1:]


@dataclass(frozen=True)
class PromiseVerdict:
    """level: "good", "caution",
    "bad" or "none" (sets the colour, never alone: `word` says it too)."""

    level: str
    word: str
    headline: str
    sentences: tuple[str, ...]


SEEDED = (
    "Seeded noise: simulation only. Anyone who knows the seed can subtract the noise. On real "
    "nodes it comes from the operating system."
)
PUBLISHED = "As published: for reproducing a paper's figures, never for real data."


def verdict(folder: Folder) -> PromiseVerdict:
    """The folder's answer in ten seconds: that of its worst label."""
    broken = [g for g in folder.private if g.account is not None and _broken(g.account)]
    if broken:
        return _bad(max(broken, key=lambda g: g.account.epsilon if g.account is not None else 0.0))
    worst = folder.weakest
    if worst is None or worst.account is None:
        nothing = (
            "Nothing is promised to the people behind the records: "
            "anyone who sees the messages may learn what they hold."
        )
        return PromiseVerdict(
            "none", "No privacy", "These models were learnt without noise.", (nothing,)
        )
    sentences = [meaning(worst.account)]
    open_runs = [g.label for g in folder.groups if g.account is None]
    if open_runs:
        sentences.append(f"Without any noise, for comparison only: {', '.join(open_runs)}.")
    if any(g.account is not None and g.account.statement.mode != "sound" for g in folder.private):
        sentences.append(PUBLISHED)
    elif not any(
        g.account is not None and "simulation" in g.account.statement.noise for g in folder.private
    ):
        return PromiseVerdict(
            "good", "Promise kept", _promise(folder, worst.account), tuple(sentences)
        )
    return PromiseVerdict(
        "caution", "Simulation", _promise(folder, worst.account), (*sentences, SEEDED)
    )


def stated(account: Account) -> str:
    """The account's point as an equation."""
    return f"ε = {numbers.epsilon(account.epsilon)} at δ = {numbers.short(account.delta)}"


def _broken(account: Account) -> bool:
    claimed = account.statement.claimed
    if claimed is not None and account.epsilon > claimed[0] * (1 + GRID):
        return True
    return math.isinf(account.epsilon) or (not account.kept and account.statement.mode == "sound")


def _bad(group: Group) -> PromiseVerdict:
    account = group.account
    assert account is not None
    s = account.statement
    if s.claimed is not None:
        headline = (
            f"{group.label} claims ε = {numbers.epsilon(s.claimed[0])}; "
            f"its noise really gives {stated(account)}."
        )
        return PromiseVerdict(
            "bad", "Claim not kept", headline, (*([s.why] if s.why else []), PUBLISHED)
        )
    asked = (
        ""
        if account.target is None
        else f" where ε = {numbers.epsilon(account.target)} was asked for"
    )
    headline = f"{group.label} gives {stated(account)}{asked}."
    return PromiseVerdict("bad", "Promise not kept", headline, ("Do not release these models.",))


def _promise(folder: Folder, worst: Account) -> str:
    several = (
        len({numbers.epsilon(g.account.epsilon) for g in folder.private if g.account is not None})
        > 1
    )
    runs = "Each private run" if len(folder.runs) > 1 else "The run"
    whom = worst.statement.for_whom
    return f"{runs} keeps {'at most ' if several else ''}{stated(worst)} for {whom}."


def meaning(account: Account) -> str:
    """Epsilon as a chance: what the best possible observer gains over tossing a coin."""
    if math.isinf(account.epsilon):
        return "An observer may learn everything about a record."
    statement = account.statement
    one = statement.unit.removesuffix(" of one node")
    replaced = statement.adjacency == "replace-one"
    what = f"which of two values {one} has" if replaced else f"whether {one} was there"
    return (
        "An observer who reads every message, and knows all other records, "
        f"guesses {what} correctly with probability at most {numbers.percent(account.best_guess)}; "
        f"tossing a coin gives {numbers.percent(0.5, 0)}."
    )


def _final_model(account: Account) -> list[tuple[str, str]]:
    """The line for those who see no message, where more can be said to them."""
    if account.statement.hidden is None:
        return []
    final = account.statement.final_model()
    if not final.better:
        return []
    said = f"ε = {numbers.epsilon(final.epsilon)} at δ = {numbers.short(final.delta)}"
    return [("Who sees only the final model", f"{said}. {final.why}")]


def promised(account: Account) -> list[tuple[str, str]]:
    """(question, answer) pairs of the promise."""
    s, judge = account.statement, account.curve.accountant
    watchers = (
        "Anybody who sees every message of every node in every round and knows all records but one"
    )
    answers = [
        ("What", f"{stated(account)}, for the whole run, all rounds together."),
        ("For whom", f"{_whom(s)}: {relation_of(s)} ({s.adjacency})."),
        ("Against whom", f"{watchers}{_members(account)}."),
        ("In other words", meaning(account)),
        *_final_model(account),
        (
            "Counted by",
            _sentence(
                f"{ACCOUNTANTS.get(judge, judge)}, over every release in the ledger"
                + ("" if s.exact else "; the result is an upper bound")
            ),
        ),
        ("Noise", _sentence(s.noise)),
        *([("Public", _sentence(public_sums(s.groups)))] if s.groups > 1 else []),
    ]
    if s.claimed is not None:
        claim = (
            f"ε = {numbers.epsilon(s.claimed[0])} at δ = "
            f"{numbers.short(s.claimed[1])} (mode {s.mode})."
        )
        answers.insert(1, ("Claimed by the paper", claim))
    return answers


def _members(account: Account) -> str:
    pooled = account.curve.coalition
    if pooled is None:
        return ""
    return (
        f"; of the members themselves, {'no two' if pooled == 1 else f'at most {pooled}'} "
        "may combine what they know"
    )


def not_promised(folder: Folder, account: Account | None) -> list[str]:
    """What nobody should read into the numbers."""
    lines = [
        "This page: its accuracies, objectives and curves were computed from the records without "
        "noise, as only a simulation may. They are diagnostics, not covered by the promise; "
        "with real data do not pass the page on."
    ]
    if account is not None:
        lines += [_people(account), *_all_runs(folder)]
    lines += [
        "What can be learnt from the population as a whole: "
        "a model may say much about somebody whose record was never used.",
        "The network, the settings and, under replace-one, the number of records at each node: "
        "they are public.",
        "Right answers from dishonest nodes: a node that sends wrong values can spoil the model, "
        "though not the promise to the others.",
    ]
    if account is not None:
        lines.append(
            "Anything read from the data before the run (bounds, levels, labels, step sizes "
            "chosen by looking): it must be public or be charged."
        )
    return lines


def _people(account: Account) -> str:
    known = [(size, epsilon) for size, epsilon in account.groups() if math.isfinite(epsilon)]
    many = "Somebody with several records is protected less"
    if not known:
        return f"{many}, and no useful bound is known for this run."
    each = ", ".join(f"ε = {numbers.epsilon(e)} for {k} records on one node" for k, e in known)
    return f"{many}: {each}, at δ = {numbers.short(account.delta)}."


def _all_runs(folder: Folder) -> list[str]:
    """Publishing several runs on the same records costs the composition of all."""
    accounts = [g.account for g in folder.private for _ in g.runs if g.account is not None]
    if len(accounts) < 2:
        return []
    if _shared_noise(folder):
        return [
            "Several of these runs at once: runs with the same seed have the same noise, which "
            "cancels in their difference. Publish one of them at most, or draw other seeds. "
            "Choosing the best of them by looking costs privacy, too."
        ]
    total = together(accounts)
    if total is None:
        return ["Several of these runs at once: the promise is made by each run alone."]
    return [
        f"All {len(accounts)} private runs of this folder at once: each promise is for one run "
        "alone. Published together on the same records they would cost at most ε = "
        f"{numbers.epsilon(total[0])} at δ = {numbers.short(total[1])}; "
        "and choosing the best of them by looking costs privacy, too."
    ]


def _shared_noise(folder: Folder) -> bool:
    """Whether two private runs had one seed;
    runs charged to a ledger have noise of their own all the same."""
    settings = [run.result.settings for group in folder.private for run in group.runs]
    seeds = [s["seed"] for s in settings if s.get("seed") is not None and not s.get("charged")]
    return len(set(seeds)) < len(seeds)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
