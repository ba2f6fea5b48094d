"""What a step may ask: the nodes hosted here, as a run offers them to an algorithm."""

from __future__ import annotations

from typing import Protocol

from tacenda._types import Array
from tacenda.privacy.secrets.bounded import Bounded
from tacenda.questions.facts import Facts, RecordMap
from tacenda.questions.statistics import Statistic


class Node(Protocol):
    """What a step may use: public numbers of its nodes, queries, releases, the neighbours.

    Arrays have a leading axis of length b, the nodes that are hosted here.

    Attributes
    ----------
    turn : int
        The round, t = 1, 2, ...
    rounds : int
        How many rounds there will be.
    n_nodes : int
        Number of nodes of the network.
    facts : Facts
        Public facts of the problem.

    Examples
    --------
    >>> import tacenda as tc
    >>> [name for name in ("gradient", "release", "mix") if hasattr(tc.algorithms.Node, name)]
    ['gradient', 'release', 'mix']
    """

    turn: int
    rounds: int
    n_nodes: int
    facts: Facts

    @property
    def degree(self) -> Array:
        """Number of neighbours, shape (b, 1)."""
        ...

    @property
    def is_hub(self) -> Array:
        """1.0 at the node that is joined to all others, else 0.0; shape (b, 1)."""
        ...

    @property
    def noise_multiplier(self) -> Array:
        """z of a release in this round, shape (b, 1); 0 without privacy.

        For step sizes that follow it.
        """
        ...

    def skip_mean(self) -> None:
        """Leave out the places in the round's calls of a `release_mean` that is not made."""
        ...

    def mean_std(self, unit: float, width: int, weight: float = 1.0) -> float:
        """Standard deviation of the noise of a `release_mean` that neighbours share.

        unit: what the value was divided by. width: its number of entries. weight: as there.
        """
        ...

    def gradient(
        self,
        w: Array,
        batch_size: int | None = None,
        *,
        one: bool = False,
        regularised: bool = True,
    ) -> Bounded:
        """Gradient of f_i at a public model.

        w: the models, shape (b, d). batch_size: mean size of a Poisson sample; None takes all
        records. one: draw exactly one record instead. regularised: whether the regulariser's
        gradient is part of it. Result: a private value with its sensitivity; only `release` makes
        numbers of it.
        """
        ...

    def second_moment(
        self, label_scale: float = 0.0, label_bound: float = 1.0, *, diagonal: bool = False
    ) -> Bounded:
        """Mean of z z' over the records, its upper triangle with off-diagonals times sqrt(2).

        z = x, or (x, label_scale * y) with y cut to label_bound; of several classes y is 1 in the
        place of one, and 0 in those of the others. `questions.moments.unpacked` makes matrices of
        it.

        label_scale: weight of the label in z; 0 leaves it out. diagonal: only the mean of each
        z_a^2, shape (b, p). Result: a private value of shape (b, p (p + 1)/2) for z of length p,
        with its sensitivity.
        """
        ...

    def statistic(self, statistic: Statistic, w: Array) -> Bounded:
        """Sum of the records' vectors of a statistic at a public model.

        statistic: what is asked of every record (`tacenda.questions.statistics`). w: the models,
        shape (b, d). Result: a private value of shape (b, statistic.length) with its sensitivity.
        """
        ...

    def mapped(self, by: RecordMap) -> Node:
        """The same nodes on mapped records x' = matrix' x.

        Its facts are those of the new records, and its models v (b, k) mean w = matrix v.

        by: the public map.
        """
        ...

    def argmin(self, linear: Array | Bounded, quadratic: Array, centre: Array | Bounded) -> Bounded:
        """argmin f_i(w) + linear.w + quadratic |w - centre|^2.

        linear: shape (b, d). quadratic: shape (b, 1), above 0. centre: shape (b, d). Result: A
        private value with its sensitivity; only `release` makes numbers of it.
        """
        ...

    def release(
        self,
        value: Bounded,
        *,
        noise: str = "gaussian",
        relative_std: float | None = None,
        weight: float = 1.0,
    ) -> Array:
        """Add noise to a private value, after its cost was charged to the ledger.

        noise: "gaussian", "l2-laplace" or "correlated". relative_std: factor of the noise in this
        round, for an algorithm that shapes it over the run. weight: share of the budget, where 1 is
        the share of a usual release of the round. Result: public from here on, shape (b, d).
        """
        ...

    def release_mean(self, value: Bounded, *, noise: str = "masked", weight: float = 1.0) -> Array:
        """Mean of a private value over the network with noise, to the bit the same at every node.

        Of several groups (`Method.groups`), what a public rule makes of their means.

        noise: "masked" (only the sum, or each group's, is readable) or "independent". weight: share
        of the budget, as in `release`. Result: public from here on, shape (b, d).
        """
        ...

    def average(self, shared: Array, *, known: bool = False) -> Array:
        """Exact mean of released rows over the network, to the bit the same at every node.

        Of several groups, what a public rule makes of their means.

        shared: released rows, shape (b, d). known: True if all nodes hold the same row; then it is
        the mean, and nothing is sent. Result: shape (b, d).
        """
        ...

    def release_argmin(
        self, linear: Array, quadratic: Array, centre: Array | Bounded, *, noise: str = "l2-laplace"
    ) -> Array:
        """The argmin with noise inside its objective, after its cost was charged to the ledger.

        linear: shape (b, d). quadratic: shape (b, 1), above 0. centre: shape (b, d), released; an
        unreleased one costs far more. noise: density of the noise inside the objective. Result:
        public from here on, shape (b, d).
        """
        ...

    def neighbour_sum(self, shared: Array, senders: Array | None = None) -> Array:
        """Sum of the neighbours' released rows.

        shared: what each node sends, shape (b, d). senders: 1.0 where a node sends, shape (b, 1);
        all send by default. Result: shape (b, d).
        """
        ...

    def mix(self, shared: Array) -> Array:
        """sum_j W_ij shared_j with the run's mixing matrix W.

        shared: what each node sends, shape (b, d). Result: shape (b, d).
        """
        ...

    def prox(self, w: Array, weight: Array | float) -> Array:
        """argmin_v weight * r R(v) + |v - w|^2 / 2.

        w: released models, shape (b, d). weight: A number or (b, 1). Result: shape (b, d).
        """
        ...

    def dual_step(self, z: Array, weight: float, quadratic: float) -> Array:
        """argmin_x <z, x> + weight * r R(x) + (quadratic/2)|x|^2.

        z: shape (b, d). weight: above 0. quadratic: 0 or above. Result: shape (b, d).
        """
        ...
