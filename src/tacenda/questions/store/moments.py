"""Second moments of the records of nodes, as floats and as whole numbers."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from tacenda._types import Array, Floats, Ints
from tacenda.errors import InputError
from tacenda.questions.moments import label_width, moment_length, packed_length
from tacenda.questions.store.table import Table, checked_grid
from tacenda.threads import in_parts


class Moments(Table):
    """Answers with second moments."""

    @cached_property
    def _moment_kernels(self) -> Any:
        """The compiled second moments."""
        from tacenda.questions.kernels import moments as kernels_moments

        return kernels_moments

    def second_moment(
        self,
        nodes: Ints,
        norm: float,
        label_scale: float,
        label_bound: float,
        diagonal: bool = False,
    ) -> Floats:
        """(1/m_i) sum_j z z' for each row, packed (`problem.moments`); float64 (b, q (q + 1)/2), or
        (b, q) of its diagonal alone.

        z = x_j, cut to `norm`, and behind it label_scale * y_j, with y_j cut to label_bound, unless
        label_scale is 0; of several classes label_scale in the place of y_j, and zeros in the
        others'.
        """
        nodes = self._positions(nodes)
        self.count_reads(nodes)
        labels = label_width(label_scale, self.n_outputs)
        width = self.n_features + labels
        kernels = self._moment_kernels
        out = np.empty((len(nodes), moment_length(width, diagonal)))
        in_parts(
            kernels.diagonals if diagonal else kernels.second_moments,
            len(nodes),
            self._moment_work(nodes, width, diagonal),
            self.kernel_columns(self.norms),
            self.offsets[nodes],
            self.offsets[nodes + 1],
            kernels.Bounds(float(norm), float(label_scale), float(label_bound), labels, width),
            self.divisors[nodes],
            out,
            sizes=self.sizes[nodes],
        )
        return out

    def _moment_work(self, nodes: Ints, width: int, diagonal: bool) -> int:
        """About how many numbers a second moment of these nodes takes."""
        return width * (int(self.sizes[nodes].sum()) if diagonal else self.elements(nodes))

    def integer_second_moment(
        self,
        nodes: Ints,
        grid: Array,
        norm: float,
        label_scale: float,
        label_bound: float,
        diagonal: bool = False,
    ) -> Ints:
        """sum_j trunc(z z' / grid_k), packed, or its diagonal alone, as int64; z as in
        `second_moment`.

        Exact for every float: with T = B^2/grid_k, B^2 = norm^2 + (label_scale label_bound)^2, one
        record moves row k by at most T when it comes or goes, and by at most sqrt(2) T when it is
        replaced. Rounding toward zero lengthens nothing; but between two records it may turn an
        inner product that is at least 0 into one of -sqrt(P) (|u| + |v|), P = q (q + 1)/2. So every
        z is cut to |z|^2 <= (T - sqrt(P)) grid_k, and by a little more for the rounding of floats.
        On the diagonal nothing is below 0, rounded or not: there only the latter is cut.
        """
        nodes = self._positions(nodes)
        self.count_reads(nodes)
        labels = label_width(label_scale, self.n_outputs)
        width = self.n_features + labels
        square = norm**2 + (label_scale * label_bound) ** 2
        grid = checked_grid(grid, nodes, square)
        room = square - (0.0 if diagonal else math.sqrt(packed_length(width))) * grid
        if (room < 0.5 * square).any():
            raise InputError(
                "grid is so coarse that rounding to it would take more than half of a second "
                "moment; choose a finer grid."
            )
        kernels = self._moment_kernels
        out = np.zeros((len(nodes), moment_length(width, diagonal)), dtype=np.int64)
        in_parts(
            kernels.integer_diagonals if diagonal else kernels.integer_moments,
            len(nodes),
            self._moment_work(nodes, width, diagonal),
            self.kernel_columns(self.norms),
            self.offsets[nodes],
            self.offsets[nodes + 1],
            kernels.Bounds(float(norm), float(label_scale), float(label_bound), labels, width),
            np.sqrt(room) * (1.0 - max(1e-12, width * 2.0**-50)),
            grid,
            out,
            sizes=self.sizes[nodes],
        )
        return out
