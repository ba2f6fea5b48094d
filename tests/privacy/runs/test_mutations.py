"""Planted privacy bugs, each caught: by the type of secrets, by the ledger, or by a check that the
real code passes.

A mutant is a small change of the package (a patch) or an algorithm that cheats. Its check is run
twice: as it is, and with the bug.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privacy_checks as check
import tacenda as tc
from tacenda.algorithms.admm import ADMMState, midpoint
from tacenda.algorithms.linearised import LinearisedState
from tacenda.errors import BudgetError, LeakError
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets import bounded
from tacenda.privacy.secrets import noise_plan as plan
from tacenda.privacy.secrets.bounded import Bounded, Sample, open_parts, open_values
from tacenda.privacy.secrets.door import Door
from tacenda.privacy.secrets.ledger import Ledger
from tacenda.privacy.secrets.mechanisms import NoiseKind
from tacenda.privacy.settings import Privacy
from tacenda.questions import blank, queries
from tacenda.questions.facts import Facts
from tacenda.questions.store import Store
from tacenda.runtime.network import Network

A = tc.algorithms
Plant = Callable[[pytest.MonkeyPatch], None]


def instead(owner: Any, name: str, make: Callable[[Any], Any]) -> Plant:
    """Replace owner.name by make(the honest one)."""
    return lambda patch: patch.setattr(owner, name, make(getattr(owner, name)))


def without_amount(factor: Callable[[Any, int], Any]) -> Callable[[Any], Any]:
    """A door that draws factor times the noise that it charges."""

    def make(honest: Any) -> Any:
        def release(
            self: Door,
            value: Any,
            turn: int,
            call: int,
            noise: str,
            relative_std: float | None,
            weight: float = 1.0,
        ) -> Any:
            out = honest(self, value, turn, call, noise, relative_std, weight)
            secret = open_values(value)
            return secret + (out - secret) * factor(self, turn)

        return release

    return make


def charge_after(honest: Any) -> Any:
    def release(
        self: Door,
        value: Any,
        turn: int,
        call: int,
        noise: str,
        relative_std: float | None,
        weight: float = 1.0,
    ) -> Any:
        site = plan.Site(
            turn,
            weight * self.plan.weight(turn),
            self.dim,
            NoiseKind.added(noise),
            value.sensitivity,
            value.sample,
            relative_std,
        )
        charge, amount = plan.price(self.plan, site)
        out = self.noise.add_gaussian(self.nodes, turn, call, open_parts(value), amount)
        self.ledger.charge(turn, call, charge, b"")
        return out

    return release


def price_flat(honest: Any) -> Any:
    """The ledger believes that the noise stays as it began."""

    def price(some_plan: Any, site: Any) -> Any:
        flat = site if site.relative_std is None else replace(site, relative_std=1.0)
        return honest(some_plan, flat)[0], honest(some_plan, site)[1]

    return price


def plant_flat_price(patch: pytest.MonkeyPatch) -> None:
    for where in ("tacenda.privacy.secrets.door.price", "tacenda.runtime.budget.price"):
        patch.setattr(where, price_flat(plan.price))


def plant_redraw(patch: pytest.MonkeyPatch) -> None:
    """Fresh noise for each receiver: k receivers average it away."""

    honest = Network._exchanged

    def exchanged(self: Any, tag: Any, outgoing: Any, awaited: Any) -> Any:
        rng = np.random.default_rng(self._me)
        noisy = {other: rows + rng.normal(size=rows.shape) for other, rows in outgoing.items()}
        return honest(self, tag, noisy, awaited)

    patch.setattr(Network, "_exchanged", exchanged)


def every_record(honest: Any) -> Any:
    def poisson(self: Any, nodes: Any, turn: int, call: int, sizes: Any, rates: Any) -> Any:
        return honest(self, nodes, turn, call, sizes, np.ones_like(rates))

    return poisson


def fixed_batch(honest: Any) -> Any:
    def poisson(self: Any, nodes: Any, turn: int, call: int, sizes: Any, rates: Any) -> Any:
        rng = np.random.default_rng([turn, call])
        chosen = [
            np.sort(rng.permutation(m)[: round(m * q)]) for m, q in zip(sizes, rates, strict=True)
        ]
        return np.concatenate([[0], np.cumsum([len(c) for c in chosen])]), np.concatenate(chosen)

    return poisson


def same_batch(honest: Any) -> Any:
    return lambda self, nodes, turn, call, sizes, rates: honest(self, nodes, 1, 0, sizes, rates)


def keep_sensitivity(honest: Any) -> Any:
    def times(self: Bounded, factor: Any) -> Bounded:
        core, old, offset = open_parts(self)
        return bounded._make(
            core,
            old * factor,
            None if offset is None else offset * factor,
            self.sensitivity,
            self.sample,
        )

    return times


def largest_of_two(honest: Any) -> Any:
    def plus(self: Bounded, other: Bounded, sign: float) -> Bounded:
        core = open_values(self) + sign * open_values(other)
        return bounded._make(
            core, 1.0, None, np.maximum(self.sensitivity, other.sensitivity), self.sample
        )

    return plus


def no_gap_noise(honest: Any) -> Any:
    def release_argmin(self: Door, question: Any, turn: int, call: int, noise: str) -> Any:
        site = plan.Site(
            turn, self.plan.weight(turn), self.dim, NoiseKind.OBJECTIVE, objective=question.terms
        )
        charge, amount = plan.price(self.plan, site)
        self.ledger.charge(turn, call, charge, b"")
        return question.solve(
            self.noise.l2_laplace(self.nodes, turn, call, amount.amount, question.shape[1]),
            amount.extra,
        )[0]

    return release_argmin


def one_sample(patch: pytest.MonkeyPatch) -> None:
    made: dict[int, Sample] = {}
    honest = queries.sample_of
    for module in (queries, blank):
        patch.setattr(
            module, "sample_of", lambda facts, b, one: made.setdefault(b, honest(facts, b, one))
        )


def forget(honest: Any) -> Any:
    def restore(self: Ledger, charges: Any) -> None:
        honest(self, charges)
        self.charges = type(charges)()

    return restore


def coordinate_laplace(honest: Any) -> Any:
    """Laplace noise of that rate on each coordinate:
    much less than an l2 sensitivity needs in many dimensions."""

    def l2_laplace(self: Any, nodes: Any, turn: int, call: int, rate: Any, dim: int) -> Any:
        rng = np.random.default_rng([turn, call])
        return rng.laplace(size=(len(nodes), dim)) / rate[:, None] / np.sqrt(dim)

    return l2_laplace


def doubled_rate(honest: Any) -> Any:
    """Zhang and Zhu (2016) line 5 as published: zeta = ah."""

    def objective_noise(*args: Any) -> Any:
        found = honest(*args)
        return replace(found, amount=2 * found.amount)

    return objective_noise


def scaled(factor: Any) -> Callable[[Any], Any]:
    return lambda honest: lambda *args, **more: honest(*args, **more) * factor


def with_nodes(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda honest: lambda self, nodes, *rest: honest(self, change(nodes), *rest)


def with_place(turn: int | None, call: int | None) -> Callable[[Any], Any]:
    def make(honest: Any) -> Any:
        def draw(self: Any, nodes: Any, t: int, c: int, *rest: Any) -> Any:
            return honest(
                self, nodes, t if turn is None else turn, c if call is None else call, *rest
            )

        return draw

    return make


MUTANTS: dict[str, tuple[Plant, Callable[..., None]]] = {
    "sensitivity halved": (
        instead(Facts, "gradient_sensitivity", scaled(0.5)),
        check.noise_is_enough,
    ),
    "sensitivity of the mean node": (
        instead(
            Facts,
            "gradient_sensitivity",
            lambda f: lambda self, b=None: f(self, b) * self.sizes / self.sizes.mean(),
        ),
        check.noise_is_enough,
    ),
    "replace-one counted as one record": (
        lambda patch: patch.setattr("tacenda.questions.facts.records_changed", lambda *_: 1.0),
        check.noise_is_enough,
    ),
    "add-remove counted as half a record": (
        lambda patch: patch.setattr("tacenda.questions.facts.records_changed", lambda *_: 0.5),
        check.add_remove_noise_is_enough,
    ),
    "argmin sensitivity halved": (
        instead(Facts, "argmin_sensitivity", scaled(0.5)),
        check.primal_noise_is_as_worked_out,
    ),
    "budgets of the nodes mixed up": (
        instead(Privacy, "epsilon_of", lambda f: lambda self, n: f(self, n)[::-1].copy()),
        check.noise_is_enough,
    ),
    "door draws two thirds of the noise": (
        instead(Door, "release", without_amount(lambda door, t: 2 / 3)),
        check.noise_is_enough,
    ),
    "round's share ignored by the noise": (
        instead(Door, "release", without_amount(lambda door, t: np.sqrt(door.plan.weight(t)))),
        check.noise_is_enough_with_shares,
    ),
    "shape of the noise ignored by the ledger": (plant_flat_price, check.noise_is_enough),
    "ledger books more noise than is drawn": (plant_flat_price, check.ledger_tells_the_noise),
    "ledger never charged": (
        lambda patch: patch.setattr(
            Ledger, "charge", lambda self, turn, call, charge, asked=b"": None
        ),
        check.ledger_tells_the_noise,
    ),
    "ledger charged after the draw": (
        instead(Door, "release", charge_after),
        check.charged_before_drawn,
    ),
    "ledger forgets what was charged before a resume": (
        instead(Ledger, "restore", forget),
        check.resumed_ledger_is_whole,
    ),
    "noise reused between rounds": (
        instead(SimulatedNoise, "add_gaussian", with_place(1, None)),
        check.noise_is_fresh,
    ),
    "noise reused between steps of a round": (
        instead(SimulatedNoise, "add_gaussian", with_place(None, 0)),
        check.noise_is_fresh,
    ),
    "seed shared by all nodes": (
        instead(SimulatedNoise, "add_gaussian", with_nodes(np.zeros_like)),
        check.noise_is_fresh,
    ),
    "seed shared by pairs of nodes": (
        instead(SimulatedNoise, "add_gaussian", with_nodes(lambda n: n // 2)),
        check.noise_is_fresh,
    ),
    "noise drawn per receiver": (plant_redraw, check.receivers_agree),
    "amplification without sampling": (
        instead(SimulatedNoise, "poisson_records", every_record),
        check.samples_are_poisson,
    ),
    "batches of fixed size": (
        instead(SimulatedNoise, "poisson_records", fixed_batch),
        check.samples_are_poisson,
    ),
    "the same batch every round": (
        instead(SimulatedNoise, "poisson_records", same_batch),
        check.samples_are_poisson,
    ),
    "two samples taken for one": (one_sample, check.samples_do_not_mix),
    "clipping left out": (
        instead(
            Store,
            "gradient",
            lambda f: (
                lambda self, nodes, w, clip=None, regularised=True: f(
                    self, nodes, w, None, regularised
                )
            ),
        ),
        check.clipping_bounds_the_gradient,
    ),
    "Zhang and Zhu (2016) line 5 as published": (
        lambda patch: patch.setattr(plan, "objective_noise", doubled_rate(plan.objective_noise)),
        check.objective_noise_is_as_worked_out,
    ),
    "budget solved for twice the epsilon": (
        lambda patch: patch.setattr(
            "tacenda.runtime.budget.gaussian_mu", lambda e, delta: check.mu_of(2 * e, delta)
        ),
        check.target_is_met,
    ),
    "slope of an objective halved": (
        instead(Facts, "argmin_slope", scaled(0.5)),
        check.objective_noise_is_as_worked_out,
    ),
    "curvature left out of an objective's loss": (
        lambda patch: patch.setattr(
            "tacenda.questions.constants.Constants.log_curvature",
            lambda self, m, kappa: 0 * np.multiply(m, kappa),
        ),
        check.objective_noise_is_as_worked_out,
    ),
    "gap of the solver left without noise": (
        instead(Door, "release_argmin", no_gap_noise),
        check.objective_noise_is_as_worked_out,
    ),
    "Laplace noise by coordinates": (
        instead(SimulatedNoise, "l2_laplace", coordinate_laplace),
        check.primal_noise_is_as_worked_out,
    ),
    "factor not in the sensitivity": (
        instead(Bounded, "_times", keep_sensitivity),
        check.arithmetic_keeps_bounds,
    ),
    "sum bounded by its larger part": (
        instead(Bounded, "_plus_bounded", largest_of_two),
        check.arithmetic_keeps_bounds,
    ),
}
CHECKS = {function.__name__: function for _, function in MUTANTS.values()}


def call(function: Callable[..., None], folder: Path) -> None:
    function(folder) if function is check.resumed_ledger_is_whole else function()


@pytest.mark.parametrize("name", [*CHECKS, "noise_is_normal"])
def test_the_real_code_passes(name: str, tmp_path: Path) -> None:
    call(getattr(check, name), tmp_path)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_caught(name: str, tmp_path: Path) -> None:
    plant, function = MUTANTS[name]
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        with pytest.raises((AssertionError, BudgetError, pytest.fail.Exception)):
            call(function, tmp_path)


# ---- algorithms that cheat: the type of secrets or the ledger stops them


class GradientAtHiddenPoint(A.DDPADMM):
    """A second step at the unreleased result of the first."""

    def step(self, s: LinearisedState, node: Any) -> LinearisedState:
        hidden = (s.w - node.gradient(s.w)) / 2.0
        return self._round(s, node, node.release(s.w - node.gradient(hidden)))

    def _round(self, s: LinearisedState, node: Any, w: Any) -> LinearisedState:
        return LinearisedState(w, w, s.dual, node.neighbour_sum(w))


class SendsBeforeRelease(GradientAtHiddenPoint):
    def step(self, s: LinearisedState, node: Any) -> LinearisedState:
        return self._round(s, node, s.w - node.gradient(s.w))


class StepSizeFromData(GradientAtHiddenPoint):
    """A step size by the gradient's own norm: a side door."""

    def step(self, s: LinearisedState, node: Any) -> LinearisedState:
        g = node.gradient(s.w)
        return self._round(s, node, node.release(s.w - g / np.linalg.norm(g)))


class CoordinateScaled(GradientAtHiddenPoint):
    """Adam-like: each coordinate its own factor, which breaks an l2 sensitivity."""

    def step(self, s: LinearisedState, node: Any) -> LinearisedState:
        return self._round(s, node, node.release(node.gradient(s.w) * (1.0 + np.abs(s.w))))


class ReleasesPublicArray(GradientAtHiddenPoint):
    def step(self, s: LinearisedState, node: Any) -> LinearisedState:
        return self._round(s, node, node.release(s.w))


class StoredGradient(A.RADMM):
    """R-ADMM whose even half-step reuses the gradient itself instead of what was released."""

    def step(self, s: ADMMState, node: Any) -> ADMMState:
        odd = node.release_argmin(
            2 * s.dual, node.degree * 1.0, midpoint(s.w, s.heard, node.degree)
        )
        heard = node.neighbour_sum(odd)
        w = odd - node.gradient(odd) / (2 * node.degree + 1.0)
        return ADMMState(w, s.dual, node.neighbour_sum(w) + 0 * heard)


class HiddenLinearInObjective(A.DVP):
    """DVP with the node's own unreleased minimiser in its linear term. As a centre it would be
    charged (test_objective_laplace)."""

    def step(self, s: ADMMState, node: Any) -> ADMMState:
        middle = midpoint(s.w, s.heard, node.degree)
        hidden = node.argmin(2 * s.dual, node.degree * 1.0, middle)
        w = node.release_argmin(hidden, node.degree * 1.0, middle)
        return ADMMState(w, s.dual, node.neighbour_sum(w))


class OneMoreRelease(GradientAtHiddenPoint):
    """Releases once more as soon as its model is not zero:
    never in the rehearsal, always in the run."""

    def step(self, s: LinearisedState, node: Any) -> LinearisedState:
        w = node.release(s.w - node.gradient(s.w))
        if np.any(s.w):
            w = (w + node.release(s.w - node.gradient(s.w))) / 2
        return self._round(s, node, w)


class LessNoiseLater(GradientAtHiddenPoint):
    """Asks for a smaller noise than it was calibrated for."""

    def step(self, s: LinearisedState, node: Any) -> LinearisedState:
        shape = 0.1 if np.any(s.w) else 1.0
        return self._round(s, node, node.release(s.w - node.gradient(s.w), relative_std=shape))


CHEATS: dict[type, type[Exception]] = {
    GradientAtHiddenPoint: LeakError,
    SendsBeforeRelease: LeakError,
    StepSizeFromData: LeakError,
    CoordinateScaled: LeakError,
    ReleasesPublicArray: LeakError,
    StoredGradient: LeakError,
    HiddenLinearInObjective: LeakError,
    OneMoreRelease: BudgetError,
    LessNoiseLater: BudgetError,
}


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("blocks", [1, 2])
def test_a_cheating_algorithm_is_stopped(cheat: Any, blocks: int) -> None:
    pure = issubclass(cheat, (A.RADMM, A.DVP))
    budget = (
        tc.Privacy.from_noise(round_epsilon=1.0)
        if pure
        else tc.Privacy.from_noise(noise_multiplier=1.0)
    )
    complete = tc.graph.complete(4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cheat, "advice", lambda *_: [])
        with pytest.raises(CHEATS[cheat]):
            tc.simulate(
                check.data(4), complete, cheat(), 3, budget, 0, blocks=blocks, record_every=0
            )


@pytest.mark.parametrize(
    "cheat", [SendsBeforeRelease, GradientAtHiddenPoint], ids=lambda c: c.__name__
)
def test_the_types_hold_without_privacy_too(cheat: Any) -> None:
    """A leak is found in the first noise-free run, not only in a private one."""
    with pytest.raises(LeakError):
        tc.simulate(check.data(4), tc.graph.complete(4), cheat(), 2, None, 0)
