"""How well noise shared by neighbours hides one node from a coalition of others.

Every node draws s * (its own normal) + s c * (sum over its edges of plus or minus the edge's
normal): covariance s^2 (I + c^2 L). A coalition Q knows its own edges' streams; what is left for
the others is s^2 (I + c^2 L_Q), with L_Q the Laplacian of the graph without Q. Against Q, node i is
as well hidden as by independent noise of variance s^2 / h_i,

    h_i(Q) = [ (I + c^2 L_Q)^-1 ]_ii,     1/n <= h_i <= 1,

and its *leverage* is the largest h_i over all coalitions of at most q members that do not hold i. q
= 0 is an eavesdropper. A coalition that cuts the graph leaves node i the protection of its own
component, which the formula already says.

Masks are the limit c = infinity: uniform numbers modulo 2^64 on the edges, so that of the rows of a
component nothing is seen but their sum, and

    h_i(Q) = 1 / (members of i's component in the graph without Q).
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from tacenda import checks
from tacenda._types import Array
from tacenda.graph.cuts import least_components
from tacenda.graph.topology import Topology

DENSE = 3000  # nodes up to which the inverse is formed
SEARCHED = 20_000  # coalitions that are tried one by one
# Taking a member out of an inverse loses digits like c^4, and each further member more. h falls
# with c, so a larger c is counted as this one, by the size of the coalition: never less noise, and
# the errors stay below 1e-6.
LARGEST_RATIO = (1e5, 100.0, 30.0)
GAP_DIGITS = 1e-3  # an iterative eigenvalue may lie above the true one by less than this part of it


def leverage(topology: Topology, ratio: float, coalition: int) -> tuple[Array, str]:
    """((n,) leverage h_i, how it was found: "exact" or "bound") for edge noise of `ratio` c times
    the node's own; an infinite ratio: masks."""
    c = checks.positive("correlation", ratio, zero=True, infinite=True)
    q, n = checks.whole("coalition", coalition), topology.n
    if math.isinf(c):
        members, found = least_components(topology, q)
        return 1 / members, found
    if c == 0 or n == 1:
        return np.ones(n), "exact"
    q = min(q, n - 1)
    if len(topology.edges) == n * (n - 1) // 2:
        return np.full(
            n, _spread(n - q, c, n - q)
        ), "exact"  # what is left of a complete graph is complete: L_Q has 0 and k - 1 times k
    if n <= DENSE and (q <= 1 or math.comb(n, q) <= SEARCHED):
        if q < len(LARGEST_RATIO):
            return _exact(topology, min(c, LARGEST_RATIO[q]), q), "exact"
        return _direct(topology, min(c, LARGEST_RATIO[0]), q), "exact"
    return _bound(topology, c, q), "bound"


def _exact(topology: Topology, c: float, q: int) -> Array:
    """The maximum over all coalitions of exactly q members; a smaller one knows less."""
    whole = np.linalg.inv(np.eye(topology.n) + c * c * topology.laplacian().toarray())
    if q == 0:
        return np.diag(whole).copy()
    worst = np.zeros(topology.n)
    for members in combinations(range(topology.n), q):
        inverse = whole
        for j in members[:-1]:
            inverse = _without(topology, inverse, j, c)
        worst = np.maximum(worst, _diagonal_without(topology, inverse, members[-1], c))
    return worst


def _direct(topology: Topology, c: float, q: int) -> Array:
    """The same for many members, whose elimination one by one would lose all digits: each rest is
    inverted by itself."""
    adjacency = topology.adjacency().toarray()
    worst = np.zeros(topology.n)
    for members in combinations(range(topology.n), q):
        keep = np.delete(np.arange(topology.n), members)
        rest = adjacency[np.ix_(keep, keep)]
        inverse = np.linalg.inv(np.eye(len(keep)) + c * c * (np.diag(rest.sum(axis=0)) - rest))
        worst[keep] = np.maximum(worst[keep], np.diag(inverse))
    return worst


def _parts(topology: Topology, inverse: Array, j: int, c: float) -> tuple[Array, Array, Array]:
    """Block elimination of row j, then the edges of j taken off its neighbours' degrees (a low-rank
    change).

    The rows of members removed before are zero in `inverse`, and stay so.
    """
    column = inverse[:, j]
    near = topology.indices[topology.indptr[j] : topology.indptr[j + 1]]
    near = near[np.diag(inverse)[near] > 0]  # neighbours that are not removed themselves
    # Columns of the inverse without row j
    reduced = inverse[:, near] - np.outer(column, column[near] / column[j])
    core = np.linalg.inv(np.eye(len(near)) / (c * c) - reduced[near])
    return column, reduced, core


def _diagonal_without(topology: Topology, inverse: Array, j: int, c: float) -> Array:
    """The diagonal of the inverse without node j, in O(n deg^2); 0 at j."""
    column, reduced, core = _parts(topology, inverse, j, c)
    diagonal = np.diag(inverse) - column**2 / column[j] + np.sum((reduced @ core) * reduced, axis=1)
    diagonal[j] = 0.0
    return np.asarray(diagonal)


def _without(topology: Topology, inverse: Array, j: int, c: float) -> Array:
    """The inverse without node j, with a zero row and column in its place."""
    column, reduced, core = _parts(topology, inverse, j, c)
    smaller = inverse - np.outer(column, column / column[j]) + reduced @ core @ reduced.T
    smaller[j] = smaller[:, j] = 0.0
    return smaller


def _bound(topology: Topology, c: float, q: int) -> Array:
    """`_spread` with lambda = lambda_2(L) - q <= lambda_2(L_Q); 1 if that is not positive.

    Removing one node lowers lambda_2 by at most 1; where lambda > 0 the rest is connected, so its
    Laplacian has one zero only.
    """
    gap = topology.algebraic_connectivity * (1 - GAP_DIGITS) - q
    return np.full(topology.n, 1.0 if gap <= 0 else _spread(topology.n - q, c, gap))


def _spread(k: int, c: float, gap: float) -> float:
    """1/k + (1 - 1/k)/(1 + c^2 gap): h of k nodes whose Laplacian has one zero,
    and `gap` everywhere else."""
    return 1 / k + (1 - 1 / k) / (1 + c * c * gap)


def edge_streams(topology: Topology, nodes: Array) -> tuple[Array, Array, Array]:
    """For each of `nodes` its edges: (indptr (b + 1,), numbers of the edges, signs): plus at the
    smaller end, minus at the other."""
    first, second = topology.edges[:, 0], topology.edges[:, 1]
    number = np.arange(len(first))
    ends = np.concatenate([first, second])
    order = np.lexsort((np.concatenate([number, number]), ends))
    numbers = np.concatenate([number, number])[order]
    signs = np.concatenate([np.ones(len(first)), -np.ones(len(first))])[order]
    counts = topology.degrees[nodes]
    starts = np.concatenate([[0], np.cumsum(counts)])
    chosen = np.arange(starts[-1]) + np.repeat(topology.indptr[nodes] - starts[:-1], counts)
    return starts, numbers[chosen], signs[chosen]
