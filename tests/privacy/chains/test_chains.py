"""Every chain from a question to a statement, played whole on two neighbouring data sets: what is
lost is never above a charge or a statement, and equals it where the claim is exact."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy import stats

import chain_losses
import chain_statistics
import chain_table
import tacenda as tc
from chain_cases import ELSEWHERE, Case, cases, is_laplace, noise_name, play, variants
from chain_loss import gaussian_delta, true_epsilon
from chain_scenes import BOTH, PERSON, RECORD, ROWS, TRAVELLER, Scene
from chain_tape import QUESTIONS
from tacenda.data import quantile_search
from tacenda.graph import coalition
from tacenda.privacy import adjacency
from tacenda.privacy.accounting import events
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets import door, noise_plan
from tacenda.privacy.secrets.mechanisms import NoiseKind
from tacenda.privacy.statement import Statement
from tacenda.questions import facts, queries
from tacenda.questions.facts import Facts
from tacenda.questions.statistics import STATISTICS
from tacenda.runtime import budget, spec

A = tc.algorithms
ALL = cases() + chain_statistics.cases() + chain_losses.cases()
# Their accountants convolve: seconds each
SLOW = [c for c in ALL if c.algorithm.traits.sample != "all" or is_laplace(c.algorithm)]


@pytest.mark.parametrize("title", sorted({c.title for c in ALL if c not in SLOW}))
def test_a_chain_keeps_its_word(title: str) -> None:
    played = [play(case) for case in ALL if case.title == title]
    assert any(not one.refused for one in played), [one.refused for one in played]


@pytest.mark.slow
@pytest.mark.parametrize("title", sorted({c.title for c in SLOW}))
def test_a_chain_of_samples_or_laplace_noise_keeps_its_word(title: str) -> None:
    test_a_chain_keeps_its_word(title)


@pytest.mark.slow
@pytest.mark.parametrize("title", ["cdpadmm", "treegd", "gossipgd", "dpdda", "whitened treegd"])
def test_every_combination_of_the_factors(title: str) -> None:
    for case in cases(full=True):
        if case.title == title:
            play(case)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", [A.DPDDA(batch_size=2), A.PVP(), A.DVP()])
def test_noise_that_is_calibrated_by_convolutions_keeps_its_word(algorithm: Any) -> None:
    found = play(Case("calibrated", algorithm, Scene()))
    assert found.said == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize(
    ("algorithm", "scene"),
    [
        (A.CDPADMM(), Scene()),
        (A.DPDDA(), Scene(PERSON, "add-remove")),
        (A.IPADMM(inner_steps=2), Scene(TRAVELLER, "add-remove")),
        (A.TreeGD(), Scene(RECORD, "add-remove", 5, weighted=True)),
        (A.TreeGD(noise="independent"), Scene(BOTH, "add-remove")),
        (A.GossipGD(), Scene(ROWS, "replace-one")),
    ],
    ids=lambda one: getattr(one, "name", None) or one.unit.name,
)
def test_an_exact_claim_is_attained(algorithm: Any, scene: Scene) -> None:
    """A statement that says too much would show as well: these worlds are the worst."""
    found = play(Case("exact", algorithm, scene))
    assert found.tight
    assert found.lost == pytest.approx(found.said, rel=5e-6)


def test_a_person_at_several_members_of_one_sum_loses_what_is_said() -> None:
    """What hides one hides the other: mu adds up, 3 mu of one record."""
    scene = Scene(TRAVELLER, "add-remove", public_size=8)
    found = play(Case("complete", A.TreeGD(), scene, graph_of=nx.complete_graph(6)))
    assert found.lost == pytest.approx(found.said, rel=5e-6)


# ---- planted faults in what one part hands to the next
def _halved(honest: Any) -> Any:
    return lambda *args, **how: honest(*args, **how) / 2


def _quieter(honest: Any) -> Any:
    def draws(self: Any, nodes: Any, turn: int, call: int, parts: Any, std: Any) -> Any:
        return honest(self, nodes, turn, call, parts, 0.7 * np.asarray(std))

    return draws


def _as_if_even(honest: Any) -> Any:
    """The charge of a round with an average share of the budget, and the noise of its own."""
    return lambda plan, site: (honest(plan, replace(site, weight=1.0))[0], honest(plan, site)[1])


def _first_node(self: Statement, node: int | None = None) -> Any:
    return self._curves[0]


def _of_one_record(honest: Any) -> Any:
    return lambda relation, most=1: honest(relation, 1)


TABLED = chain_losses.with_tables(chain_losses.EXAMPLES["logistic"]())
FAULTS: dict[str, tuple[Case, Any, str, Callable[[Any], Any]]] = {
    "a person at three members is charged as at one": (
        Case("", A.TreeGD(), Scene(TRAVELLER, "add-remove")),
        events, "at_members", lambda honest: lambda listed, members: list(listed),
    ),
    "several records of a person count as one": (
        Case("", A.DPDDA(), Scene(PERSON, "add-remove")),
        adjacency, "records_changed", _of_one_record,
    ),
    "a gradient's sensitivity is halved": (
        Case("", A.DPDDA()), Facts, "gradient_sensitivity", _halved,
    ),
    "a moment's sensitivity is halved": (
        Case("", A.Whitened(A.TreeGD())), Facts, "_moment_distance", _halved,
    ),
    "less noise is drawn than charged": (
        Case("", A.CDPADMM()), SimulatedNoise, "add_gaussian", _quieter,
    ),
    "the weight of another round is charged": (
        Case("", A.DPDDA(), budget="spread 1:4:2"), noise_plan, "price", _as_if_even,
    ),
    "the statement speaks of the first node": (
        Case("", A.DPDDA(), Scene(at=1), "epsilon by node"),
        Statement, "curve", lambda honest: _first_node,
    ),
    "a record of several rows counts as one of them": (
        Case("", A.TreeGD(), family=chain_losses.EXAMPLES["ordinal"]()),
        adjacency, "records_changed", _of_one_record,
    ),
    "the sensitivity of a table beside a training is halved": (
        Case("", A.Tabled(A.TreeGD(), chain_losses.ASKED, 0.3), family=TABLED),
        Facts, "statistic_distance", _halved,
    ),
    "a hidden centre counts as one that was released": (
        Case("", A.PVP(centre="hidden"), Scene(), "0.3 a round"),
        queries, "argmin_sensitivity",
        lambda honest: lambda known, linear, quadratic, centre: honest(
            known, linear, quadratic, np.zeros(centre.shape)
        ),
    ),
    "coalitions are forgotten": (
        Case("", A.TreeGD(), Scene(at=5)),
        coalition, "leverage",
        lambda honest: lambda topology, ratio, pooled: honest(topology, ratio, 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_between_two_parts_breaks_the_chain(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, owner, name, plant = FAULTS[fault]
    play(case)
    honest = getattr(owner, name)
    planted = plant(honest)
    monkeypatch.setattr(owner, name, planted)
    # Where a module took the function by its name
    for module in (budget, door, facts, spec):
        if getattr(module, name, None) is honest:
            monkeypatch.setattr(module, name, planted)
    with pytest.raises(AssertionError, match=r"loses|lost|charges|Arrays are not equal"):
        play(case)


def test_the_released_values_decide_everything_public(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sensitivity that is read off the records shows, however little it differs."""
    honest = tc.Problem.__init__

    def reads_records(self: Any, *args: Any, **how: Any) -> None:
        honest(self, *args, **how)
        largest = float(self.store.norms.max() * np.sign(self.store.labels.sum()))
        self.constants = replace(self.constants, radius=self.constants.radius + 1e-3 * largest)
        self.loss_scale = self.store.loss_scale = 1.0 + 1e-4 * float(self.store.labels.mean())
        self.constants = replace(self.constants, loss_scale=self.loss_scale)

    monkeypatch.setattr(tc.Problem, "__init__", reads_records)
    with pytest.raises(AssertionError):
        play(Case("", A.DPDDA()))


# ---- private bounds: the exponential mechanism
@pytest.mark.parametrize(("delta", "epsilon"), [(0.0, 2.0), (1e-5, 2.0)])
def test_private_bounds_lose_no_more_than_is_said(
    delta: float, epsilon: float, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pay = np.linspace(10_000, 50_000, 999)
    chances: list[list[np.ndarray]] = []
    charged: list[list[Any]] = []

    def played(values: np.ndarray, name: str, heard: list[int]) -> tuple[list[int], Any]:
        made, probabilities, booked = [], [], []
        honest = quantile_search.release_choice

        def spy(choice: Any, size: float, ledger: Any, *rest: Any, pure: bool) -> int:
            found = honest(choice, size, ledger, *rest, pure=pure)
            score = -size * choice.distances().astype(float) / (2 * choice.sensitivity)
            weight = np.exp(score - score.max())
            probabilities.append(weight / weight.sum())
            booked.append(list(ledger.charges.each())[-1].event(0))
            made.append(heard[len(made)] if heard else found)
            return made[-1]

        table = {"pay": values, "ill": ["no", "yes"] * 500}
        draft = tc.data.draft_schema(table, label="ill")
        with monkeypatch.context() as patch:
            patch.setattr(quantile_search, "release_choice", spy)
            got = tc.data.private_bounds(
                draft, table, ledger=tmp_path / name, dataset="us", epsilon=epsilon, delta=delta,
                share=0.3, within={"pay": (0.0, 1e6)},
            )  # fmt: skip
        chances.append(probabilities)
        charged.append(booked)
        return made, got

    heard, said = played(np.append(pay, 0.0), "one", [])
    _, again = played(np.append(pay, 1e6), "two", heard)
    assert (said.schema, said.epsilon) == (again.schema, again.epsilon)
    assert charged[0] == charged[1] and len(heard) > 1
    ratios = [float(np.abs(np.log(p) - np.log(q)).max()) for p, q in zip(*chances, strict=True)]
    for ratio, event, p, q in zip(ratios, charged[0], *chances, strict=True):
        if isinstance(event, events.Pure):
            assert ratio <= event.epsilon * (1 + 1e-9)
            continue
        for e in np.linspace(0, ratio, 20):
            lost = max(np.maximum(a - math.exp(e) * b, 0).sum() for a, b in ((p, q), (q, p)))
            assert lost <= gaussian_delta(event.mu, float(e)) + 1e-12
    if delta == 0:
        assert math.fsum(ratios) <= said.epsilon * (1 + 1e-9)


# ---- what is covered
def test_the_table_of_chains_is_complete() -> None:
    """A new algorithm, statistic, question, kind of noise or event must be in the generated table:
    `python tests/chains.py` plays all chains and writes it."""
    table = chain_table.read()
    titles = {row.title for row in table}
    assert titles == {c.title for c in ALL}, "run python tests/chains.py"
    assert set(variants()) <= titles
    assert {name for name in STATISTICS if not any(t.startswith(name) for t in titles)} == set()
    asked = {question for row in table for question in row.questions.split(" + ")}
    assert set(QUESTIONS) <= asked
    drawn = {row.noise for row in table}
    assert {noise_name(kind) for kind in NoiseKind} <= drawn
    elsewhere = set(ELSEWHERE)
    assert {row.event for row in table} | elsewhere == set(events.KINDS)
    assert not {row.event for row in table} & elsewhere


def test_the_harness_adds_up_as_the_formulas_do() -> None:
    """Its own convolution against closed forms: Gaussians, and two Laplace losses by hand."""
    from chain_loss import Lost, _convolved_epsilon

    gaussian = [Lost((), "", "gaussian", 0.4), Lost((), "", "gaussian", 0.3)]
    assert _convolved_epsilon(gaussian, 1e-5, 0) == pytest.approx(
        true_epsilon(gaussian, 1e-5), rel=1e-3
    )
    one = Lost((), "", "l2-laplace", 0.8)
    x = np.linspace(-60, 60, 2_000_001)
    p, q = stats.laplace.pdf(x), stats.laplace.pdf(x - 0.8)
    e = _convolved_epsilon([one], 0.1, 0)
    found = np.maximum(p - math.exp(e) * q, 0).sum() * (x[1] - x[0])
    assert found == pytest.approx(0.1, rel=2e-3)
