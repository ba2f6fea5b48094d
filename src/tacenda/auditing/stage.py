"""The default scene of an attack: the smallest problem on which one record can be seen best, and
the records to look for.

The records beside the canary are rows of zeros, so that nothing hides it, and the scale is so small
that margins hardly move: a slope of the loss that is at its bound stays there, and every release
differs by its whole declared sensitivity.

    gradient queries             hinge loss, one feature: two labels of one record pull with slope 1
                                 in opposite directions
    exactly one record drawn     the others equal the canary of world 0, so that world 1 stands out
                                 by two slopes
    argmin, noise on the value   smoothed hinge, likewise
    moments                      squared loss with clipped gradients, far labels of either sign
    noise shared by neighbours   hinge loss (smoothed, where steps follow its curvature), two
                                 features, and besides a start far out that shrinks
                                 from round to round: records ahead of it have no slope in the first
                                 half of the run and the full one in the second, so that noise which
                                 repeats itself can be taken off
    noise in the objective       logistic loss has slope 1 only far on the wrong side, so the run
                                 starts (publicly) far out, and the two records lie on either side
                                 of the starting direction, both wrongly classified
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.whitened import Whitened
from tacenda.auditing.worlds import Canary
from tacenda.errors import UnsupportedError
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.problem.problem import Problem
from tacenda.schedules import at

# Of records behind gradients:
# Huang and Gong (2020), Liu et al. (2022) and Gauthier et al. (2020) scale with the gradient's
# bound.
SMALL_NORM = 0.01
# c of objectives behind an argmin: Zhang et al. (2018) and Zhang and Zhu (2016) are printed for
# records of norm 1, and scale with c.
SMALL_SCALE = 0.01
FAR_MARGIN = 12.0  # a logistic slope of 1 - 6e-6
FAR_COSINE = 1e-3
CHANGING = "ahead of the start"  # slopes that change half-way, on the default stage
# By how much a step of 1/curvature shrinks the start, where steps follow the curvature: the smooth
# corner of the loss is as wide
SHRINKS = 10.0
AHEAD_COSINE = 0.3  # of records whose slope changes half-way with the start


def default_problem(
    algorithm: Algorithm,
    n: int,
    records: int,
    adjacency: str,
    dim: int | None = None,
    records_per_person: int = 1,
) -> Problem:
    """n nodes with `records` equal rows each, or so many persons with `records_per_person`."""
    k, records = records_per_person, records * records_per_person
    solves, inside = algorithm.needs.smooth_loss, algorithm.traits.noise_in_objective
    curved = algorithm.needs.bounded_curvature
    maps = isinstance(algorithm, Whitened) or algorithm.needs.squared_loss
    wide = inside or maps or algorithm.traits.shared_noise is not None
    p = (2 if wide else 1) if dim is None else dim
    x, norm = np.zeros((records, p)), 1.0 if solves else SMALL_NORM
    if algorithm.traits.sample == "one":
        x[:, 0] = norm
    public: dict[str, Any] = {}
    if adjacency == "add-remove":
        public["public_sizes"] = np.full(n, records)
    if k > 1:
        persons = [[f"{node}/{j // k}" for j in range(records)] for node in range(n)]
        public |= {"persons": persons, "records_per_person": k}
    if algorithm.needs.squared_loss:
        return Problem(
            [(x, np.zeros(records)) for _ in range(n)],
            loss="squared",
            strength=0.01 * norm**2,
            data_norm=norm,
            clip_norm=SMALL_NORM,
            **public,
        )
    return Problem(
        [(x, np.full(records, -1)) for _ in range(n)],
        loss="logistic" if inside else "smoothed-hinge" if solves or curved else "hinge",
        regulariser="l2",
        strength=1e-9 if inside else norm**2 * (SHRINKS - 1) if curved and not solves else 0.01,
        loss_scale=SMALL_SCALE if solves else 1.0,
        data_norm=norm,
        classes=(-1, 1),
        **public,
    )


def default_start(problem: Problem, algorithm: Algorithm, rounds: int) -> Array | None:
    """(p,) the public starting point far out along the first axis, where the scene needs one;
    else None, zeros."""
    if problem.n_features < 2:
        return None
    start = np.zeros(problem.n_features)
    if problem.loss.name == "logistic":
        start[0] = FAR_MARGIN / (problem.data_norm * FAR_COSINE)
    elif algorithm.traits.shared_noise is not None and hasattr(algorithm, "step_size"):
        pull = problem.strength * problem.regulariser.l2
        if algorithm.needs.bounded_curvature:
            pull = pull / problem.constants.loss_smoothness
        shrunk = [
            1.0 + at(algorithm.step_size, t) * pull for t in range(1, max(rounds // 2, 1) + 1)
        ]
        # Records of cosine AHEAD_COSINE reach the hinge's corner, margin 1, between the two rounds
        # in the middle.
        start[0] = np.prod(shrunk[:-1]) * np.sqrt(shrunk[-1]) / (problem.data_norm * AHEAD_COSINE)
    else:
        return None
    return start


def candidates(
    problem: Problem, start: Array | None, adjacency: str, seed: int, count: int = 12
) -> list[Canary]:
    """Pairs of records to try: one record with two labels, opposite records, and pairs around the
    starting point.

    Under add-remove the first record of each pair is a row of zeros: not there.
    """
    p, bound = problem.n_features, problem.data_norm
    directions = SimulatedNoise(seed).l2_laplace(np.arange(count), 0, 0, np.ones(count), p)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    axes = [*np.eye(p)[: min(p, 4)], *directions[: max(0, count - min(p, 4))]]
    names = [f"axis {k}" for k in range(min(p, 4))] + [
        f"direction {k}" for k in range(len(axes) - min(p, 4))
    ]
    low, high = _labels(problem)
    pairs = []
    for axis, name in zip(axes, names, strict=True):
        x = bound * axis
        pairs.append(Canary(x, low, x, high, f"{name}, both labels"))
        pairs.append(Canary(x, high, -x, high, f"{name}, opposite records"))
        if (
            start is not None
            and np.any(start)
            and (sides := beside_start(start, bound, axis)) is not None
        ):
            pairs.append(
                Canary(sides[0], high, sides[1], high, f"{name}, either side of the start")
            )
            x0, x1 = beside_start(start, bound, axis, AHEAD_COSINE)  # type: ignore[misc]
            pairs.append(Canary(x0, high, x1, high, f"{name}, {CHANGING}"))
    if p > 1:  # what moves a second moment most
        pairs.append(Canary(bound * axes[0], high, bound * axes[1], high, "at right angles"))
    if adjacency == "add-remove":
        pairs = [Canary(0 * c.x0, c.y0, c.x1, c.y1, c.name + ", present or absent") for c in pairs]
    return pairs


def beside_start(
    start: Array, bound: float, axis: Array, cosine: float | None = None
) -> tuple[Array, Array] | None:
    """Two records of norm `bound` on either side of the start, along the part of `axis` at right
    angles to it.

    cosine: with the start's direction; by default both lie behind it, at margin -FAR_MARGIN with
    the label +1.
    """
    size = float(np.linalg.norm(start))
    ahead = start / size
    rest = axis - (axis @ ahead) * ahead
    length = float(np.linalg.norm(rest))
    if length < 1e-6:
        return None
    along = -min(0.9, FAR_MARGIN / (bound * size)) if cosine is None else cosine
    x0, x1 = (bound * (along * ahead + s * np.sqrt(1 - along**2) * rest / length) for s in (1, -1))
    return x0, x1


def _labels(problem: Problem) -> tuple[float, float]:
    if problem.loss.kind == "binary":
        return -1.0, 1.0
    if problem.loss.kind == "multiclass":
        return 0.0, float(problem.n_outputs - 1)
    # Where a bounded slope is at its bound
    far = 10.0 + 10.0 * float(np.abs(problem.store.labels).max(initial=0.0))
    return -far, far


def refuse_maps(algorithm: Algorithm) -> None:
    """For the attack by one run: what its canaries make of a map is not followed there."""
    if isinstance(algorithm, Whitened):
        raise UnsupportedError(
            f"{algorithm.title} maps the records by what it has released, which audit_one_run does "
            "not follow; use tacenda.audit (in the shell: leave out --one-run)."
        )


def refuse_mapped_objectives(algorithm: Algorithm) -> None:
    """For likelihood ratios that know the records behind an objective, and edges' noise of one
    length alone."""
    if not isinstance(algorithm, Whitened):
        return
    if algorithm.traits.noise_in_objective or algorithm.traits.edge_noise is not None:
        raise UnsupportedError(
            f"{algorithm.title} maps the records and draws its noise inside an objective, or "
            "shares floating-point noise, which audits do not follow together; audit the algorithm "
            "by itself, without prepare, or one with other noise (TreeGD, CDPADMM, DPDDA)."
        )


def refuse_masks(algorithm: Algorithm) -> None:
    """For attacks that know no masks."""
    if algorithm.traits.masks:
        raise UnsupportedError(
            f"{algorithm.title} masks its releases, which audit_one_run does not attack; use "
            "tacenda.audit (in the shell: leave out --one-run)."
        )
