"""The privacy loss of what came out of a run, from the tapes of two neighbouring runs
(`chain_tape`): nothing of the ledger, the plan or the accountants is used here.

One unit (a record or a person) at the nodes `at` makes the difference. Of each release:

    Gaussian        mu^2 = sum_i |D_i|^2 / std_i^2          D_i: difference of the secrets of node i
    shared          mu^2 = D' Sigma^-1 D                    Sigma written out, the worst coalition
    masked          mu = |sum_i D_i| / (std sqrt(members))  of the part that a coalition sees
    sampled         a mixture of two Gaussians, at the rate at which records were drawn
    l2-Laplace      rate (|e + D| - |e|)
    objective       rate (|e_B| - |e_A|) + ln det H_A - ln det H_B, e: the noise behind the output

Losses of releases that follow each other are added up: squares of mu, else by convolution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Any

import networkx as nx
import numpy as np
from scipy import optimize, signal, special, stats

from chain_tape import Passed, Tape
from tacenda.privacy.secrets.bounded import Bounded, open_values

GRID = 2e-4  # of convolved losses
AGREES = 1e-7  # of a measured size, over the numbers that it was measured on


@dataclass(frozen=True)
class Lost:
    """What one release lost of the unit. kind: "gaussian", "poisson", "one", "l2-laplace" or
    "objective"; size: mu, or the pure epsilon; both: mu of the sampled record towards either side;
    rate: of a sample, or 1/records. curvature, gap, at_output: of an objective."""

    asked: tuple[str, ...]
    noise: str
    kind: str
    size: float
    dim: int = 1
    both: tuple[float, float] = (0.0, 0.0)
    rate: float = 1.0
    curvature: float = 0.0
    gap: float = 0.0
    at_output: float = 0.0


def losses(
    first: Tape, second: Tape, absent: Tape | None, at: tuple[int, ...], graph: Any, coalition: int
) -> list[list[Lost]]:
    """The losses of each release, in order: one, or one for each node of the unit where their
    noise or samples are their own. absent: a run without the unit, where samples are drawn. graph,
    coalition: of noise that neighbours share."""
    found = []
    places = sorted({key[:2] for key in first.passed})
    for place in places:
        a, b = _joined(first, place), _joined(second, place)
        none = None if absent is None else _joined(absent, place)
        found.append(_lost(a, b, none, at, graph, coalition))
    return found


def _joined(tape: Tape, place: tuple[int, int]) -> Passed:
    """One release of all nodes, whatever blocks they were hosted in."""
    parts = [one for key, one in tape.passed.items() if key[:2] == place]
    nodes = np.concatenate([one.nodes for one in parts])
    order = np.argsort(nodes)
    assert np.array_equal(nodes[order], np.arange(len(nodes))), "a node is missing"
    if len(parts) == 1:
        return parts[0]
    first = parts[0]

    def rows(values: list[Any]) -> Any:
        return None if values[0] is None else np.concatenate(values)[order]

    def draws(name: str) -> list[np.ndarray]:
        several = zip(*(getattr(one, name) for one in parts), strict=True)
        return [np.concatenate(each)[order] for each in several]

    assert not first.terms, "objectives are played in one block"
    masked = first.noise == "masked"
    return Passed(
        nodes[order],
        first.noise,
        first.asked,
        rows([one.secret for one in parts]),
        draws("normals"),
        draws("laplaces"),
        rows([one.edges for one in parts]),
        rows([one.masks for one in parts]),
        None
        if first.sampled is None
        else (first.sampled[0], rows([one.sampled[1] for one in parts if one.sampled])),
        out=(rows([one.out[0] for one in parts]), first.out[1])
        if masked
        else rows([one.out for one in parts]),
    )


def _lost(
    a: Passed, b: Passed, absent: Passed | None, at: tuple[int, ...], graph: Any, coalition: int
) -> list[Lost]:
    assert (a.asked, a.noise) == (b.asked, b.noise), "the two runs ask different things"
    about = (a.asked, a.noise)
    if a.noise.startswith("objective"):
        return [_inside(a, b, i, at, about) for i in at]
    assert a.secret is not None and b.secret is not None
    moved = (a.secret - b.secret).astype(float)
    others = np.setdiff1d(a.nodes, at)
    assert not moved[others].any(), "a node without the unit answers differently"
    if a.noise == "masked":
        mu = masked_mu(moved, _masked_std(a), at, graph, coalition)
        return [Lost(*about, "gaussian", mu)]
    if a.noise == "correlated":
        own, edge = _shared_std(a)
        mu = _shared_mu(moved, own, edge, at, graph, coalition)
        return [Lost(*about, "gaussian", mu)]
    far = np.linalg.norm(moved, axis=1)
    if a.noise == "l2-laplace":
        rate = _rate(a.laplaces[0], a.out - a.secret)
        dim = a.secret.shape[1]
        return [Lost(*about, "l2-laplace", float(rate[i] * far[i]), dim) for i in at]
    std = _std(a.normals[0], a.out - a.secret, np.abs(a.secret).max(initial=0.0))
    if a.sampled is None:
        return [Lost(*about, "gaussian", float(far[i] / std[i])) for i in at]
    return [_sampled(a, b, absent, i, std, about) for i in at]


def _sampled(
    a: Passed,
    b: Passed,
    absent: Passed | None,
    i: int,
    std: np.ndarray,
    about: tuple[tuple[str, ...], str],
) -> Lost:
    assert a.sampled is not None and a.secret is not None and b.secret is not None
    (kind, rates), moved = a.sampled, a.secret - b.secret
    size = float(np.linalg.norm(moved[i]) / std[i])
    if kind == "one":
        return Lost(*about, "one", size, rate=1 / float(rates[i]))
    assert absent is not None and absent.secret is not None
    sides = tuple(
        float(np.linalg.norm(one.secret[i] - absent.secret[i]) / std[i])
        for one in (a, b)
        if one.secret is not None
    )
    assert size <= sum(sides) * (1 + 1e-9)
    return Lost(*about, "poisson", size, both=(sides[0], sides[1]), rate=float(rates[i]))


# ---- how large the noise was
def _std(unit: np.ndarray, drawn: np.ndarray, secret: float = 0.0) -> np.ndarray:
    """(b,) of rows that are a number times the unit's rows."""
    size = np.asarray((drawn * unit).sum(axis=1) / (unit * unit).sum(axis=1))
    wrong = np.abs(drawn - size[:, None] * unit).max()
    assert wrong <= AGREES * max(1e-300, np.abs(drawn).max(), secret), "the noise is another one"
    assert np.all(size > 0)
    return size


def _rate(unit: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    return 1 / _std(unit, drawn)


def _masked_std(a: Passed) -> float:
    """In steps, the same for all nodes; draws are rounded to whole steps."""
    rows, _ = a.out
    assert a.masks is not None and a.secret is not None
    own = (rows - a.secret.view(np.uint64) - a.masks).view(np.int64).astype(float)
    unit = a.normals[0]
    std = float((own * unit).sum() / (unit * unit).sum())
    assert np.abs(own - std * unit).max() <= 2.0, "the noise is another one"
    return std


def _shared_std(a: Passed) -> tuple[float, float]:
    """(each node's own, that on each edge), the same for all nodes."""
    drawn = (a.out - a.secret).ravel()
    units = np.column_stack([a.normals[0].ravel(), np.asarray(a.edges).ravel()])
    size, *_ = np.linalg.lstsq(units, drawn, rcond=None)
    wrong = np.abs(drawn - units @ size).max()
    assert wrong <= AGREES * np.abs(drawn).max(), "the noise is another one"
    return float(size[0]), float(size[1])


# ---- what coalitions see of noise that is shared
def _coalitions(graph: nx.Graph, most: int, at: tuple[int, ...]) -> Any:
    """The graphs that are left when at most `most` others pool what they know."""
    others = [i for i in graph if i not in at]
    for size in range(min(most, len(others)) + 1):
        for pooled in combinations(others, size):
            yield graph.subgraph([i for i in graph if i not in pooled])


def masked_mu(
    moved: np.ndarray, std: float, at: tuple[int, ...], graph: nx.Graph, coalition: int
) -> float:
    worst = 0.0
    for left in _coalitions(graph, coalition, at):
        parts = [np.array(sorted(part)) for part in nx.connected_components(left)]
        sums = [np.linalg.norm(moved[part].sum(axis=0)) ** 2 / len(part) for part in parts]
        worst = max(worst, math.sqrt(sum(sums)) / std)
    return worst


def _shared_mu(
    moved: np.ndarray, own: float, edge: float, at: tuple[int, ...], graph: nx.Graph, coalition: int
) -> float:
    worst = 0.0
    for left in _coalitions(graph, coalition, at):
        order = sorted(left)
        laplacian = nx.laplacian_matrix(left, order).toarray()
        covariance = own**2 * np.eye(len(order)) + edge**2 * laplacian
        d = moved[order]
        worst = max(worst, math.sqrt(float(np.sum(d * np.linalg.solve(covariance, d)))))
    return worst


# ---- noise inside an objective
def _inside(
    a: Passed, b: Passed, i: int, at: tuple[int, ...], about: tuple[tuple[str, ...], str]
) -> Lost:
    assert a.ideal is not None and a.extra is not None
    w, (queries, linear, quadratic, *_) = a.ideal, a.terms
    q = np.broadcast_to(np.asarray(quadratic, float), (len(w), 1))

    def noise_of(terms: tuple[Any, ...], at_point: np.ndarray) -> np.ndarray:
        own = terms[0]._store.gradient(terms[0]._at, at_point, None, True)
        centre = _opened(terms[3])
        pull = linear + 2 * q * (at_point - centre) + a.extra[:, None] * at_point
        return np.asarray(-(own + pull))

    for mine, theirs in zip(a.terms[1:], b.terms[1:], strict=True):
        hidden = isinstance(mine, Bounded)
        assert hidden or np.array_equal(mine, theirs), "the objectives' public terms differ"
    assert np.array_equal(a.extra, b.extra)
    e_a, e_b = noise_of(a.terms, w), noise_of(b.terms, w)
    assert np.array_equal(np.delete(e_a, at, 0), np.delete(e_b, at, 0))
    bent = _log_det(a.terms, noise_of, w, i) - _log_det(b.terms, noise_of, w, i)
    gaussian = "gaussian" in a.noise
    units = a.normals if gaussian else a.laplaces
    slack = queries.facts.tolerance / np.abs(e_a).max()
    scale = np.linalg.norm(e_a, axis=1) / np.linalg.norm(units[0], axis=1)
    wrong = np.abs(e_a - scale[:, None] * units[0]).max() / np.abs(e_a).max()
    assert wrong <= AGREES + 2 * slack, "the minimiser is not that of the noise"
    apart = float(np.linalg.norm(e_a[i] - e_b[i]) / scale[i])
    far = [float(np.linalg.norm(e[i]) / scale[i]) for e in (e_a, e_b)]
    found = (far[1] ** 2 - far[0] ** 2) / 2 if gaussian else far[1] - far[0]
    kappa = queries.facts.argmin_convexity(quadratic)[i] + a.extra[i]
    gap = 0.0
    if len(units) > 1:
        drawn = _std(units[1], a.out - w, float(np.abs(w).max()))
        gap = float(2 * queries.facts.tolerance / kappa / drawn[i])
    return Lost(
        *about, "objective", apart, w.shape[1], curvature=abs(bent), gap=gap,
        at_output=abs(found + bent),
    )  # fmt: skip


def _opened(centre: Any) -> np.ndarray:
    """An objective's centre, which a paper may keep hidden."""
    return np.asarray(open_values(centre) if isinstance(centre, Bounded) else centre)


def _log_det(terms: Any, noise_of: Any, w: np.ndarray, i: int) -> float:
    """ln det of the Hessian of node i's objective, by central differences of its gradient."""
    step, d = 1e-5, w.shape[1]
    hessian = np.empty((d, d))
    for k in range(d):
        shift = np.zeros_like(w)
        shift[:, k] = step
        hessian[k] = (noise_of(terms, w - shift) - noise_of(terms, w + shift))[i] / (2 * step)
    return float(np.linalg.slogdet(hessian)[1])


# ---- all releases together
def composed_mu(found: list[Lost]) -> float | None:
    """mu of all releases; None where they are not all Gaussian."""
    if any(one.kind != "gaussian" for one in found):
        return None
    return math.sqrt(math.fsum(one.size**2 for one in found))


def gaussian_delta(mu: float, epsilon: float) -> float:
    return float(
        stats.norm.cdf(-epsilon / mu + mu / 2)
        - math.exp(epsilon) * stats.norm.cdf(-epsilon / mu - mu / 2)
    )


def true_epsilon(found: list[Lost], delta: float) -> float:
    """The smallest epsilon at this delta, of both directions. Of objectives it is that of the
    losses at the outputs that were seen: a lower bound."""
    if all(one.kind == "objective" for one in found):
        return math.fsum(one.at_output for one in found)
    mu = composed_mu(found)
    if mu is not None:
        if mu == 0 or gaussian_delta(mu, 0.0) <= delta:
            return 0.0
        return float(optimize.brentq(lambda e: gaussian_delta(mu, e) - delta, 0.0, 700.0))
    return max(_convolved_epsilon(found, delta, way) for way in (0, 1))


def _convolved_epsilon(found: list[Lost], delta: float, way: int) -> float:
    total, low = np.ones(1), 0
    for one in found:
        if one.kind == "gaussian" and one.size == 0:
            continue
        pmf, start = _distribution(_rounded(one), way)
        total, low = signal.fftconvolve(total, pmf), low + start
    x = GRID * (low + np.arange(len(total)))

    def above(epsilon: float) -> float:
        some = x > epsilon
        return float(np.sum(total[some] * -np.expm1(epsilon - x[some])))

    if above(0.0) <= delta:
        return 0.0
    return float(optimize.brentq(lambda e: above(e) - delta, 0.0, x[-1]))


def _rounded(one: Lost) -> Lost:
    """To ten digits, so that equal releases are worked out once."""
    towards, away = one.both
    return replace(
        one, asked=(), size=float(f"{one.size:.10g}"), rate=float(f"{one.rate:.10g}"),
        both=(float(f"{towards:.10g}"), float(f"{away:.10g}")),
    )  # fmt: skip


@lru_cache(maxsize=64)
def _distribution(one: Lost, way: int) -> tuple[np.ndarray, int]:
    """(probabilities of the loss on the grid, the number of the first point)."""
    if one.kind == "l2-laplace":
        return _binned(*_laplace(one))
    if one.kind == "gaussian":
        towards, away, rate = one.size, 0.0, 1.0
    elif one.kind == "one":
        towards, away, rate = one.size, 0.0, one.rate
    else:
        towards, away, rate = one.both[0], -one.both[1], one.rate
    z = np.linspace(-10.0, 10.0, 60_001)
    x = np.concatenate([z, z + towards, z + away])
    x.sort()
    middle = (x[1:] + x[:-1]) / 2

    def parts(mean: float, at: np.ndarray) -> np.ndarray:
        return np.asarray((1 - rate) * stats.norm.cdf(at) + rate * stats.norm.cdf(at - mean))

    def logs(mean: float) -> np.ndarray:
        inside = np.log(rate) + mean * middle - mean * mean / 2
        outside = -np.inf if rate == 1 else np.log1p(-rate)
        return np.asarray(np.logaddexp(inside, outside))

    first, second = (towards, away) if way == 0 else (away, towards)
    return _binned(logs(first) - logs(second), np.diff(parts(first, x)))


def _laplace(one: Lost) -> tuple[np.ndarray, np.ndarray]:
    """(losses, chances) of noise in R^dim: |e| is Gamma(dim), its direction is uniform."""
    eps, d = one.size, one.dim
    if d == 1:
        edges = np.linspace(-eps, eps, 20_001)
        inner = 0.5 * np.diff(np.exp((edges - eps) / 2))
        middle = (edges[1:] + edges[:-1]) / 2
        ends = [0.5, 0.5 * math.exp(-eps)]
        return np.concatenate([[eps, -eps], middle]), np.concatenate([ends, inner])
    chance = (np.arange(4000) + 0.5) / 4000
    radius = special.gammaincinv(d, chance)[:, None]
    turned = 2 * special.betaincinv((d - 1) / 2, (d - 1) / 2, chance)[None] - 1
    loss = np.sqrt(radius**2 - 2 * eps * radius * turned + eps * eps) - radius
    return loss.ravel(), np.full(loss.size, 1.0 / loss.size)


def _binned(loss: np.ndarray, chance: np.ndarray) -> tuple[np.ndarray, int]:
    place = np.rint(loss / GRID).astype(np.int64)
    low = int(place.min())
    return np.bincount(place - low, weights=chance), low
