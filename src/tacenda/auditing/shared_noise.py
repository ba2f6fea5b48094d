"""Attacks on noise that neighbours share: likelihood ratios under the declared noise and under the
faults that it may have.

In units of a node's own standard deviation, release t of the run adds e_t = own + c N z_t to the n
values, z_t the edges' normals and N (n, edges) their signs. Who holds some of the streams sees u_t
= (e_t, those z_t). If u has mean 0 and some covariance, the log likelihood ratio of two worlds,
whose residuals u^0 and u^1 differ in the attacked node's row alone, is a quadratic form of
residuals; over K releases jointly, with the mean over the releases apart from the deviations from
it,

    score = 1/2 sum_t (u^0_t W u^0_t - u^1_t W u^1_t) + K/2 (m^0 (M - W) m^0 - m^1 (M - W) m^1),
    m the mean of the u_t,

W the inverse covariance of deviations, M that of sqrt(K) m; fresh noise has W = M. By Neyman and
Pearson this score is the best one where the supposed covariance is the true one; with any other it
is still valid, and weaker. Suppositions:

    as declared       e of covariance I + c^2 N N'
    no edge noise     I
    edges reused      the same z in every release: M of covariance I + K c^2 N N', W of I
    same sign         both ends of an edge add: |N| instead of N
    as measured       covariances of (e, z) from trials that are used for nothing else: finds what
                      nobody thought of, also an edge whose stream somebody else holds under another
                      name
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from tacenda.auditing.listeners import Listener, worst_coalition
from tacenda.graph.topology import Topology

Array = NDArray[Any]
# added to covariances, in units of a node's own variance: a fault may leave no noise at all
TINY = 1e-9
SUPPOSED = ("as declared", "no edge noise", "edges reused", "same sign")
UNLIKELY = 1e-4  # a p-value below this says that the noise is not as declared


@dataclass(frozen=True, eq=False)
class Attacks:
    """Rows (A, n + E) of W and M at the attacked node, one for each attack; columns: n nodes, then
    the E edges of `edges`."""

    node: int
    names: tuple[tuple[str, str], ...]  # (who listens, what it supposes)
    edges: Array
    within: Array
    mean: Array

    @property
    def titles(self) -> list[str]:
        return [self.title(*name) for name in self.names]

    @property
    def forms(self) -> tuple[Array, ...]:
        """What the scores depend on."""
        return self.within, self.mean

    def residuals(self, truth: Array) -> Residuals:
        return Residuals(self, truth)

    @staticmethod
    def title(who: str, what: str) -> str:
        return f"{who}, noise {what}" if what.startswith("as ") else f"{who}, supposing {what}"


@dataclass(frozen=True, eq=False)
class Moments:
    """Second moments (n + E, n + E) of residuals: sums of squares of deviations and of the scaled
    mean, with their numbers."""

    within: Array
    within_of: int
    mean: Array
    mean_of: int


def known_streams(found: list[Listener]) -> Array:
    """The numbers of all edges whose streams any of them holds."""
    return np.unique(np.concatenate([one.edges for one in found]))


def covariance(
    topology: Topology, ratio: float, edges: Array, supposed: str, releases: int
) -> tuple[Array, Array]:
    """(of deviations, of sqrt(K) times the mean), each (n + E, n + E), of residuals and the streams
    of `edges`."""
    n, c = topology.n, ratio
    signs = np.abs(_signs(topology)) if supposed == "same sign" else _signs(topology)

    def of(loud: float) -> Array:
        """Covariance where the edges have variance `loud`."""
        cross = loud * c * signs[:, edges]
        return np.block(
            [
                [np.eye(n) + loud * c * c * signs @ signs.T, cross],
                [cross.T, loud * np.eye(len(edges))],
            ]
        )

    if supposed == "no edge noise":
        alone = np.eye(n + len(edges))
        return alone, alone
    return (of(0.0), of(float(releases))) if supposed == "edges reused" else (of(1.0), of(1.0))


def plan_attacks(
    topology: Topology,
    ratio: float,
    node: int,
    heard: list[Listener],
    releases: int,
    measured: Moments | None,
) -> Attacks:
    """Every listener with every supposition. The first is the declared noise as the worst coalition
    sees it."""
    edges, n = known_streams(heard), topology.n
    names, within, mean = [], [], []
    for supposed in (*SUPPOSED, "as measured"):
        if supposed == "as measured":
            if measured is None:
                continue
            parts = (measured.within / measured.within_of, measured.mean / measured.mean_of)
        else:
            parts = covariance(topology, ratio, edges, supposed, releases)
        for one in heard:
            if supposed == "no edge noise" and one.members:
                continue  # streams that are not there help nobody
            seen = np.concatenate([np.arange(n), n + np.searchsorted(edges, one.edges)])
            names.append((one.title, supposed))
            within.append(_row(parts[0], seen, node))
            mean.append(_row(parts[1], seen, node))
    return Attacks(node, tuple(names), edges, np.array(within), np.array(mean))


def _declared_row(topology: Topology, ratio: float, members: tuple[int, ...], node: int) -> Array:
    """(n + all edges,) the attacked node's row for the declared noise, with the members' streams
    taken off."""
    signs = _signs(topology)
    held = np.isin(topology.edges, members).any(axis=1)
    rest = signs[:, ~held]
    row = np.linalg.inv(np.eye(topology.n) + ratio**2 * rest @ rest.T)[node]
    return np.concatenate([row, -ratio * (row @ signs) * held])


def _signs(topology: Topology) -> Array:
    """(n, edges) N: plus at the smaller end, minus at the other."""
    signs, number = np.zeros((topology.n, len(topology.edges))), np.arange(len(topology.edges))
    signs[topology.edges[:, 0], number], signs[topology.edges[:, 1], number] = 1.0, -1.0
    return signs


def _row(covariance: Array, seen: Array, node: int) -> Array:
    """The attacked node's row of the inverse of what is seen, with zeros elsewhere."""
    part = covariance[np.ix_(seen, seen)]
    unit = np.zeros(len(seen))
    unit[node] = 1.0
    row = np.zeros(len(covariance))
    row[seen] = np.linalg.solve(part + TINY * np.eye(len(seen)), unit)
    return row


class Residuals:
    """What all attacks keep of the releases of a block of trials: their scores so far, and sums
    over the releases."""

    def __init__(self, attacks: Attacks, truth: Array) -> None:
        self._attacks, self._truth = attacks, truth
        self.releases = 0
        self._score = np.zeros((len(truth), len(attacks.names)))
        self._sums: Any = 0.0
        self._shifts: Any = 0.0
        self._squares: Any = 0.0

    def note(self, far: tuple[Array, Array], streams: Array) -> None:
        """far: both worlds' residuals (trials, n, d) in units of the nodes' own noise; streams
        (trials, E, d)."""
        node = self._attacks.node
        self.releases += 1
        both = np.concatenate([far[0] + far[1], 2 * streams], axis=1)
        shift = far[0][:, node] - far[1][:, node]
        self._score += _product(both, shift, self._attacks.within)
        self._sums, self._shifts = self._sums + both, self._shifts + shift
        true = np.where(self._truth[:, None, None] == 0, *far)
        noise = np.concatenate([true, streams], axis=1)
        self._squares = self._squares + np.einsum("tid,tjd->ij", noise, noise, optimize=True)

    def scores(self) -> Array:
        """(trials, A) of everything that was noted."""
        more = self._attacks.mean - self._attacks.within
        return np.asarray(
            self._score + _product(self._sums, self._shifts, more) / max(self.releases, 1)
        )

    def moments(self) -> Moments:
        """Of the true residuals, which whoever runs the audit knows."""
        k, node = self.releases, self._attacks.node
        total = (
            self._sums / 2
        )  # the worlds' mean; the attacked row is put right by the true world's half of the shift
        sign = np.where(self._truth == 0, 0.5, -0.5)
        total = total.copy()
        total[:, node] += sign[:, None] * self._shifts
        mean = np.einsum("tid,tjd->ij", total, total, optimize=True) / k
        count = len(self._truth) * total.shape[2]
        if k == 1:
            return Moments(mean, count, mean, count)
        return Moments(self._squares - mean, count * (k - 1), mean, count)


def _product(both: Array, shift: Array, rows: Array) -> Array:
    """(trials, A) 1/2 sum over coordinates of shift * (rows both)."""
    return np.asarray(np.einsum("td,aj,tjd->ta", shift, rows, both, optimize=True) / 2)


class SharedScores:
    """Scores of many canaries in one run: each is attacked at its own node, with the rows of W and
    M that belong to it.

    Attacks: for each node its worst coalition, with the noise as declared; and an eavesdropper with
    every supposition.
    """

    def __init__(
        self, topology: Topology, ratio: float, coalition: int, releases: int, owner: Array
    ) -> None:
        self._owner, self._releases = owner, releases
        none = np.zeros(0, np.int64)
        self.names = (
            [f"the worst {coalition} of the others for each node, noise as declared"]
            if coalition
            else []
        )
        self.names += [Attacks.title("an eavesdropper", supposed) for supposed in SUPPOSED]
        within: list[list[Array]] = []
        mean: list[list[Array]] = []
        if coalition:
            known = [
                worst_coalition(topology, ratio, coalition, node) for node in range(topology.n)
            ]
            within.append(
                [
                    _declared_row(topology, ratio, members, node)
                    for node, members in enumerate(known)
                ]
            )
            mean.append(within[0])
        for supposed in SUPPOSED:
            for part, rows in zip(
                covariance(topology, ratio, none, supposed, releases), (within, mean), strict=True
            ):
                rows.append(list(np.pad(np.linalg.inv(part), ((0, 0), (0, len(topology.edges))))))
        self._within: Array = np.array(within)
        self._mean: Array = np.array(mean)
        self._score = np.zeros((len(owner), len(self.names)))
        self._sums: Any = 0.0
        self._shifts: Any = 0.0

    def note(self, middle: Array, streams: Array, shift: Array) -> None:
        """middle (n, d): residuals with every canary halfway, streams (E, d), shift (m, d): all in
        units of own noise."""
        both = np.vstack([middle, streams])
        self._score += self._product(self._within, both, shift)
        self._sums, self._shifts = self._sums + both, self._shifts + shift

    def scores(self) -> Array:
        """(m, attacks)."""
        return (
            self._score
            + self._product(self._mean - self._within, self._sums, self._shifts) / self._releases
        )

    def _product(self, rows: Array, both: Array, shift: Array) -> Array:
        leaning = rows @ both  # (attacks, n, d)
        return np.stack([np.einsum("md,md->m", shift, one[self._owner]) for one in leaning], axis=1)


def declared_chance(
    moments: Moments, topology: Topology, ratio: float, edges: Array, releases: int
) -> float:
    """A p-value of "the noise is as declared": likelihood-ratio tests of both covariances, at twice
    the smaller p."""
    within, mean = covariance(topology, ratio, edges, "as declared", releases)
    found = [_likelihood_test(moments.mean, moments.mean_of, mean)]
    if releases > 1:
        found.append(_likelihood_test(moments.within, moments.within_of, within))
    return min(1.0, len(found) * min(found))


def _likelihood_test(squares: Array, count: int, covariance: Array) -> float:
    """The chance of moments at least as unlike the covariance, by Bartlett's corrected
    chi-square."""
    d = len(covariance)
    root = np.linalg.inv(np.linalg.cholesky(covariance))
    whitened = root @ squares @ root.T / count
    sign, logdet = np.linalg.slogdet(whitened)
    if sign <= 0:
        return 0.0
    factor = 1 - (2 * d + 1 - 2 / (d + 1)) / (6 * count)
    return float(
        chdtrc(d * (d + 1) / 2, max(0.0, factor * count * (np.trace(whitened) - logdet - d)))
    )
