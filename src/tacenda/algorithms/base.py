"""What an algorithm is: hyperparameters in a frozen dataclass, a released state, one round: `step`.

An algorithm is written for one node. Its arrays carry a leading axis of length b, the nodes hosted
in this block, and no step ever reduces over that axis; so the same file runs as a vectorised
simulation, on a few blocks, or as a single peer.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from tacenda import checks, schedules
from tacenda._types import Array as Array  # part of what an algorithm is written with
from tacenda.algorithms.published import Published, Sites, Verdict, not_printed, prints_noise
from tacenda.errors import UnsupportedError
from tacenda.graph.topology import Topology
from tacenda.privacy.accounting.final_model import Descent
from tacenda.privacy.secrets.bounded import Bounded
from tacenda.privacy.settings import Privacy
from tacenda.problem.custom_regulariser import CustomRegulariser
from tacenda.problem.facts import Facts
from tacenda.problem.statistics import Statistic


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
    memo : dict
        What an algorithm has worked out from public numbers and wants to find in the next round;
        empty again when the network changes. No state: a resumed run begins with none.

    Examples
    --------
    >>> import tacenda as tc
    >>> [name for name in ("gradient", "release", "mix") if hasattr(tc.algorithms.Node, name)]
    ['gradient', 'release', 'mix']
    """

    turn: int  # the round, t = 1, 2, ...
    rounds: int  # how many there will be
    n_nodes: int
    facts: Facts
    memo: dict[str, Any]

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

    def skip(self, places: int) -> None:
        """Leave out so many places of the round's calls: those of a release that is not made.

        Parameters
        ----------
        places : int
            How many.
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

        Parameters
        ----------
        w : ndarray
            The models, shape (b, d).
        batch_size : int or None, default=None
            Mean size of a Poisson sample; None takes all records.
        one : bool, default=False
            Draw exactly one record instead.
        regularised : bool, default=True
            Whether the regulariser's gradient is part of it.

        Returns
        -------
        Bounded
            A private value with its sensitivity; only `release` makes numbers of it.
        """
        ...

    def second_moment(
        self, label_scale: float = 0.0, label_bound: float = 1.0, *, diagonal: bool = False
    ) -> Bounded:
        """Mean of z z' over the records, its upper triangle with off-diagonals times sqrt(2).

        z = x, or (x, label_scale * y) with y cut to label_bound. `problem.moments.unpacked` makes
        matrices of it.

        Parameters
        ----------
        label_scale : float, default=0.0
            Weight of the label in z; 0 leaves it out.
        label_bound : float, default=1.0
            To which labels are cut.
        diagonal : bool, default=False
            Only the mean of each z_a^2, shape (b, p).

        Returns
        -------
        Bounded
            A private value of shape (b, p (p + 1)/2) for z of length p, with its sensitivity.
        """
        ...

    def statistic(self, statistic: Statistic, w: Array) -> Bounded:
        """Sum of the records' vectors of a statistic at a public model.

        Parameters
        ----------
        statistic : Statistic
            What is asked of every record (`tacenda.problem.statistics`).
        w : ndarray
            The models, shape (b, d).

        Returns
        -------
        Bounded
            A private value of shape (b, statistic.length) with its sensitivity.
        """
        ...

    def mapped(
        self,
        matrix: Array,
        norm: float,
        clip_norm: float | None = None,
        smoothness: float | None = None,
        strength: float | None = None,
    ) -> Node:
        """The same nodes on records x' = matrix' x, cut to `norm`.

        Its facts are those of the new records, and its models v (b, k) mean w = matrix v.

        Parameters
        ----------
        matrix : ndarray
            Public, shape (d, k), or (d,) for a diagonal one.
        norm : float
            The new public bound on every row.
        clip_norm : float or None, default=None
            The new bound to which gradients are clipped.
        smoothness : float or None, default=None
            A bound on the curvature of the mean loss there, if a release taught one.
        strength : float or None, default=None
            Of the regulariser there, if a release taught one; None: the declared one.

        Returns
        -------
        Node
            The nodes with mapped records.
        """
        ...

    def argmin(self, linear: Array | Bounded, quadratic: Array, centre: Array | Bounded) -> Bounded:
        """argmin f_i(w) + linear.w + quadratic |w - centre|^2.

        Parameters
        ----------
        linear : ndarray or Bounded
            Shape (b, d).
        quadratic : ndarray
            Shape (b, 1), above 0.
        centre : ndarray or Bounded
            Shape (b, d).

        Returns
        -------
        Bounded
            A private value with its sensitivity; only `release` makes numbers of it.
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

        Parameters
        ----------
        value : Bounded
            What is released.
        noise : str, default="gaussian"
            "gaussian", "l2-laplace" or "correlated".
        relative_std : float or None, default=None
            Factor of the noise in this round, for an algorithm that shapes it over the run.
        weight : float, default=1.0
            Share of the budget, where 1 is the share of a usual release of the round.

        Returns
        -------
        ndarray
            Public from here on, shape (b, d).
        """
        ...

    def release_mean(self, value: Bounded, *, noise: str = "masked", weight: float = 1.0) -> Array:
        """Mean of a private value over the network with noise, to the bit the same at every node.

        Parameters
        ----------
        value : Bounded
            What is released.
        noise : str, default="masked"
            "masked" (only the network's sum is readable) or "independent".
        weight : float, default=1.0
            Share of the budget, as in `release`.

        Returns
        -------
        ndarray
            Public from here on, shape (b, d).
        """
        ...

    def average(self, shared: Array) -> Array:
        """Exact mean of released rows over the network, to the bit the same at every node.

        Parameters
        ----------
        shared : ndarray
            Released rows, shape (b, d).

        Returns
        -------
        ndarray
            Shape (b, d).
        """
        ...

    def release_argmin(
        self, linear: Array, quadratic: Array, centre: Array, *, noise: str = "l2-laplace"
    ) -> Array:
        """The argmin with noise inside its objective, after its cost was charged to the ledger.

        Parameters
        ----------
        linear : ndarray
            Shape (b, d).
        quadratic : ndarray
            Shape (b, 1), above 0.
        centre : ndarray
            Shape (b, d).
        noise : {"l2-laplace", "gaussian"}, default="l2-laplace"
            Density of the noise inside the objective.

        Returns
        -------
        ndarray
            Public from here on, shape (b, d).
        """
        ...

    def neighbour_sum(self, shared: Array, senders: Array | None = None) -> Array:
        """Sum of the neighbours' released rows.

        Parameters
        ----------
        shared : ndarray
            What each node sends, shape (b, d).
        senders : ndarray or None, default=None
            1.0 where a node sends, shape (b, 1); all send by default.

        Returns
        -------
        ndarray
            Shape (b, d).
        """
        ...

    def mix(self, shared: Array) -> Array:
        """sum_j W_ij shared_j with the run's mixing matrix W.

        Parameters
        ----------
        shared : ndarray
            What each node sends, shape (b, d).

        Returns
        -------
        ndarray
            Shape (b, d).
        """
        ...

    def prox(self, w: Array, weight: Array | float) -> Array:
        """argmin_v weight * r R(v) + |v - w|^2 / 2.

        Parameters
        ----------
        w : ndarray
            Released models, shape (b, d).
        weight : ndarray or float
            A number or (b, 1).

        Returns
        -------
        ndarray
            Shape (b, d).
        """
        ...

    def dual_step(self, z: Array, weight: float, quadratic: float) -> Array:
        """argmin_x <z, x> + weight * r R(x) + (quadratic/2)|x|^2.

        Parameters
        ----------
        z : ndarray
            Shape (b, d).
        weight : float
            Above 0.
        quadratic : float
            0 or above.

        Returns
        -------
        ndarray
            Shape (b, d).
        """
        ...


OBJECTIVE_NOISES = ("l2-laplace", "gaussian")  # inside an argmin


@dataclass(frozen=True)
class Needs:
    """What an algorithm requires of its problem and graph.

    Parameters
    ----------
    smooth_loss : bool, default=False
        The loss has a Lipschitz gradient.
    bounded_curvature : bool, default=False
        The loss has a bounded curvature, from which the step follows.
    twice_differentiable_loss : bool, default=False
        The loss has a Hessian everywhere.
    smooth_regulariser : bool, default=False
        The regulariser has no l1 part.
    strongly_convex_regulariser : bool, default=False
        The regulariser has an l2 part of positive strength.
    bounded_loss_slope : bool, default=False
        When private, the loss itself has a bounded slope; clipping does not bound a minimiser.
    hub : bool, default=False
        One node is joined to all others.
    squared_loss : bool, default=False
        The loss is the squared one.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.algorithms.DPADMM.needs.hub
    True
    """

    smooth_loss: bool = False
    bounded_curvature: bool = False  # of the loss, from which the step follows
    twice_differentiable_loss: bool = False
    smooth_regulariser: bool = False
    strongly_convex_regulariser: bool = False
    # When private: an argmin is bounded by the loss itself, clipping does not help.
    bounded_loss_slope: bool = False
    hub: bool = False
    squared_loss: bool = False


class Algorithm(ABC):
    """Base of all algorithms: names, needs, and defaults for what most of them share.

    A subclass is a frozen dataclass of hyperparameters; docs/adding-an-algorithm.md writes one.

    Attributes
    ----------
    name : str
        The name in files and on the command line.
    title : str
        The name in tables.
    source : str
        Paper and equations.
    private : bool
        Whether it takes a privacy budget.
    default_output : str
        "last" or "average".
    default_rounds : int
        Rounds where none are given.
    needs : Needs
        What it requires of problem and graph.
    verdict : Verdict or None
        What is known about the noise that its paper publishes.
    batch_size : int or None
        Mean size of a sample, for those that can take one.

    Examples
    --------
    >>> import tacenda as tc
    >>> issubclass(tc.algorithms.CDPADMM, tc.algorithms.Algorithm)
    True
    """

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]  # paper and equations
    private: ClassVar[bool] = True
    default_output: ClassVar[str] = "last"
    default_rounds: ClassVar[int] = 100  # where it is named without rounds
    needs: ClassVar[Needs] = Needs()
    verdict: ClassVar[Verdict | None] = None  # on the noise that its paper prints
    batch_size: int | None = None  # the mean size of a sample, for those that can take one

    def __init_subclass__(cls, **options: Any) -> None:
        """What is derived from a published method is another one: no paper's word is inherited."""
        super().__init_subclass__(**options)
        for name in ("published_noise", "verdict"):
            if name not in vars(cls):
                setattr(cls, name, getattr(Algorithm, name))

    @abstractmethod
    def init(self, node: Node, w: Array) -> Any:
        """State before round 1.

        Parameters
        ----------
        node : Node
            The nodes hosted here.
        w : ndarray
            The public starting point, shape (b, d).

        Returns
        -------
        object
            The algorithm's own state.
        """

    @abstractmethod
    def step(self, state: Any, node: Node) -> Any:
        """One round.

        Parameters
        ----------
        state : object
            The state before it.
        node : Node
            The nodes hosted here.

        Returns
        -------
        object
            The state after it.
        """

    @abstractmethod
    def iterate(self, state: Any) -> Array:
        """This round's released model, the one that is averaged.

        Parameters
        ----------
        state : object
            The state after a round.

        Returns
        -------
        ndarray
            Shape (b, d).
        """

    def last(self, state: Any) -> Array:
        """Newest released model.

        Parameters
        ----------
        state : object
            The state after a round.

        Returns
        -------
        ndarray
            Shape (b, d).
        """
        return self.iterate(state)

    def restart(self, state: Any, node: Node) -> Any:
        """State to continue with when the neighbours have changed: the newest model, else new.

        Parameters
        ----------
        state : object
            The state after a round.
        node : Node
            The nodes hosted here, with their new neighbours.

        Returns
        -------
        object
            A state as after `init`.
        """
        return self.init(node, np.array(self.last(state)))

    def released(self, state: Any) -> dict[str, Array]:
        """What a run leaves beside its models for post-processing, the same at every node.

        Parameters
        ----------
        state : object
            The state after the last round.

        Returns
        -------
        dict
            Arrays by name.
        """
        return {}

    def noise_std(self, state: Any, facts: Facts, rounds: int) -> Array | None:
        """Standard deviation that the noise of all releases gives each coordinate of the output.

        It follows from released values and public facts alone.

        Parameters
        ----------
        state : object
            The state after the last round.
        facts : Facts
            Public facts of the problem.
        rounds : int
            Number of rounds.

        Returns
        -------
        ndarray or None
            Shape (d,), for the algorithm's own output rule; None where it is not known.
        """
        return None

    def averaging_weight(self, turn: int, rounds: int) -> float:
        """Weight of one round in the average of the iterates.

        Parameters
        ----------
        turn : int
            The round, from 1.
        rounds : int
            How many rounds there are.

        Returns
        -------
        float
            0 or above.
        """
        return 1.0

    def check(self, facts: Facts, topology: Topology, rounds: int, private: bool) -> None:
        """Refuse a problem or graph that the algorithm does not support; the message names both.

        Parameters
        ----------
        facts : Facts
            Public facts of the problem.
        topology : Topology
            The network.
        rounds : int
            Number of rounds.
        private : bool
            Whether the run has a budget.

        Raises
        ------
        UnsupportedError
            If they do not go together.
        """
        check_needs(self, facts, topology, private)

    # ---- what the rest of the program asks of an algorithm
    @property
    def shared_noise(self) -> float | None:
        """Noise of a node on each edge over its own, where neighbours share noise; else None.

        Infinite where neighbours mask.
        """
        return math.inf if self.masks else None

    @property
    def masks(self) -> bool:
        """Whether neighbours hide their messages under masks that cancel in the network's sum."""
        return False

    @property
    def repeats_releases(self) -> bool:
        """Whether, with these settings, every round makes the releases of the first over again.

        They may differ in `relative_std` alone. Their noise is then worked out from two rounds
        instead of all. A claim that is not true ends the run at the first release that differs:
        nothing is drawn that was not reserved. A class with a step of its own has to say it anew.
        """
        return False

    def relative_std(self, turn: int) -> float | None:
        """Noise of a round over a scale common to all rounds, where the method has its own rule.

        `step` must give the same number to `release`.

        Parameters
        ----------
        turn : int
            The round, from 1.

        Returns
        -------
        float or None
            Above 0. None: the noise is in proportion to the sensitivity of what is released.
        """
        return None

    @property
    def uses_start(self) -> bool:
        """Whether a given starting model matters; else the method begins at its own."""
        return True

    @property
    def mixes(self) -> bool:
        """Whether neighbours exchange models by `node.mix` alone, so that edges may vary."""
        return False

    @property
    def agrees(self) -> bool:
        """Whether every node ends a round with one and the same model; no closing rounds then."""
        return False

    @property
    def learns(self) -> bool:
        """Whether round 1 begins with a release of its own, from which all others follow."""
        return False

    def learn(self, s: Any, node: Node) -> Any:
        """Make what all rounds build on, where the state has none yet (`learns`).

        Parameters
        ----------
        s : object
            The state.
        node : Node
            The nodes, at the beginning of a round.

        Returns
        -------
        object
            The state; by default as it is.
        """
        return s

    def has_learned(self, s: Any) -> bool:
        """Whether the state holds what `learn` makes.

        Parameters
        ----------
        s : object
            The state.

        Returns
        -------
        bool
            True once it does; by default True.
        """
        return True

    def finished(self, state: Any) -> bool:
        """Whether further rounds would change nothing.

        Asked only without privacy: when a private run ends must not depend on records.

        Parameters
        ----------
        state : object
            The state after a round.

        Returns
        -------
        bool
            True ends the run.
        """
        return False

    @property
    def samples_records(self) -> bool:
        """Whether a round asks for a sample of the records instead of all."""
        return self.batch_size is not None

    @property
    def draws_one_record(self) -> bool:
        """Whether that sample is exactly one record."""
        return False

    @property
    def noise_in_objective(self) -> bool:
        """Whether any release draws its noise inside an objective."""
        return self.needs.twice_differentiable_loss

    @property
    def keeps_secret(self) -> bool:
        """Whether the state holds an unreleased value, as one paper does; it is never saved."""
        return False

    @property
    def only_means(self) -> bool:
        """Whether models depend on what nodes release through exact means over the network only.

        The sensitivity of each released value falls with the node's size as a gradient's does.
        """
        return False

    def largest_mean(self, facts: Facts, records: float, noise: float) -> float:
        """How large a coordinate of a message behind an exact mean may be, where `only_means`.

        Parameters
        ----------
        facts : Facts
            The public facts.
        records : float
            No node has more.
        noise : float
            No noise is larger, in units of how far one record moves the value.

        Returns
        -------
        float
            The bound; by default that of gradients in units of how far one record moves them.
        """
        return records + noise

    def descent(self, facts: Facts, rounds: int, output: str) -> Descent | None:
        """Steps of a descent, each of which is known to bring two models no further apart.

        Parameters
        ----------
        facts : Facts
            The public facts.
        rounds : int
            Number of rounds.
        output : str
            "average" or "last".

        Returns
        -------
        Descent or None
            The steps; None where that is not known.
        """
        return None

    @property
    def follows(self) -> bool:
        """Whether clip and step may be chosen from what was released before the first round.

        Its noise is then in units of the sensitivity, and its step in units of 1/smoothness.
        """
        return False

    @property
    def steps_per_round(self) -> int:
        """Passes over a node's records in one round."""
        return 1

    def spends(self, facts: Facts, degree: Array, rounds: int) -> Array | float:
        """What a run's releases cost together at noise scale 1, as mu^2.

        Parameters
        ----------
        facts : Facts
            Public facts of the problem.
        degree : ndarray
            Number of neighbours, shape (b, 1).
        rounds : int
            Number of rounds.

        Returns
        -------
        ndarray or float
            Their number, or (b, 1) where the algorithm shapes its noise by itself
            (relative_std).
        """
        return float(rounds * self.steps_per_round)

    @property
    def exchanges_per_round(self) -> int:
        """Messages that a node sends to each neighbour in one round."""
        return 1

    def published_noise(
        self, facts: Facts, sites: Sites, weights: Array, privacy: Privacy
    ) -> Published:
        """The paper's own noise for a run; never inherited.

        Parameters
        ----------
        facts : Facts
            Public facts of the problem.
        sites : Sites
            What the run releases.
        weights : ndarray
            Weights of the rounds.
        privacy : Privacy
            The budget; `privacy.noise` may hold the paper's own input instead of an epsilon
            (`Privacy.from_paper`).

        Returns
        -------
        Published
            The noise and what the paper claims for it.

        Raises
        ------
        UnsupportedError
            If no paper publishes noise for this algorithm.
        """
        raise not_printed(self)

    def published_form(self) -> Algorithm:
        """The algorithm as published.

        Returns
        -------
        Algorithm
            The same algorithm, in the form that its paper gives.

        Raises
        ------
        UnsupportedError
            If no paper publishes noise for this algorithm.
        """
        if not prints_noise(type(self)) or self.shared_noise is not None:
            raise not_printed(self)
        return self

    def advice(self, facts: Facts, topology: Topology, rounds: int) -> list[str]:
        """Warnings about settings that may not converge.

        Parameters
        ----------
        facts : Facts
            Public facts of the problem.
        topology : Topology
            The network.
        rounds : int
            Number of rounds.

        Returns
        -------
        list of str
            One sentence each.
        """
        return []

    def at_nodes(self, positions: Array) -> Algorithm:
        """The algorithm as the nodes at these positions run it.

        Parameters
        ----------
        positions : ndarray of int
            Shape (b,); a position may occur more than once.

        Returns
        -------
        Algorithm
            With the values of these nodes where a hyperparameter is one for each node
            (`schedules.PerNode`); else the same object.
        """
        own = {
            name: value.at_nodes(positions)
            for name, value in self._fields().items()
            if isinstance(value, (schedules.PerNode, Algorithm))
        }
        changed = {name: value for name, value in own.items() if value is not getattr(self, name)}
        return dataclasses.replace(self, **changed) if changed else self  # type: ignore[type-var]

    def node_kinds(self, n: int) -> Array:
        """Which nodes have equal hyperparameters.

        Parameters
        ----------
        n : int
            Number of nodes.

        Returns
        -------
        ndarray of int
            Shape (n, k), equal rows for nodes that are alike; k = 0 where all nodes are.

        Raises
        ------
        InputError
            If a hyperparameter has values for another number of nodes.
        """
        columns = [np.zeros((n, 0), np.int64)]
        for name, value in self._fields().items():
            if isinstance(value, Algorithm):
                columns.append(value.node_kinds(n))
            elif isinstance(value, schedules.PerNode):
                schedules.check_nodes(f"{type(self).__name__}.{name}", value, n)
                columns.append(value.kinds()[:, None])
        return np.concatenate(columns, axis=1)

    def _fields(self) -> dict[str, Any]:
        names = [f.name for f in dataclasses.fields(self)]  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in names}

    def to_plain(self) -> dict[str, Any]:
        """Name and hyperparameters as plain values, for files.

        Returns
        -------
        dict
            What `from_plain` reads back.
        """
        values = {name: schedules.to_plain(value) for name, value in self._fields().items()}
        return {"name": self.name, **values}


def check_needs(algorithm: Algorithm, facts: Facts, topology: Topology, private: bool) -> None:
    """The declared needs against the problem's declared properties."""
    needs, constants, name = algorithm.needs, facts.constants, algorithm.title
    loss, regulariser = constants.loss, constants.regulariser
    inside = needs.twice_differentiable_loss and algorithm.noise_in_objective
    if inside and private and not loss.twice_differentiable:
        raise UnsupportedError(
            f"{name} perturbs the objective, which needs a twice differentiable loss; "
            f"{loss.name!r} is not. "
            "Use 'logistic' or 'multinomial', "
            "or an algorithm with noise on the released value (IPADMM, PVP, DPDDA)."
        )
    if needs.smooth_loss and not loss.smooth:
        raise UnsupportedError(
            f"{name} solves for an exact minimiser, which needs a smooth loss; "
            f"{loss.name!r} is not smooth. "
            "Use 'smoothed-hinge' or 'huber', or a linearised algorithm (IPADMM, CDPADMM, DPDDA)."
        )
    if needs.bounded_curvature and not loss.smooth:
        raise UnsupportedError(
            f"{name} takes its step from the curvature of the loss, and {loss.name!r} "
            "has no bounded one. Use 'smoothed-hinge' or 'huber', or an algorithm with a step "
            "of its own (GossipGD, DPDDA)."
        )
    if needs.smooth_regulariser and not regulariser.smooth:
        raise UnsupportedError(
            f"{name} needs a smooth regulariser; {regulariser.name!r} is not. "
            "Use 'l2' or 'none', or an algorithm that takes the regulariser by its prox (IPADMM, "
            "CDPADMM, DPDDA)."
        )
    own = isinstance(regulariser, CustomRegulariser)
    if own and (needs.smooth_loss or needs.squared_loss):
        raise UnsupportedError(
            f"{name} solves for a minimiser, whose noise follows from the regulariser's strong "
            f"convexity; that of {regulariser.name!r}, one of your own, cannot be proved. "
            "Use 'l2' or 'none', or an algorithm that takes it by gradient or prox (IPADMM, "
            "CDPADMM, DPDDA, GossipGD, TreeGD)."
        )
    if isinstance(regulariser, CustomRegulariser):
        regulariser.checked(facts.dim)
    # Of a row of weights, the smallest
    convexity = regulariser.strong_convexity if own else float(np.min(regulariser.l2))
    least = constants.strength * convexity
    if needs.strongly_convex_regulariser and least <= 0:
        raise UnsupportedError(
            f"{name} needs a strongly convex regulariser; "
            f"{regulariser.name!r} of strength {constants.strength:g} is not. "
            "Use 'l2' or 'elastic-net' with a strength above 0."
        )
    if needs.squared_loss and loss.name != "squared":
        raise UnsupportedError(
            f"{name} needs the loss 'squared', whose curvature does not change with the model; "
            f"{loss.name!r} is another. Use GossipGD, DPDDA or CDPADMM, or loss='squared'."
        )
    if needs.hub and topology.hub() is None:
        raise UnsupportedError(
            f"{name} needs a node that is joined to all others (a star or complete graph); "
            f"{topology.name} has none."
        )
    if private:
        _check_bounded(name, needs, constants)


def _check_bounded(name: str, needs: Needs, constants: Any) -> None:
    if needs.bounded_loss_slope and not np.isfinite(constants.lipschitz_argmin):
        raise UnsupportedError(
            f"{name} releases an exact minimiser, "
            "so its loss must have a bounded slope by itself (clipping does not bound a "
            f"minimiser); {constants.loss.name!r} has none. Use 'huber', "
            "or a linearised algorithm with clip_norm."
        )
    if not needs.bounded_loss_slope and not np.isfinite(constants.gradient_bound):
        raise UnsupportedError(
            "A private run needs bounded gradients, "
            f"and the loss {constants.loss.name!r} has none. Two remedies: a loss with "
            "bounded slope (for regression 'huber'), or clip_norm=... "
            "to clip each record's gradient."
        )


def proximal_descent(
    algorithm: Algorithm, facts: Facts, steps: list[float], output: str
) -> Descent | None:
    """The steps prox_{eta r R}(x - eta grad loss(x)) as a `Descent`.

    x - eta grad loss(x) brings two points no further apart while eta L <= 2, nor does the prox,
    which shrinks by 1 + eta sc; a clipped loss of one score is still convex and as smooth. None
    where that is not known: the smoothness was learnt from a release, sizes are not the true
    counts, gradients of several classes are clipped, or the prox is somebody's own.
    """
    k = facts.constants
    clipped = k.n_outputs > 1 and k.clip_norm is not None
    own = isinstance(k.regulariser, CustomRegulariser)
    counted = facts.true_sizes and facts.counts_are_public
    known = facts.released_smoothness is None and counted and k.loss.smooth
    if not known or clipped or own:
        return None
    eta, rounds = np.array(steps, float), len(steps)
    shrink = 1.0 + np.append(0.0, eta[:-1]) * k.strong_convexity
    weights = [algorithm.averaging_weight(t, rounds) for t in range(1, rounds + 1)]
    seen = 1 if output == "last" else int(np.count_nonzero(weights))
    return Descent(eta, np.maximum(1.0, np.abs(1.0 - eta * facts.smoothness)) / shrink, seen)


def check_hyperparameters(
    algorithm: Any,
    positive: tuple[str, ...] = (),
    at_least_zero: tuple[str, ...] = (),
    per_node: tuple[str, ...] = (),
) -> None:
    """Each named hyperparameter is a number or schedule above (or not below) 0; those in `per_node`
    may also be one for each node, and are then kept as `schedules.PerNode`."""
    kind = type(algorithm).__name__
    for name in (*positive, *at_least_zero):
        value = getattr(algorithm, name)
        if name in per_node and schedules.is_per_node(value):
            value = schedules.per_node(value)
            object.__setattr__(algorithm, name, value)
        schedules.check(
            f"{kind}.{name}", value, zero=name in at_least_zero, per_node=name in per_node
        )


def check_batch(algorithm: Any) -> None:
    """batch_size is None or a whole number of at least 1."""
    if algorithm.batch_size is not None:
        checks.whole(f"{type(algorithm).__name__}.batch_size", algorithm.batch_size, least=1)


def laplace_spends(facts: Facts, rounds: int) -> float:
    """What l2-Laplace noise on values costs at scale 1, as mu^2: about 1/d a release, since its
    loss is the shift's part along the noise, which has a random direction in d dimensions."""
    return rounds / facts.dim


def midpoint(w: Array, heard: Array, degree: Array) -> Array:
    """The centre c with sum_j |v - (w + w_j)/2|^2 = degree |v - c|^2 + constant; w if alone."""
    return 0.5 * (w + np.divide(heard, degree, out=w.copy(), where=degree > 0))
