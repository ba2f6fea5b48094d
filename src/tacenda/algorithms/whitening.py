"""Whitening before any algorithm: one release of the records' second moment, one public map.

    M   <- the network's mean of (1/m_i) sum_j x x'  + noise         (released once, in round 1)
    (TreeGD asks for labels of classes too, and begins where the moment says: `outset`)
    M   =  V diag(e) V',  f_k = max(e_k, floor)                      (public from here on)
    x'  =  P' x, cut to `norm`,   P = V diag(scale / sqrt(f))        (behind the door, a new set of
                                                                      private records with a bound)
    (TreeGD leaves rows as long as they are: its gradients are clipped)
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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacenda import checks
from tacenda._types import Array, Floats
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.outset import Outset, outset, takes_labels
from tacenda.algorithms.spectrum import (
    FLOOR,
    Setting,
    decide,
    descend,
    edge_of,
    records_moment,
    rounded,
    within,
)
from tacenda.algorithms.taken import Taken
from tacenda.errors import InputError
from tacenda.questions.constants import Constants
from tacenda.questions.facts import Facts
from tacenda.questions.moments import label_width, moment_length, unpacked

NAME = "whitening"
FULL, DIAGONAL = "full", "diagonal"
MOMENT = "second_moment"  # in what a run leaves
MOMENT_FLOOR = "second_moment_floor"  # and (1,) up to which variance the moment is not known
STRENGTH = "strength"  # by which name a chosen one stands in `RunResult.released`
MOST_FEATURES = 1000  # of a full map: a message then holds half a million numbers
LABEL_SCALE = 0.15
# For an algorithm that does not follow the release:
ROW_NORM = 0.7  # expected norm of a mapped row, over the norm to which it is cut
CLIP = 0.5  # of the loss's slope: most gradients are far below it near the optimum


def released_moment(released: Mapping[str, Any]) -> Floats | None:
    """Return the rows' second moment (d, d) from what a run released, or None. Regression by
    moments leaves its eigenvectors and eigenvalues."""
    if MOMENT in released:
        return np.asarray(unpacked(np.asarray(released[MOMENT], float)))
    if {"vectors", "values"} <= set(released):
        vectors, values = (np.asarray(released[k], float) for k in ("vectors", "values"))
        if vectors.ndim == 2 and vectors.shape == (len(values), len(values)):
            return np.asarray((vectors * values) @ vectors.T)
    return None


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
        To which mapped rows are cut, and in which unit `scale` and the clip are. TreeGD, whose
        gradients are clipped by the released spectrum, leaves rows as long as they are.
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
    label_scale : float or None, default=None
        Of the labels of classes in the moment, over `data_norm`, for TreeGD and a full map: they
        tell where to begin and how long the steps may be. 0 leaves them out; None: 0.15.

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
    label_scale: float | None = None

    def __post_init__(self) -> None:
        checks.between("Whitening.share", self.share, 0.0, 1.0)
        checks.positive("Whitening.norm", self.norm)
        for name in ("clip", "floor", "scale"):
            if getattr(self, name) is not None:
                checks.positive(f"Whitening.{name}", getattr(self, name))
        if self.label_scale is not None:
            checks.between("Whitening.label_scale", self.label_scale, 0.0, 1e9, open_ends=False)
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
        """Which map is made for that many features."""
        return self.kind or (FULL if n_features <= MOST_FEATURES else DIAGONAL)

    def labels_in(self, facts: Facts, algorithm: Algorithm) -> float:
        """With which scale the labels are in the moment; 0 where they are not."""
        k = facts.constants
        asked = algorithm.traits.tuned_by_release and takes_labels(k.loss)
        if not asked or self.kind_for(facts.n_features) == DIAGONAL:
            return 0.0
        return (LABEL_SCALE if self.label_scale is None else self.label_scale) * k.data_norm

    def moment_numbers(
        self, facts: Facts, algorithm: Algorithm, features: int | None = None
    ) -> int:
        """How many numbers the released moment has; of `features` in place of the records' own."""
        width = facts.n_features if features is None else features
        labels = label_width(self.labels_in(facts, algorithm), facts.constants.n_outputs)
        return moment_length(width + labels, self.kind_for(facts.n_features) == DIAGONAL)

    def to_plain(self) -> dict[str, Any]:
        """Plain values for files."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {"name": NAME, **{k: v for k, v in values.items() if v is not None}}

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> Whitening:
        """Read back what `to_plain` wrote."""
        checks.one_of("prepare.name", values.get("name", NAME), (NAME,))
        known = [f.name for f in dataclasses.fields(cls)]
        given = {k: v for k, v in values.items() if k != "name" and v is not None}
        for name in given:
            checks.one_of("prepare", name, known)
        return cls(**given)


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
    unknown     a variance up to this one is a guess: the noise's edge, to which all that does not
                stand out is raised at most
    risk        the forecast excess risk of the model; infinite where nothing is forecast
    start, longer  as in `Outset`; of the model before the map
    """

    matrix: Array
    clip: float | None
    smoothness: float
    strength: float | None
    noise_std: Array
    map_std: Array
    variance: Array
    unknown: float
    risk: float
    start: Array
    longer: Floats


def choose(
    moment: Array,
    std: float,
    facts: Facts,
    whitening: Whitening,
    algorithm: Algorithm,
    weight: float,
    rounds: int,
    records: float,
    taken: Taken | None = None,
) -> Chosen:
    """The map from a released second moment (d, d) whose diagonal has noise of that std; (d,): from
    the diagonal alone; with the labels behind, where `Whitening.labels_in` says that they are.

    weight: what was spent on it over what one of the algorithm's rounds spends; records: of all
    nodes, by public numbers that are the same at each; taken: where a run before this one has
    released the moment, and the start is its model. An algorithm that follows the release
    (`Traits.tuned_by_release`) gets clip, step and, where it was left open, strength with the least
    forecast risk (`spectrum.decide`); the others have what was public beforehand.
    """
    diagonal = moment.ndim == 1
    k, tuned = facts.constants, algorithm.traits.tuned_by_release
    scale, begin = whitening.labels_in(facts, algorithm), Outset.unknown(facts.dim, k.n_outputs)
    both, labels = moment, label_width(scale, k.n_outputs)
    moment = np.ascontiguousarray(both[:-labels, :-labels]) if labels else both
    e, vectors = (moment, None) if diagonal else _eigen(moment)
    if labels and vectors is not None:
        a, edge = records_moment(e, std, k.data_norm**2), edge_of(len(e), std)
        variance = np.where(within(e, k.data_norm**2) > edge, a, np.maximum(a, FLOOR * edge))
        b = np.clip(np.nan_to_num(both[:-labels, -labels:] / scale), -k.data_norm, k.data_norm)
        begin = outset(vectors, variance, b, std * math.sqrt(0.5) / scale)
    start = None if taken is None else taken.start(facts, len(e), records)
    found = decide(
        e,
        std,
        weight,
        rounds,
        k,
        facts.adjacency,
        norm=whitening.norm,
        floor=whitening.floor,
        scale=whitening.scale if tuned or whitening.scale is not None else ROW_NORM,
        clip=whitening.clip if tuned else clip_of(facts, whitening),
        rank=whitening.rank,
        tail=getattr(algorithm, "tail", 1.0),
        diagonal=diagonal,
        records=records if tuned else None,
        start=start,
        largest=facts.moment_bound(scale),
        unexplained=begin.unexplained,
        guess=tuned and diagonal,
    )
    kept = len(e) if whitening.rank is None else min(len(e), whitening.rank)
    raised = np.maximum(within(e, k.data_norm**2), found.floor)[:kept]
    matrix = found.scale / np.sqrt(raised)
    if vectors is not None:
        matrix = vectors[:, :kept] * matrix
    step = found.step if tuned else 1.0
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
        edge_of(len(e), std, diagonal),
        rounded(found.left_undone + found.noise_risk) if tuned else math.inf,
        begin.start,
        begin.longer,
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
    if not known or not algorithm.traits.tuned_by_release or not isinstance(longer, float | int):
        return np.zeros(0), np.zeros(0)
    eta, tail = longer * found.step / found.smoothness, getattr(algorithm, "tail", 1.0)
    left, spread = descend(np.where(seen, found.curved, 0.0), found.ridge, eta, rounds, tail)
    if k.n_outputs > 1:
        _, free = descend(np.zeros_like(found.curved), found.ridge, eta, rounds, tail)
        spread = spread + (free - spread) / k.n_outputs
    return np.asarray(found.noise * np.sqrt(spread)), np.sqrt(left)


def model_noise(matrix: Array, noise_std: Array, map_std: Array, model: Array) -> Array:
    """Standard deviation (K d,) of the noise in each coordinate of a model (K, d): the noise of the
    gradients, and that of the moment, which turns and stretches the map. matrix and map_std as in
    `Chosen`, noise_std for each class.

    The model is P q, q a sum of gradients and P = scale^2 A^-1 with A the floored moment. Noise
    E in A moves it by -A^-1 E w, and the later rounds undo what they can see; a direction below
    the floor is turned by the noise towards those above it.
    """
    moved, seen = map_std
    squares, each = matrix**2, noise_std**2
    if matrix.ndim == 1:
        return np.asarray(np.sqrt(squares * each + (moved * model) ** 2).ravel())
    units = matrix / np.sqrt(squares.sum(axis=0))
    along = model @ units
    whole, above = ((part**2).sum(axis=1, keepdims=True) for part in (along, along * seen))
    # E w has covariance std^2/2 (|w|^2 I + w w'): off its diagonal the noise is half as large
    turned = (moved**2 * np.where(seen > 0, whole, above) / 2) @ (units**2).T
    turned += ((moved * along * seen) @ units.T) ** 2 / 2
    return np.asarray(np.sqrt((squares @ each.T).T + turned).ravel())


def _eigen(moment: Array) -> tuple[Array, Array]:
    from tacenda.questions.kernels.eigen import eigen  # here: it loads the compiler

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
