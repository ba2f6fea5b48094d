"""Whitening before any algorithm: one release of the records' second moment, one public map.

    M   <- the network's mean of (1/m_i) sum_j x x'  + noise         (released once, in round 1)
    M   =  V diag(e) V',  f_k = max(e_k, floor)                      (public from here on)
    x'  =  P' x, cut to `norm`,   P = V diag(scale / sqrt(f))        (behind the door, a new set of
                                                                      private records with a bound)
    the wrapped algorithm runs on x', and its models v mean w = P v

What follows the release (floor, scale, clip, step) is post-processing of released numbers and
public facts: `choose`. All nodes hold the same map, to the bit.

Of many features only the diagonal of M is released, the mean of each x_a^2, and P is the diagonal
(d,) of scale / sqrt(max(M_aa, floor)): sparse rows stay sparse, and what goes together stays
together.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from tacenda import checks
from tacenda.algorithms.base import Algorithm, Array, Needs, Node
from tacenda.algorithms.published import Published, Sites
from tacenda.algorithms.spectrum import Setting, decide, descend, records_moment, within
from tacenda.errors import InputError, StateError, UnsupportedError
from tacenda.graph.topology import Topology
from tacenda.privacy.settings import Privacy
from tacenda.problem.constants import Constants
from tacenda.problem.facts import Facts
from tacenda.problem.moments import packed, unpacked

NAME = "whitening"
FULL, DIAGONAL = "full", "diagonal"
MOMENT = "second_moment"  # in what a run leaves
STRENGTH = "strength"  # by which name a chosen one stands in `RunResult.released`
MOST_FEATURES = 1000  # of a full map: a message then holds half a million numbers
# For an algorithm that does not follow the release:
MOMENT_PLACES = 3  # of a round's calls: the release, and the sum's way up and down the tree
ROW_NORM = 0.7  # expected norm of a mapped row, over the norm to which it is cut
CLIP = 0.5  # of the loss's slope: most gradients are far below it near the optimum


@dataclass(frozen=True)
class Whitening:
    """How records are prepared: whitened with their second moment, which is released once.

    Part of the same budget: `simulate(..., prepare=Whitening(share=0.1))`. docs/whitening.md
    explains the map.

    Parameters
    ----------
    share : float, default=0.1
        Share of the budget (mu^2) for the second moment, above 0 and below 1.
    norm : float, default=1.0
        To which mapped rows are cut: the new public bound on every row.
    clip : float or None, default=None
        To which mapped gradients are clipped; None: by the released spectrum with TreeGD, else
        half the loss's slope times `norm`.
    floor : float or None, default=None
        Below which eigenvalues are raised, in units of the noise's edge; None: 0.7.
    scale : float or None, default=None
        Expected norm of a mapped row over `norm`; None: 0.5 with TreeGD, else 0.7.
    rank : int or None, default=None
        How many directions are kept, of a full map; None: all.
    kind : str or None, default=None
        "full", "diagonal", or None: full up to 1000 features, diagonal above.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.Whitening(share=0.2).kind_for(5000)
    'diagonal'
    """

    share: float = 0.1
    norm: float = 1.0
    clip: float | None = None
    floor: float | None = None
    scale: float | None = None
    rank: int | None = None
    kind: str | None = None

    def __post_init__(self) -> None:
        checks.between("Whitening.share", self.share, 0.0, 1.0)
        checks.positive("Whitening.norm", self.norm)
        for name in ("clip", "floor", "scale"):
            if getattr(self, name) is not None:
                checks.positive(f"Whitening.{name}", getattr(self, name))
        if self.rank is not None:
            checks.whole("Whitening.rank", self.rank, least=1)
        if self.kind is not None:
            checks.one_of("Whitening.kind", self.kind, (FULL, DIAGONAL))
        if self.rank is not None and self.kind == DIAGONAL:
            raise InputError(
                "Whitening.rank is of a full map, whose directions have an order; leave it out "
                "with kind='diagonal'."
            )

    def kind_for(self, n_features: int) -> str:
        """Which map is made for that many features.

        Parameters
        ----------
        n_features : int
            Number of features.

        Returns
        -------
        str
            "full" or "diagonal".
        """
        return self.kind or (FULL if n_features <= MOST_FEATURES else DIAGONAL)

    def to_plain(self) -> dict[str, Any]:
        """Plain values for files.

        Returns
        -------
        dict
            What `from_plain` reads back.
        """
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {"name": NAME, **{k: v for k, v in values.items() if v is not None}}

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> Whitening:
        """Read back what `to_plain` wrote.

        Parameters
        ----------
        values : dict
            The plain values.

        Returns
        -------
        Whitening
            The same settings.

        Raises
        ------
        InputError
            If a name is unknown.
        """
        checks.one_of("prepare.name", values.get("name", NAME), (NAME,))
        known = [f.name for f in dataclasses.fields(cls)]
        given = {k: v for k, v in values.items() if k != "name" and v is not None}
        for name in given:
            checks.one_of("prepare", name, known)
        return cls(**given)


def prepared(algorithm: Algorithm, prepare: Any) -> Algorithm:
    """The algorithm together with what prepares its records.

    Parameters
    ----------
    algorithm : Algorithm
        What runs on the prepared records.
    prepare : None, str, dict or Whitening
        Nothing (None), a name, a table of settings or an object.

    Returns
    -------
    Algorithm
        The algorithm itself, or one that prepares first.

    Raises
    ------
    InputError
        If the preparation is unknown.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.algorithms.prepared(tc.algorithms.TreeGD(), "whitening").name
    'whitened'
    """
    if prepare is None:
        return algorithm
    if isinstance(prepare, str):
        prepare = {"name": prepare}
    if isinstance(prepare, dict):
        prepare = Whitening.from_plain(prepare)
    if not isinstance(prepare, Whitening):
        raise InputError(f"prepare must be None, {NAME!r} or a tacenda.Whitening, not {prepare!r}.")
    if isinstance(algorithm, Whitened):
        raise InputError(
            "prepare: the algorithm whitens its records already; leave prepare out, "
            "or name the algorithm without it."
        )
    return Whitened(algorithm, prepare)


@dataclass(frozen=True, eq=False)
class Chosen:
    """The public map, and what goes with it.

    matrix      (d, k) P, or (d,) its diagonal
    clip        to which mapped gradients are clipped; None where nothing is clipped
    smoothness  of the mean loss on mapped records; over the chosen step, for an algorithm that
                follows it
    strength    of the regulariser, if it was left open; else None
    noise_std   (k,) forecast for each weight of the output, on the released spectrum, by all rounds
                of an algorithm that follows it; empty where nothing is forecast
    map_std     (2, k) what the noise of the moment itself does through the map: how far it moves
                the model along each direction, per length of the model; and 1 where the direction
                is above the floor, 0 where it was raised to it; empty as noise_std is
    variance    (k,) that of the records along each direction of the map, by the released spectrum
    """

    matrix: Array
    clip: float | None
    smoothness: float
    strength: float | None
    noise_std: Array
    map_std: Array
    variance: Array


def choose(
    moment: Array,
    std: float,
    facts: Facts,
    whitening: Whitening,
    algorithm: Algorithm,
    weight: float,
    rounds: int,
    records: float,
) -> Chosen:
    """The map from a released second moment (d, d) whose diagonal has noise of that std; (d,): from
    the diagonal alone.

    weight: what was spent on it over what one of the algorithm's rounds spends; records: of all
    nodes, by public numbers that are the same at each. An algorithm that follows the release
    (`Algorithm.follows`) gets clip, step and, where it was left open, strength with the least
    forecast risk (`spectrum.decide`); the others have what was public beforehand.
    """
    diagonal = moment.ndim == 1
    e, vectors = (moment, None) if diagonal else _eigen(moment)
    k, follows = facts.constants, algorithm.follows
    found = decide(
        e,
        std,
        weight,
        rounds,
        k,
        facts.adjacency,
        norm=whitening.norm,
        floor=whitening.floor,
        scale=whitening.scale if follows or whitening.scale is not None else ROW_NORM,
        clip=whitening.clip if follows else clip_of(facts, whitening),
        rank=whitening.rank,
        tail=getattr(algorithm, "tail", 1.0),
        diagonal=diagonal,
        records=records if follows else None,
    )
    kept = len(e) if whitening.rank is None else min(len(e), whitening.rank)
    raised = np.maximum(within(e, k.data_norm**2), found.floor)[:kept]
    matrix = found.scale / np.sqrt(raised)
    if vectors is not None:
        matrix = vectors[:, :kept] * matrix
    step = found.step if follows else 1.0
    seen = raised > found.floor
    spread, undone = _forecast_std(found, seen, algorithm, rounds, k)
    moved = np.array([undone * std / raised, seen], float) if len(spread) else undone
    return Chosen(
        np.ascontiguousarray(matrix),
        found.clip,
        found.smoothness / step,
        found.strength if k.auto_strength else None,
        spread,
        moved,
        records_moment(e, std, k.data_norm**2, diagonal)[:kept],
    )


def _forecast_std(
    found: Setting, seen: Array, algorithm: Algorithm, rounds: int, k: Constants
) -> tuple[Array, Array]:
    """(k,) see `Chosen.noise_std`, and (k,) the share of a wrong start that the rounds leave. What
    lies below the floor may have no variance at all, and then no round corrects it. A hinge bends
    at few records, nobody knows how many, and has no forecast; a Huber loss has one that holds
    where most residuals are below its threshold. Of several outputs the loss sees differences only:
    along their mean, 1/K of the variance, nothing bends back what the noise has moved."""
    longer = getattr(algorithm, "step_size", None)
    known = k.loss.twice_differentiable or k.loss.kind == "regression"
    if not known or not algorithm.follows or not isinstance(longer, float | int):
        return np.zeros(0), np.zeros(0)
    eta, tail = longer * found.step / found.smoothness, getattr(algorithm, "tail", 1.0)
    left, spread = descend(np.where(seen, found.curved, 0.0), found.ridge, eta, rounds, tail)
    if k.n_outputs > 1:
        _, free = descend(np.zeros_like(found.curved), found.ridge, eta, rounds, tail)
        spread = spread + (free - spread) / k.n_outputs
    return np.asarray(found.noise * np.sqrt(spread)), np.sqrt(left)


def _eigen(moment: Array) -> tuple[Array, Array]:
    from tacenda.problem.kernels.eigen import eigen  # here: it loads the compiler

    return eigen(moment)


def clip_of(facts: Facts, whitening: Whitening) -> float | None:
    """To which mapped gradients are clipped; from public facts alone."""
    k = facts.constants
    if whitening.clip is not None:
        return whitening.clip
    if math.isfinite(k.loss.slope):
        return CLIP * k.loss.slope * whitening.norm
    return None if k.clip_norm is None else k.clip_norm * whitening.norm / k.data_norm


def times(matrix: Array, rows: Array) -> Array:
    """Each row's blocks v of length k become matrix v: (b, K k) -> (b, K d), row by row, so that
    no row's bits depend on which others are here; matrix (d, k), or (d,) for a diagonal one."""
    if matrix.ndim == 1:
        blocks = rows.reshape(len(rows), -1, len(matrix))
        return (blocks * matrix).reshape(rows.shape).astype(rows.dtype, copy=False)
    d, k = matrix.shape
    found = np.empty((len(rows), rows.shape[1] // k * d))
    same = len(rows) > 1 and bool((rows == rows[0]).all())
    for i in range(1 if same else len(rows)):
        for c in range(rows.shape[1] // k):
            found[i, c * d : (c + 1) * d] = (matrix * rows[i, c * k : (c + 1) * k]).sum(axis=1)
    if same:
        found[1:] = found[0]
    return found.astype(rows.dtype, copy=False)


@dataclass(frozen=True)
class WhitenedState:
    """inner: the wrapped algorithm's state, in the records' own coordinates until there is a map.

    matrix (d, k), or (d,) for a diagonal one, and numbers (clip, or 0 for none; smoothness; the
    chosen strength, or -1 where it was declared): the public map, held once for all nodes.
    noise_std (k,), map_std (2, k), variance (k,): as in `Chosen`.
    """

    inner: Any
    matrix: Array | None = field(default=None, metadata={"common": True})
    numbers: Array | None = field(default=None, metadata={"common": True})
    noise_std: Array | None = field(default=None, metadata={"common": True})
    map_std: Array | None = field(default=None, metadata={"common": True})
    variance: Array | None = field(default=None, metadata={"common": True})


@dataclass(frozen=True)
class Whitened(Algorithm):
    """The wrapped algorithm on whitened records; the release of the moment is part of round 1.

    Parameters
    ----------
    algorithm : Algorithm
        What runs on the mapped records.
    whitening : Whitening, optional
        How they are mapped.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.algorithms.Whitened(tc.algorithms.TreeGD()).name
    'whitened'
    """

    algorithm: Algorithm
    whitening: Whitening = Whitening()

    name: ClassVar[str] = "whitened"
    source: ClassVar[str] = "ours"

    # ---- the run
    def init(self, node: Node, w: Array) -> WhitenedState:
        return WhitenedState(self.algorithm.init(node, w))

    @property
    def learns(self) -> bool:
        return True

    def has_learned(self, s: WhitenedState) -> bool:
        return s.matrix is not None

    def learn(self, s: WhitenedState, node: Node) -> WhitenedState:
        """The public map, from the moment, which is released once."""
        if s.matrix is None and node.turn > 1:
            raise StateError(
                "The public map is made in round 1, and this member has none: it missed that "
                "round, and nobody has handed it the map."
            )
        if s.matrix is None:
            return self._with_map(s, node)
        if node.turn == 1:  # made again: the other calls keep their places
            node.skip(MOMENT_PLACES)
        return s

    def step(self, s: WhitenedState, node: Node) -> WhitenedState:
        if s.matrix is None:
            s = self.learn(s, node)
        mapped = self._mapped(s, node)
        return replace(s, inner=self.algorithm.step(s.inner, mapped))

    def _with_map(self, s: WhitenedState, node: Node) -> WhitenedState:
        """Release the moment, choose the map, and begin where the public start lies in it."""
        start = np.asarray(self.algorithm.last(s.inner))
        row, std = self._moment(node, start.dtype)
        ratio = self.whitening.share / (1 - self.whitening.share)
        found = choose(
            row if self._diagonal(node.facts) else unpacked(row),
            std,
            node.facts,
            self.whitening,
            self.algorithm,
            ratio * node.rounds * self.algorithm.steps_per_round,
            node.rounds,
            node.n_nodes * node.facts.smallest,
        )
        strength = -1.0 if found.strength is None else found.strength
        numbers = np.array([found.clip or 0.0, found.smoothness, strength])
        s = WhitenedState(
            None, found.matrix, numbers, found.noise_std, found.map_std, found.variance
        )
        if found.matrix.ndim == 1:
            back = 1.0 / found.matrix
        else:
            squares = (found.matrix**2).sum(axis=0)
            back = found.matrix.T / squares[:, None]  # the columns are orthogonal
        inner = self.algorithm.init(self._mapped(s, node), times(back, start))
        return replace(s, inner=inner)

    def _moment(self, node: Node, dtype: Any) -> tuple[Array, float]:
        """The network's mean second moment with noise, one row, and the std of its entries."""
        inner, facts = self.algorithm, node.facts
        value = node.second_moment(diagonal=self._diagonal(facts))
        ratio = self.whitening.share / (1 - self.whitening.share)
        after = self.mapped_facts(facts)
        spent = inner.spends(after, node.degree, node.rounds)
        if inner.masks or inner.shared_noise is not None:
            assert isinstance(spent, float)
            # in units in which it needs the noise of any other release, and so the same grid
            unit = facts.worst_moment_sensitivity() / math.sqrt(ratio * spent)
            if not inner.masks:
                unit = unit / after.worst_gradient_sensitivity
            kind = "masked" if inner.masks else "correlated"
            mean = unit * node.release_mean(value / unit, noise=kind)
            std = node.noise_multiplier * (unit / math.sqrt(node.n_nodes))
            return np.asarray(mean[0], float), float(std[0, 0])
        if isinstance(spent, float):
            unit, weight = facts.constants.data_norm**2, ratio * spent
            released = unit * node.release(value / unit, weight=weight)
            std = node.noise_multiplier * (value.sensitivity[:, None] / math.sqrt(weight))
        else:  # the noise has the scale itself for its std
            factor = np.sqrt(ratio * spent) / value.sensitivity[:, None]
            released = node.release(value * factor, relative_std=1.0) / factor
            std = node.noise_multiplier / factor
        both = node.average(np.hstack([released, std**2]).astype(dtype, copy=False))
        row = np.asarray(both[0], float)
        return row[:-1], math.sqrt(max(float(row[-1]), 0.0) / node.n_nodes)

    def _mapped(self, s: WhitenedState, node: Node) -> Node:
        assert s.matrix is not None and s.numbers is not None
        clip, smoothness, strength = (float(x) for x in s.numbers)
        taught = None if strength < 0 else strength
        return node.mapped(s.matrix, self.whitening.norm, clip or None, smoothness, taught)

    def mapped_facts(self, facts: Facts) -> Facts:
        """Public facts of the mapped records, as far as they are known before any release.

        Parameters
        ----------
        facts : Facts
            Those of the original records.

        Returns
        -------
        Facts
            Those of the mapped ones.
        """
        width = facts.n_features
        kept = width if self.whitening.rank is None else min(width, self.whitening.rank)
        some = np.ones(width) if self._diagonal(facts) else np.eye(width, kept)
        return facts.mapped(some, self.whitening.norm, clip_of(facts, self.whitening))

    def _diagonal(self, facts: Facts) -> bool:
        return self.whitening.kind_for(facts.n_features) == DIAGONAL

    def released(self, s: WhitenedState) -> dict[str, Array]:
        """What the wrapped algorithm leaves; "strength" (1,), where it was chosen after a release;
        and of the map "diagonal" (d,), where it is one, else "second_moment", packed: that of the
        records, as far as it stands out of its noise."""
        found = self.algorithm.released(s.inner)
        if s.matrix is None:
            return found
        assert s.numbers is not None
        if s.numbers[2] >= 0:
            found = {**found, STRENGTH: s.numbers[2:].copy()}
        if s.matrix.ndim == 1:
            return {**found, DIAGONAL: s.matrix}
        assert s.variance is not None
        axes = s.matrix / np.sqrt((s.matrix**2).sum(axis=0))
        return {**found, MOMENT: packed((axes * s.variance) @ axes.T)}

    def noise_std(self, s: WhitenedState, facts: Facts, rounds: int) -> Array | None:
        """By the forecast on the released spectrum, of an algorithm that follows it: the noise of
        its gradients, and that of the moment, which turns and stretches the map.

        The model is P q, q a sum of gradients and P = scale^2 A^-1 with A the floored moment. Noise
        E in A moves it by -A^-1 E w, and the later rounds undo what they can see; a direction below
        the floor is turned by the noise towards those above it.
        """
        if s.matrix is None or s.noise_std is None or not len(s.noise_std):
            return None
        assert s.map_std is not None
        outputs, (moved, seen) = facts.constants.n_outputs, s.map_std
        squares, each = s.matrix**2, s.noise_std**2
        model = np.asarray(self.iterate(s)[0], float).reshape(outputs, -1)
        if s.matrix.ndim == 1:
            return np.sqrt(squares * each + (moved * model) ** 2).ravel()
        units = s.matrix / np.sqrt(squares.sum(axis=0))
        along = model @ units
        whole, above = ((part**2).sum(axis=1, keepdims=True) for part in (along, along * seen))
        # E w has covariance std^2/2 (|w|^2 I + w w'): off its diagonal the noise is half as large
        turned = (moved**2 * np.where(seen > 0, whole, above) / 2) @ (units**2).T
        turned += ((moved * along * seen) @ units.T) ** 2 / 2
        return np.sqrt(squares @ each + turned).ravel()

    def iterate(self, s: WhitenedState) -> Array:
        return self._back(s, self.algorithm.iterate(s.inner))

    def last(self, s: WhitenedState) -> Array:
        return self._back(s, self.algorithm.last(s.inner))

    @staticmethod
    def _back(s: WhitenedState, models: Array) -> Array:
        return models if s.matrix is None else times(s.matrix, np.asarray(models))

    def restart(self, s: WhitenedState, node: Node) -> WhitenedState:
        """The map stays: it was released, and nothing of it belongs to the neighbours."""
        there = node if s.matrix is None else self._mapped(s, node)
        return replace(s, inner=self.algorithm.restart(s.inner, there))

    def averaging_weight(self, turn: int, rounds: int) -> float:
        return self.algorithm.averaging_weight(turn, rounds)

    # ---- what goes together
    def check(self, facts: Facts, topology: Topology, rounds: int, private: bool) -> None:
        k = facts.constants
        width = facts.n_features
        if k.regulariser.l1 > 0 and k.strength > 0:
            raise UnsupportedError(
                f"Whitening maps the model, and the regulariser {k.regulariser.name!r} is about "
                "its own coordinates; use 'l2' or 'none', or leave prepare out."
            )
        rank, diagonal = self.whitening.rank, self._diagonal(facts)
        if width > MOST_FEATURES and not diagonal:
            raise UnsupportedError(
                f"Whitening.kind 'full' releases {width} x {width} numbers; it serves up to "
                f"{MOST_FEATURES} features. Use kind='diagonal', or reduce the features first."
            )
        if rank is not None and diagonal:
            raise UnsupportedError(
                f"Whitening.rank is of a full map, and {width} features, more than "
                f"{MOST_FEATURES}, get a diagonal one; leave it out, or reduce the features first."
            )
        if (
            rank is not None
            and rank < width
            and getattr(self.algorithm, "noise", "") == "l2-laplace"
        ):
            raise UnsupportedError(
                f"Whitening.rank must be left out for {self.algorithm.title}, whose noise is "
                "planned for models of full length; or use noise='gaussian'."
            )
        self.algorithm.check(self.mapped_facts(facts), topology, rounds, private)

    def advice(self, facts: Facts, topology: Topology, rounds: int) -> list[str]:
        found = self.algorithm.advice(self.mapped_facts(facts), topology, rounds)
        if self.whitening.kind is None and self._diagonal(facts):
            found = [
                *found,
                f"{facts.n_features} features are more than {MOST_FEATURES}: only their mean "
                "squares are released, each is scaled by itself, and what goes together stays "
                "together, which takes more rounds. Whitening(kind='diagonal') says so by name.",
            ]
        return found

    def published_noise(
        self, facts: Facts, sites: Sites, weights: Array, privacy: Privacy
    ) -> Published:
        raise self._not_printed()

    def published_form(self) -> Algorithm:
        raise self._not_printed()

    def _not_printed(self) -> UnsupportedError:
        return UnsupportedError(
            f"{self.title}: no paper here publishes noise for whitened records, so it cannot run "
            "as published; use mode='sound', or leave prepare out."
        )

    # ---- as the wrapped algorithm
    @property
    def title(self) -> str:  # type: ignore[override]
        return f"{self.algorithm.title}, whitened"

    @property
    def private(self) -> bool:  # type: ignore[override]
        return self.algorithm.private

    @property
    def needs(self) -> Needs:  # type: ignore[override]
        return self.algorithm.needs

    @property
    def default_output(self) -> str:  # type: ignore[override]
        return self.algorithm.default_output

    @property
    def batch_size(self) -> int | None:  # type: ignore[override]
        return self.algorithm.batch_size

    @property
    def masks(self) -> bool:
        return self.algorithm.masks

    @property
    def mixes(self) -> bool:
        return self.algorithm.mixes

    @property
    def agrees(self) -> bool:
        return self.algorithm.agrees

    @property
    def only_means(self) -> bool:
        return self.algorithm.only_means

    def largest_mean(self, facts: Facts, records: float, noise: float) -> float:
        share = (records + math.sqrt(2) * noise) / facts.smallest
        moment = facts.moment_bound() * max(1.0, share)
        return max(self.algorithm.largest_mean(facts, records, noise), moment)

    @property
    def shared_noise(self) -> float | None:
        return self.algorithm.shared_noise

    @property
    def samples_records(self) -> bool:
        return self.algorithm.samples_records

    @property
    def draws_one_record(self) -> bool:
        return self.algorithm.draws_one_record

    @property
    def noise_in_objective(self) -> bool:
        return self.algorithm.noise_in_objective

    @property
    def keeps_secret(self) -> bool:
        return self.algorithm.keeps_secret

    @property
    def steps_per_round(self) -> int:
        return self.algorithm.steps_per_round

    @property
    def exchanges_per_round(self) -> int:
        return self.algorithm.exchanges_per_round

    def to_plain(self) -> dict[str, Any]:
        own = self.whitening.to_plain()
        del own["name"]
        return {"name": self.name, **own, "algorithm": self.algorithm.to_plain()}
