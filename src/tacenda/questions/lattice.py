"""Questions answered in whole numbers (rule 7 of the specification).

    sum_j trunc(clip(loss'(w; x_j, y_j) x_j) / grid)        one record moves it by at most 2G/grid
    sum_j trunc(z_j z_j' / grid), or its diagonal           by at most sqrt(2) B^2/grid
    sum_j trunc(vector_j / grid) of a statistic             as `problem.statistics` says, over grid

(replace-one). The noise is a discrete Gaussian on these numbers. Times the public c grid/m, plus
the public r R'(w), the first is the noisy gradient; times grid/m, the second is the second moment;
times grid, the third is the sum of a statistic.

Each node may have a grid of its own size: then its numbers have its own factor. On a *common* grid
of steps s all nodes' numbers have the one factor s, so that they can be added up as they are: node
i's own grid is s m_i/c for gradients and s m_i for second moments. There s is given in units of the
question's worst sensitivity over the network (`Facts.worst_gradient_sensitivity`,
`Facts.worst_moment_sensitivity`), and so it need not be chosen anew when a map or a clip changes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.errors import InputError
from tacenda.privacy.secrets.bounded import Bounded, seal
from tacenda.questions.facts import Facts, RecordMap
from tacenda.questions.queries import Queries
from tacenda.questions.radius import brought_within
from tacenda.questions.rules import check_moment_bytes, check_statistic, moment_name
from tacenda.questions.statistics import ROUGHNESS, Statistic

# The noise spans so many steps of the grid: rounding a record's gradient is far below it
LATTICE_SCALE = 2.0**26


def grid_for(noise_multiplier: float, facts: Facts) -> float:
    """A power of two, so that noise of this (the run's largest) multiplier spans 2^26 to 2^27
    steps."""
    return power_of_two(noise_multiplier * _moved(facts) / LATTICE_SCALE)


def power_of_two(size: float) -> float:
    """The largest power of two that is not above `size`."""
    return 2.0 ** math.floor(math.log2(size))


def _moved(facts: Facts) -> float:
    """How far one record moves a node's sum of gradients, 2G or G; of second moments, where nothing
    bounds a gradient."""
    moved = float(facts.gradient_sensitivity()[0] * facts.sizes[0] / facts.constants.loss_scale)
    return moved if math.isfinite(moved) else float(facts.moment_sensitivity()[0] * facts.sizes[0])


class LatticeQueries(Queries):
    """Full gradients, second moments and statistics as whole numbers; every other question as
    before (and then only floating-point noise fits).

    grid: the step of every node's own gradient sums; or, if `common`, the one step of all nodes'
    values in units of the worst sensitivity.
    """

    def __init__(
        self,
        store: Any,
        counts: Array,
        nodes: Array,
        facts: Facts,
        noise: Any,
        grid: float,
        common: bool = False,
        *,
        at: Array | None = None,
    ) -> None:
        super().__init__(store, counts, nodes, facts, noise, at=at)
        self._grid, self._common = grid, common

    def gradient(
        self, w: Array, turn: int, call: int, batch_size: int | None, one: bool, regularised: bool
    ) -> Bounded:
        if batch_size is not None or not isinstance(w, np.ndarray):
            return super().gradient(w, turn, call, batch_size, one, regularised)
        facts, k = self.facts, self.facts.constants
        w = brought_within(w, k.radius)
        if self._common:
            step = self._grid * facts.worst_gradient_sensitivity
            grids, factor = step * facts.sizes / k.loss_scale, np.full((facts.n, 1), step)
        else:
            step, grids = self._grid, np.full(facts.n, self._grid)
            factor = k.loss_scale * step / facts.sizes[:, None]
        whole = self._store.integer_gradient(  # type: ignore[attr-defined]
            self._at, w, grids, k.gradient_bound
        )
        asked = self._named("gradient", w, step, regularised)
        answer = seal(whole, facts.gradient_sensitivity() / factor[:, 0], asked=asked) * factor
        return answer if not regularised or k.strength == 0 else answer + self._regulariser(w)

    def second_moment(
        self, label_scale: float, label_bound: float, diagonal: bool = False
    ) -> Bounded:
        facts, sizes = self.facts, self.facts.sizes
        sensitivity = facts.moment_sensitivity(label_scale, label_bound)
        check_moment_bytes(facts, label_scale, diagonal)
        if self._common:
            step = self._grid * facts.worst_moment_sensitivity(label_scale, label_bound)
            grids, factor = step * sizes, np.full((facts.n, 1), step)
        else:  # the noise spans as many steps as of the gradient's grid, or up to twice as many
            step = self._grid * power_of_two(float(sensitivity[0] * sizes[0]) / _moved(facts))
            grids, factor = np.full(facts.n, step), step / sizes[:, None]
        whole = self._store.integer_second_moment(  # type: ignore[attr-defined]
            self._at, grids, facts.constants.data_norm, label_scale, label_bound, diagonal
        )
        asked = self._named(moment_name(diagonal), label_scale, label_bound, step)
        return seal(whole, sensitivity / factor[:, 0], asked=asked) * factor

    def statistic(self, statistic: Statistic, w: Array) -> Bounded:
        if not isinstance(w, np.ndarray):
            return super().statistic(statistic, w)
        check_statistic(self.facts, statistic)
        w = brought_within(w, self.facts.constants.radius)
        distance = self.facts.statistic_distance(statistic)
        # On its own grid the noise spans as many steps as of the gradient's, or up to twice as many
        unit = distance if self._common else power_of_two(distance / _moved(self.facts))
        step = self._grid * unit
        proved = distance < self.facts.loose_distance(statistic)
        if proved and math.sqrt(statistic.length) * step > ROUGHNESS * distance:
            # Rounding may then move two records' vectors apart by more than `replaced` leaves
            raise InputError(
                f"The noise is so large that {statistic.length} numbers of {statistic.name!r} "
                "would be rounded too coarsely; ask for a larger epsilon or use fewer features."
            )
        whole = self._store.integer_statistic(  # type: ignore[attr-defined]
            self._at, statistic, w, np.full(len(self._at), step)
        )
        asked = self._named("statistic", statistic.digest(), w, step)
        sensitivity = self.facts.statistic_sensitivity(statistic)
        return seal(whole, sensitivity / step, asked=asked) * step

    def mapped(self, by: RecordMap) -> LatticeQueries:
        other = super().mapped(by)
        assert isinstance(other, LatticeQueries)
        if not self._common:
            other._grid = self._grid * power_of_two(_moved(other.facts) / _moved(self.facts))
        return other
