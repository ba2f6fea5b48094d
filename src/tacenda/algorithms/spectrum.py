"""What a released spectrum decides: floor, scale, clip and step of a descent on whitened records.

Everything here is a pure function of a released second moment's eigenvalues e_1 >= ... >= e_d, of
the known noise in them and of public facts, so it costs no privacy. With the std of a diagonal
entry (entries off the diagonal have std/sqrt(2))

    edge = sqrt(2 d) std                 the largest eigenvalue of the noise alone
    a_k  = sqrt(e_k^2 - edge^2)          the records' moment along a direction that stands out;
                                         the other directions share what is left of the trace
    f_k  = max(e_k, FLOOR edge)          what the map divides by: x' = scale V'x / sqrt(f)
    scale^2 sum_k a_k/f_k = (SHORT norm)^2

A direction that is found at e has its true variance below the noise's edge or above it: a spike of
size s in such noise is found at s + q^2/s, q = edge/2, along a vector that has s - q^2/s of it,
which is sqrt(e^2 - edge^2). Below s = q nothing stands out, so an unseen direction has at most
edge/2.

Of a diagonal alone (`diagonal=True`) the e_k are the features' own mean squares, each with noise of
that std and nobody else's: edge = sqrt(2 log d) std, the largest of d such noises, and a_k = e_k
where it stands out. How the features go together is not known, so the steepest direction may hold
all of a mapped row: L is that of its whole expected square, (SHORT norm)^2. That is mostly far too
much, and an algorithm that sees when its steps overshoot (`guess`) may take steps as for
eigenvalues that fall like 1/sqrt(k), or for the largest entry.

Of classes the moment also tells how much of the labels is left to explain (`outset`): the loss
bends sqrt(2 unexplained) as much, where that is below 1. The root and the 2, since records that
bend as much as ever are among the others; a step that is too long for them counts as JUMPY.

Clip and step are those with the least forecast excess risk of T steps eta and a tail average, on
h_k = curvature * scale^2 a_k/f_k, with the signal of weights alike in all directions. So is the
regulariser's strength where it was left open, of the powers of sqrt(10) in `STRENGTHS`; the chance
of which records there are counts too, n_outputs scatter/2 sum_k (share reached)^2 / records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from tacenda._types import Floats
from tacenda.losses.of_counts import COUNT_SIGNAL
from tacenda.privacy.adjacency import records_changed
from tacenda.questions.constants import Constants

FLOOR = 0.7  # in units of the noise's edge
LEAST_FLOOR = 1e-6  # of the largest eigenvalue: where there is no noise
SHORT = 0.5  # a mapped row's expected norm over the norm to which rows are cut
CLIPS = (0.5, 0.6, 0.7, 0.85, 1.0, 1.2)  # of gradients, over slope times a row's expected norm
WIDER = 1.5  # further clips, each so many times the last, up to the bound of a row's gradient
# A clip cuts the gradients of misfits and of the rarer class, and so bends the optimum.
BENT, UNBENT = 0.15, 1.0  # excess risk BENT (UNBENT - clip)^3
# and, in units of the signal's energy, CUT (1 - clip/bound)^3: measured .0001 to .02; residuals are
# mostly far below the declared bounds
CUT, REGRESSION_CUT = 0.03, 0.001
RARELY = 0.01  # so much of it for rows longer than `norm`
# and JUMPY of that energy for each unit of step, in 1/L of the loss, above the 2 at which a
# direction that bends as much as the loss can begins to overshoot
JUMPY = 0.002
LONGEST = 1.5  # step, in units of 1/L
HALVINGS = 26  # the shortest step is 2^-13 of it
SIGNAL = 4.0  # the variance of the scores to learn: classification
REGRESSION_SIGNAL = 0.5  # of regression, in units of the squared slope
COUNT_RESIDUAL = 0.3  # a misfit of counts, in units of the largest count
STEEPER = 4.0  # the density of residuals, over the typical one
STEEPER_RATE = 8.0  # the mean rate of counts: where it is larger, steps are too long
STRENGTHS = tuple(10.0 ** (-0.5 * j) for j in range(15))  # from 1 down to 1e-7
DIGITS = 3  # of forecasts that are compared: what follows is rounding, and may differ by machine
SLOWER = 0.6  # curvature where a model classifies well, over what is typical on the way there
# Rare classes and small rates bend less: such a share of the signal, so many times less
FLAT_SHARE, FLATTER = 0.1, 4.0


@dataclass(frozen=True)
class Setting:
    """What was decided.

    floor     below which eigenvalues are raised
    scale     of the map V diag(scale / sqrt(max(e, floor)))
    clip      to which gradients of mapped records are clipped, in absolute numbers; None: not
    step      eta, in units of 1/smoothness
    smoothness  of the mean loss on mapped records, by the released spectrum
    seen      how many directions stand out of the noise
    left_undone, noise_risk, bent   the forecast excess risk: of what is not learnt, of noise, and
              of the clip
    curved, ridge   (k,) the loss's curvature along each direction of the map, as it is assumed, and
              the regulariser's
    noise     std of each entry of one round's mean gradient
    strength  of the regulariser: the declared one, or the chosen
    """

    floor: float
    scale: float
    clip: float | None
    step: float
    smoothness: float
    seen: int
    left_undone: float
    noise_risk: float
    bent: float
    curved: Floats = field(compare=False)
    ridge: Floats = field(compare=False)
    noise: float
    strength: float

    @property
    def risk(self) -> float:
        """The forecast excess risk, without the chance of which records there are."""
        return self.left_undone + self.noise_risk + self.bent


def edge_of(d: int, std: float, diagonal: bool = False) -> float:
    """The largest eigenvalue of a symmetric matrix of noise alone; the largest entry (at least a
    std), if there is a diagonal only."""
    return math.sqrt(max(1.0, 2.0 * math.log(d)) if diagonal else 2.0 * d) * std


def within(eigenvalues: Floats, bound: float) -> Floats:
    """Eigenvalues cut to what those of records can be, whatever was released."""
    return np.clip(np.nan_to_num(np.asarray(eigenvalues, float)), -bound, bound)


def records_moment(eigenvalues: Floats, std: float, bound: float, diagonal: bool = False) -> Floats:
    """a: the variance of the records along each released eigenvector, or feature; `bound` is that
    of a row's squared norm, which no variance exceeds."""
    e = within(eigenvalues, bound)
    edge = edge_of(len(e), std, diagonal)
    seen = e > edge
    repelled = 0.0 if diagonal else edge
    found = np.where(seen, np.sqrt(np.maximum(e * e - repelled * repelled, 0.0)), 0.0)
    least = LEAST_FLOOR * bound / len(e)
    hidden = int((~seen).sum())
    if hidden:
        rest = (math.fsum(e) - math.fsum(found)) / hidden
        rest = min(max(rest, std / math.sqrt(len(e))), edge)  # at least a std of the trace
        least = min(max(least, rest), bound)
    return np.maximum(found, least)


def decide(
    eigenvalues: Floats,
    std: float,
    weight: float,
    rounds: int,
    constants: Constants,
    adjacency: str = "replace-one",
    *,
    norm: float = 1.0,
    floor: float | None = None,
    scale: float | None = None,
    clip: float | None = None,
    rank: int | None = None,
    tail: float = 0.5,
    diagonal: bool = False,
    records: float | None = None,
    start: float | None = None,
    largest: float | None = None,
    unexplained: float = 1.0,
    guess: bool = False,
) -> Setting:
    """Floor, scale, clip and step for `rounds` steps after a release of this spectrum, and the
    regulariser's strength where it was left open (`Constants.auto_strength`), `records` is told and
    there is noise.

    std      of a diagonal entry of the network's mean moment
    weight   the moment's share of the budget over that of one round's gradient
    norm     the unit of mapped rows;   constants   of the records before the map
    floor (in edges), scale (expected row norm over `norm`) and clip (absolute) may be given;
    rank     of the map, if not all;   tail   the share of the rounds whose models are averaged
    diagonal whether these are the entries of a diagonal, and no eigenvalues
    records  of all nodes, as far as public; None: the declared strength is taken
    start    the forecast excess risk of the model at which the descent starts; None: it starts at 0
    largest  the moment's bound on a record, where the label is in it
    unexplained  of the labels' variance, as `outset` has it
    guess    whether the steps may be those for a guess at the steepest direction
    """
    k, bound = constants, constants.data_norm**2
    e = within(eigenvalues, bound)
    edge = edge_of(len(e), std, diagonal)
    a = records_moment(e, std, bound, diagonal)
    lowest = max((FLOOR if floor is None else floor) * edge, LEAST_FLOOR * float(a.max()))
    raised, a = np.maximum(e, lowest)[:rank], a[:rank]
    rms = norm * (SHORT if scale is None else scale)
    expected = math.fsum(a / raised)
    size = rms / math.sqrt(expected)
    unseen = min(edge / 2, bound) / lowest
    steepest = size**2 * min(1.0, max(float((a / raised).max()), unseen))
    guessed = max(steepest, rms**2 / math.fsum(np.arange(1, len(a) + 1) ** -0.5))
    if diagonal:
        steepest = rms**2
    most = _Shape.of(k)
    shape = most.flatter(math.sqrt(min(1.0, 2.0 * unexplained)))
    smoothness = k.loss_scale * shape.steepest * min(steepest, norm**2)
    quiet = std * math.sqrt(weight) / _moment_units(adjacency, largest or bound)
    quiet *= records_changed(adjacency) * k.loss_scale  # the noise of a gradient of bound 1
    total = math.fsum(a)
    # Thousands of features that do not stand out are alike
    kinds, place, times = np.unique(
        np.column_stack([a, raised]), axis=0, return_inverse=True, return_counts=True
    )
    a, raised = kinds.T
    h = shape.curvature * k.loss_scale * size**2 * (a / raised)
    own = k.regulariser.l2 * size**2 / raised  # the regulariser's curvature, over its strength
    # eta, in steps of sqrt(2): the forecast is flat near its least
    more = max(1.0, steepest / guessed) if guess else 1.0
    count = HALVINGS + 1 + math.ceil(2.0 * math.log2(more))
    steps = [LONGEST * more * math.sqrt(0.5) ** j for j in range(count)]
    unit = shape.force * rms
    bound_of_rows = k.gradient_bound / k.data_norm * norm  # a clip there cuts next to nothing
    longest = max(bound_of_rows, k.gradient_bound * size / math.sqrt(float(raised.min())))
    clips = shape.clips_up_to(longest, unit) if clip is None else [clip]
    whole = 0.5 * shape.curvature * k.loss_scale * shape.signal
    to_learn = whole if start is None else min(start / k.n_outputs, whole)
    energy = k.n_outputs * to_learn * times * a / total
    left_open = k.auto_strength and records is not None and std > 0 and bool(np.any(own))
    chance = 0.0
    if left_open and records:
        chance = 0.5 * k.n_outputs * k.loss_scale * k.loss.typical.scatter / records
    best: tuple[float, ...] | None = None
    for strength in STRENGTHS if left_open else (k.strength,):
        least: tuple[float, ...] | None = None
        ridge = strength * own
        etas = np.array(steps)[:, None] / smoothness
        left_of, spread_of = descend(shape.slower * h, ridge, etas, rounds, tail)
        flat_of, _ = descend(shape.slower / FLATTER * h, ridge, etas, rounds, tail)
        left_of = left_of + shape.flat * (flat_of - left_of)
        for step, undone, spread in zip(steps, left_of, spread_of, strict=True):
            left = math.fsum(energy * undone)
            left += JUMPY * whole * max(0.0, step / more * most.steepest / shape.steepest - 2.0)
            loud = 0.5 * k.n_outputs * math.fsum(times * (h + ridge) * spread)
            drawn = chance * math.fsum(times * (1.0 - np.sqrt(undone)) ** 2)
            for c in clips:
                noisy = loud * (quiet * c) ** 2 if quiet > 0 else 0.0
                bent = BENT * k.loss_scale * max(0.0, UNBENT - c / unit) ** 3
                bent += shape.cut * whole * max(0.0, 1.0 - c / bound_of_rows) ** 3
                if c < longest < math.inf:  # few rows are longer than `norm`
                    bent += RARELY * shape.cut * whole * (1.0 - c / longest) ** 3
                total = left + noisy + bent + drawn
                if least is None or total < least[0]:
                    least = (total, step, c, left, noisy, bent, strength)
        assert least is not None
        if best is None or rounded(least[0]) < rounded(best[0]):
            best = least
    assert best is not None
    _, step, c, left, noisy, bent, strength = best
    clipped = None if clip is None and (std == 0.0 or not math.isfinite(unit)) else c
    seen = int((e > edge).sum())
    found = (lowest, size, clipped, step, smoothness, seen, left, noisy, bent)
    ridge = np.broadcast_to(strength * own, h.shape)[place]
    return Setting(*found, h[place], ridge, quiet * c if quiet > 0 else 0.0, strength)


def risk_of_change(k: Constants, directions: int, records: float, drift: float) -> float:
    """By how much excess risk the optimum of other records lies off: the chance of which records
    there are, twice, and `drift`, a share of the whole signal."""
    shape = _Shape.of(k)
    signal = 0.5 * shape.curvature * shape.signal
    chance = k.loss.typical.scatter * directions / records
    return k.n_outputs * k.loss_scale * (chance + drift * signal)


def flat_share(k: Constants) -> float:
    """The share of the signal where the loss bends `FLATTER` times less than is typical."""
    return _Shape.of(k).flat


def rounded(risk: float) -> float:
    """A forecast to so many digits that all members read the same in it."""
    return float(f"{risk:.{DIGITS}g}")


@dataclass(frozen=True)
class _Shape:
    """What is assumed of a loss.

    steepest   curvature on which a step must not overshoot;   curvature  a typical one
    slower     the curvature where little is left to learn, over the typical one
    force      the slope of a misfit;   signal   the variance of the scores to learn
    flat       the share of the signal where the loss bends `FLATTER` times less
    cut        what a clip costs, in units of the signal's energy
    """

    steepest: float
    curvature: float
    slower: float
    force: float
    signal: float
    clips: tuple[float, ...]
    flat: float = FLAT_SHARE
    cut: float = CUT

    def flatter(self, factor: float) -> _Shape:
        """A loss that bends so much less, where steps are long enough for it."""
        bends = self.steepest * factor, self.curvature * factor
        return replace(self, steepest=bends[0], curvature=bends[1])

    def clips_up_to(self, bound: float, unit: float) -> list[float]:
        """Candidate clips in absolute numbers, the last one where nothing is cut, if there is a
        bound."""
        if not math.isfinite(bound):
            return [c * unit for c in self.clips]
        found = [c * unit for c in self.clips if c * unit < bound]
        while found and found[-1] * WIDER < bound:
            found.append(found[-1] * WIDER)
        return [*found, bound]

    @classmethod
    def of(cls, k: Constants) -> _Shape:
        curvature = min(k.loss.curvature, 1.0)
        if k.loss.predicts == "log-rate":
            force = min(k.loss.slope, k.gradient_bound / k.data_norm, COUNT_RESIDUAL)
            bend = k.loss.typical.curvature
            steepest = min(curvature, STEEPER_RATE * bend)
            return cls(steepest, bend, 1.0, force, COUNT_SIGNAL, (1.0,), cut=REGRESSION_CUT)
        if k.loss.kind == "regression":
            force = k.loss.slope
            if not math.isfinite(force) and k.clip_norm is not None:
                force = k.clip_norm / k.data_norm
            signal = REGRESSION_SIGNAL * (force**2 if math.isfinite(force) else 1.0)
            steepest = min(k.loss.curvature, STEEPER)
            return cls(
                steepest, curvature, 1.0, force, signal, (1.0,), flat=0.0, cut=REGRESSION_CUT
            )
        if k.loss.kind == "multiclass":  # of K probabilities, q (1 - q) is about 1/K
            n = k.n_outputs
            return cls(min(curvature, 2.0 / n), 0.5 / n, SLOWER, 1.0, SIGNAL, CLIPS)
        return cls(curvature, 0.5 * curvature, SLOWER, 1.0, SIGNAL, CLIPS)


def _moment_units(adjacency: str, bound: float) -> float:
    """The moment's sensitivity over 1/m."""
    return math.sqrt(records_changed(adjacency)) * bound


def descend(
    h: Floats, ridge: Floats, eta: float | Floats, rounds: int, tail: float
) -> tuple[Floats, Floats]:
    """(share of the squared signal that is left, variance for noise of variance 1 in each round) of
    the average of the last `tail` share of the models, in each direction; for a column of steps
    `eta`, one row for each.

    One round: v <- (1 - eta h) v/(1 + eta ridge) + eta noise; the optimum of h alone is 1.
    """
    keep = (1.0 - np.minimum(eta * h, 1.9)) / (1.0 + eta * ridge)
    averaged = max(1, round(tail * rounds))
    power, total, sums = np.ones_like(keep), np.zeros_like(keep), [np.zeros_like(keep)]
    for _ in range(rounds):
        total = total + power  # 1 + keep + ... + keep^j
        power = power * keep
        sums.append(total)
    spread = np.zeros_like(keep)
    for j in range(rounds):  # noise with j rounds to go: in the last min(j + 1, averaged) models
        first = max(0, j + 1 - averaged)
        share = (sums[j + 1] - sums[first]) / averaged
        spread = spread + share * share
    reached = np.zeros_like(keep)
    for j in range(rounds - averaged, rounds):
        reached = reached + sums[j + 1]
    force = eta * h / (1.0 + eta * ridge)
    left = 1.0 - force * reached / averaged
    return left * left, spread * (eta / (1.0 + eta * ridge)) ** 2
