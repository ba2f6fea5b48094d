"""Rowwise argmin of a block of nodes: chooses the method, keeps the chord cache,
and guarantees the tolerance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacenda import checks
from tacenda._arrays import read_only
from tacenda._types import Array, Floats, Ints
from tacenda.errors import InputError, StateError, TacendaError, UnsupportedError
from tacenda.threads import in_parts

if TYPE_CHECKING:
    from tacenda.questions.store import Store


_CACHE_LIMIT = 1 << 30
_CACHE_FLOOR = 1 << 26


@dataclass
class Chords:
    """Per node: a cached inverse Hessian (d, d), its ridge (negative: none) and the point where it
    was taken; where calls remember (`argmin`), also where the last one ended (`chord_node`)."""

    anchors: Floats
    ridges: Floats
    inverses: NDArray[np.float32]
    known: Floats
    memory: Floats
    remembers: bool = False

    @classmethod
    def empty(cls, n: int, d: int) -> Chords:
        # Pages of nodes which this process never hosts are never touched, nor those of a memory
        # that is not used.
        return cls(
            np.zeros((n, d)),
            np.full(n, -1.0),
            np.empty((n, d, d), dtype=np.float32),
            np.zeros(n),
            np.zeros((n, 4, d)),
        )

    def state(self, remembered: bool = False) -> dict[str, Floats]:
        """What a checkpoint needs so that a resumed run is bit-identical; with what calls remember
        if they do, or if that is wanted."""
        found = {"anchors": self.anchors, "ridges": self.ridges}
        if self.remembers or remembered:
            found |= {"known": self.known, "memory": self.memory}
        return {name: rows.copy() for name, rows in found.items()}


def uses_chords(store: Store) -> bool:
    """Whether inverse Hessians are kept: losses of one score with one ridge for all coordinates,
    whose cache stays small, also against the data.

    Depends on the whole store and never on a block, so that a node's result does not depend on its
    company.
    """
    size = 4 * store.n_nodes * store.dim**2
    alike = store.n_outputs == 1 and not store.regulariser.weighted
    return alike and size <= min(_CACHE_LIMIT, _CACHE_FLOOR + store.nbytes)


def check_supported(store: Store) -> None:
    """The argmin needs a smooth loss and a smooth regulariser."""
    if not store.loss.smooth:
        raise UnsupportedError(
            f"The exact argmin needs a smooth loss, and {store.loss.name!r} is not; "
            "use 'smoothed-hinge' or 'huber'."
        )
    if not store.regulariser.smooth:
        raise UnsupportedError(
            f"The exact argmin needs a smooth regulariser, and {store.regulariser.name!r} is not; "
            "use 'l2' or 'none'."
        )


def argmin(
    store: Store,
    nodes: Ints,
    linear: Array,
    quadratic: Array,
    centre: Array,
    start: Array,
    tolerance: float,
    remember: bool = False,
) -> Floats:
    """argmin_w f_i(w) + linear.w + quadratic |w - centre|^2 per row, (b, d) float64, each to
    gradient norm <= tolerance.

    remember: start where the last call ended, and keep its end for the next one. The end is an
    exact function of the records, and a checkpoint holds it: only for runs without privacy.
    """
    from tacenda.questions.kernels import solver as kernels_solver

    check_supported(store)
    tolerance = checks.positive("tolerance", tolerance)
    shape = (len(nodes), store.dim)
    w = np.array(start, dtype=np.float64)
    linear, centre = _rows("linear", linear, shape), _rows("centre", centre, shape)
    q = read_only(np.ascontiguousarray(_rows("quadratic", quadratic, (len(nodes), 1))[:, 0]))
    if not (q >= 0).all():
        raise InputError(
            "quadratic must hold numbers of at least 0; a negative penalty has no minimum."
        )
    reached, l2 = np.full(len(nodes), np.inf), store.strength * store.regulariser.l2
    passes = np.zeros(len(nodes))
    ranges = (store.offsets[nodes], store.offsets[nodes + 1])
    middle = (w, linear, q, centre, store.loss_scale / store.divisors[nodes], l2)
    loss = (store.loss.code, store.loss.numbers, tolerance)
    if uses_chords(store):
        chords, patience = store.chords(), max(8, store.dim // 8)
        chords.remembers = chords.remembers or remember
        cache = (chords.anchors, chords.ridges, chords.inverses)
        ended = (remember, chords.known, chords.memory)
        in_parts(
            kernels_solver.chord,
            len(nodes),
            2 * store.elements(nodes),
            store.kernel_rows,
            store.labels,
            store.kernel_weights,
            read_only(nodes),
            *ranges,
            *middle,
            *loss,
            patience,
            *cache,
            *ended,
            reached,
            passes,
            sizes=store.sizes[nodes],
        )
    left = np.flatnonzero(~(reached <= tolerance))
    if len(left):  # all of them, or the rare ones whose Hessian could not be inverted
        rest: Any = (*(part[left] for part in ranges), *(part[left] for part in middle[:-1]), l2)
        found, norms, more = rest[2], np.full(len(left), np.inf), np.zeros(len(left))
        in_parts(
            kernels_solver.newton_cg,
            len(left),
            2 * store.elements(nodes[left]),
            store.kernel_rows,
            store.labels,
            store.kernel_weights,
            *rest,
            store.kernel_classes,
            *loss,
            norms,
            more,
            sizes=store.sizes[nodes[left]],
        )
        w[left], reached[left] = found, norms
        passes[left] += more
    store.count_reads(nodes, passes)
    left = np.flatnonzero(~(reached <= tolerance))
    if len(left):
        w[left] = _certainly(store, nodes[left], linear[left], q[left], centre[left], tolerance)
    return w


def _certainly(
    store: Store, nodes: Ints, linear: Array, q: Array, centre: Array, tolerance: float
) -> Floats:
    """The same by the solver that cannot fail. Where that one has no guarantee, there is no bound
    for noise either."""
    from tacenda.questions.solver import around as solver_around

    weighted = store.regulariser.weighted
    kappa = store.strength * store.regulariser.l2 + (2 * q[:, None] if weighted else 2 * q)
    if not solver_around.can_solve(store, kappa):
        raise TacendaError(
            f"The local solver of node {int(nodes[0])} did not reach gradient norm "
            f"tolerance={tolerance:g}, and the loss {store.loss.name!r} with this penalty has no "
            "bound that would help; use a larger tolerance or penalty, "
            "or add an l2 regulariser if the minimum may not exist. "
            "(Only a run without privacy can get here.)"
        )
    anchor = (2 * q[:, None] * centre - linear) / kappa.reshape(len(q), -1)
    return anchor + store.argmin_around(nodes, anchor, kappa, tolerance)


def restored(store: Store, state: dict[str, Floats]) -> Chords:
    """The cache which a checkpoint describes (`Chords.state`),
    with every inverse taken again where it was taken before."""
    from tacenda.questions.kernels import solver as kernels_solver

    chords = Chords.empty(store.n_nodes, store.dim)
    chords.remembers = "memory" in state
    for name in chords.state():
        mine, rows = getattr(chords, name), state.get(name, np.zeros(0))
        if rows.shape != mine.shape:
            raise StateError(
                f"The solver state must hold {store.n_nodes} nodes of dimension {store.dim}, "
                f"and its {name!r} has the shape {rows.shape} instead of {mine.shape}; "
                "resume with the problem that wrote it."
            )
        mine[:] = rows
    in_parts(
        kernels_solver.rebuild,
        store.n_nodes,
        store.dim * store.elements(np.arange(store.n_nodes)),
        store.kernel_rows,
        store.labels,
        store.kernel_weights,
        store.offsets,
        store.loss_scale / store.divisors,
        store.loss.code,
        store.loss.numbers,
        chords.anchors,
        chords.ridges,
        chords.inverses,
        sizes=store.sizes,
    )
    return chords


def _rows(name: str, values: Array, shape: tuple[int, int]) -> Floats:
    values = np.asarray(values, dtype=np.float64)
    try:
        return read_only(np.ascontiguousarray(np.broadcast_to(values, shape)))
    except ValueError:
        raise InputError(f"{name} must have shape {shape}, not {values.shape}.") from None
