"""Gradients on the integer lattice (rule 7 of the specification), and their charges as what they
are.

    sum_j trunc(clip(loss'(w; x_j, y_j) x_j) / grid)

These are whole numbers, and one record moves them by at most 2G/grid (replace-one). The noise is a
discrete Gaussian on these numbers; times the public c * grid / m, plus the public r R'(w), they are
the noisy gradient. A run of discrete Gaussians is judged by zero-concentrated privacy, and so the
noise is calibrated for it: a few per cent more than an ideal Gaussian needs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.errors import PrivacyError
from tacenda.privacy.accounting import events
from tacenda.privacy.secrets.bounded import Bounded, seal
from tacenda.privacy.secrets.ledger import Charge, Charges
from tacenda.problem.facts import Facts
from tacenda.problem.queries import Queries
from tacenda.problem.radius import brought_within

# The noise spans so many steps of the grid: rounding a record's gradient is far below it
LATTICE_SCALE = 2.0**26


def grid_for(noise_multiplier: float, facts: Facts) -> float:
    """A power of two, so that noise of this (the run's largest) multiplier spans 2^26
    to 2^27 steps."""
    k = facts.constants
    moved = float(facts.gradient_sensitivity()[0] * facts.sizes[0] / k.loss_scale)  # 2G or G
    return 2.0 ** math.floor(math.log2(noise_multiplier * moved / LATTICE_SCALE))


class LatticeQueries(Queries):
    """Full gradients as whole numbers;
    every other question as before (and then only floating-point noise fits)."""

    def __init__(
        self, store: Any, counts: Array, nodes: Array, facts: Facts, noise: Any, grid: float
    ) -> None:
        super().__init__(store, counts, nodes, facts, noise)
        self._grid = grid

    def gradient(
        self, w: Array, turn: int, call: int, batch_size: int | None, one: bool, regularised: bool
    ) -> Bounded:
        if batch_size is not None or not isinstance(w, np.ndarray):
            return super().gradient(w, turn, call, batch_size, one, regularised)
        k, w = self.facts.constants, brought_within(w, self.facts.constants.radius)
        whole = self._store.integer_gradient(  # type: ignore[attr-defined]
            self._nodes, w, np.full(len(self._nodes), self._grid), k.gradient_bound
        )
        factor = k.loss_scale * self._grid / self.facts.sizes[:, None]
        asked = self._named("gradient", w, self._grid, regularised)
        answer = seal(whole, self.facts.gradient_sensitivity() / factor[:, 0], asked=asked) * factor
        return answer if not regularised or k.strength == 0 else answer + self._regulariser(w)


def as_discrete(charge: Charge) -> Charge:
    """The same noise multiplier, on the lattice."""
    if charge.kind is not events.Gaussian:
        raise PrivacyError(f"A release of kind {charge.kind.kind!r} is not on the integer lattice.")
    return Charge(events.DiscreteGaussian, charge.parameters)


def discrete_charges(charges: Charges) -> Charges:
    """A whole reservation on the lattice."""
    return Charges((as_discrete(charge), count) for charge, count in charges)


def lattice_stretch(
    charges: Charges, row: int, epsilon: float, delta: float, adjacency: str
) -> float:
    """By how much the Gaussian plan's noise must grow so
    that its discrete form meets (epsilon, delta)."""
    from tacenda.privacy.accounting.calibration import solve_scale

    made = discrete_charges(charges).events(row)

    def at(k: float) -> events.Events:
        return [
            (events.DiscreteGaussian(e.noise_multiplier * k), n)
            for e, n in made
            if isinstance(e, events.DiscreteGaussian)
        ]

    return float(solve_scale(at, epsilon, delta, adjacency))
