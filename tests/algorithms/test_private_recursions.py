"""Every algorithm's rounds, noise included, against its paper's recursion written out node by node.

The node here is a plain one: quadratic objectives, whose minimisers are known exactly, and a door
that hands out listed noise. So the recursions below share nothing with the package but the graph.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.questions.constants import Constants
from tacenda.questions.facts import Facts

A, S = tc.algorithms, tc.schedules
D, ROUNDS = 3, 4
RING = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)]  # a triangle with a tail: irregular
STAR = [(0, 1), (0, 2), (0, 3), (0, 4)]
ALONE = [(0, 1), (1, 2), (2, 3)]  # node 4 has no neighbour
N, R = 5, 0.3


@dataclass
class Asked:
    """What a step wanted of its node."""

    gradients: list[tuple[Any, ...]] = field(default_factory=list)
    releases: list[tuple[Any, ...]] = field(default_factory=list)
    objectives: int = 0
    messages: int = 0


class Plain:
    """A node with f_i(w) = w'H_i w/2 - b_i.w + (R/2)|w|^2 and listed noise e_1, e_2, ..."""

    n_nodes, rounds = N, ROUNDS

    def __init__(
        self, edges: list[tuple[int, int]], seed: int = 0, multiplier: float = 0.7
    ) -> None:
        rng = np.random.default_rng(seed)
        root = rng.normal(size=(N, D, D))
        self.h, self.b = root @ root.transpose(0, 2, 1) + np.eye(D), rng.normal(size=(N, D))
        self.join = np.zeros((N, N))
        for i, j in edges:
            self.join[i, j] = self.join[j, i] = 1.0
        self.noise = rng.normal(size=(200, N, D))
        self.extra = rng.uniform(0.1, 0.4, size=(200, N, 1))
        self.turn, self._drawn, self.asked = 1, 0, Asked()
        constants = Constants.declared(loss="logistic", strength=R, loss_scale=1.5)
        self.facts = Facts(np.array([10.0, 20.0, 30.0, 40.0, 50.0]), D, constants)
        self.noise_multiplier = np.full((N, 1), multiplier)

    @property
    def degree(self) -> Any:
        return self.join.sum(axis=1, keepdims=True)

    @property
    def is_hub(self) -> Any:
        return (self.degree == N - 1).astype(float)

    def slope(self, w: Any, regularised: bool = True) -> Any:
        return np.einsum("nij,nj->ni", self.h, w) - self.b + (R * w if regularised else 0)

    def draw(self) -> Any:
        self._drawn += 1
        return self.noise[self._drawn - 1]

    # ---- what a step may ask
    def gradient(
        self, w: Any, batch_size: Any = None, *, one: bool = False, regularised: bool = True
    ) -> Any:
        self.asked.gradients.append((batch_size, one, regularised))
        return self.slope(w, regularised)

    def argmin(self, linear: Any, quadratic: Any, centre: Any) -> Any:
        q = np.broadcast_to(quadratic, (N, 1))
        right = self.b - linear + 2 * q * centre
        return np.array(
            [np.linalg.solve(self.h[i] + (R + 2 * q[i, 0]) * np.eye(D), right[i]) for i in range(N)]
        )

    def release(self, value: Any, *, noise: str = "gaussian", relative_std: Any = None) -> Any:
        self.asked.releases.append((noise, relative_std))
        return value + self.draw() * (1.0 if relative_std is None else relative_std)

    def release_argmin(
        self, linear: Any, quadratic: Any, centre: Any, *, noise: str = "l2-laplace"
    ) -> Any:
        """With e.w + (extra/2)|w|^2 in the objective."""
        self.asked.objectives += 1
        extra = self.extra[self._drawn]
        e = self.draw()
        q = np.broadcast_to(quadratic, (N, 1))
        right = self.b - linear - e + 2 * q * centre
        lhs = [self.h[i] + (R + extra[i, 0] + 2 * q[i, 0]) * np.eye(D) for i in range(N)]
        return np.array([np.linalg.solve(lhs[i], right[i]) for i in range(N)])

    def neighbour_sum(self, shared: Any, senders: Any = None) -> Any:
        self.asked.messages += 1
        return self.join @ (shared if senders is None else senders * shared)

    def mix(self, shared: Any) -> Any:
        self.asked.messages += 1
        return self.weights() @ shared

    def weights(self) -> Any:
        deg, w = self.degree[:, 0], np.zeros((N, N))
        for i, j in zip(*np.nonzero(self.join), strict=True):
            w[i, j] = 1 / (1 + max(deg[i], deg[j]))
        return w + np.diag(1 - w.sum(axis=1))

    def prox(self, w: Any, weight: Any) -> Any:
        return w / (1 + weight * R)

    def dual_step(self, z: Any, weight: float, quadratic: float) -> Any:
        return -z / (weight * R + quadratic)


START = np.tile(np.random.default_rng(9).normal(size=D), (N, 1))  # one public point for all


def played(algorithm: Any, edges: Any, seed: int = 0) -> tuple[list[Any], Plain]:
    """(the iterates of all rounds, the node as it was asked)."""
    node, found = Plain(edges, seed), []
    state = algorithm.init(node, START.copy())
    for node.turn in range(1, ROUNDS + 1):
        state = algorithm.step(state, node)
        found.append(np.array(algorithm.iterate(state)))
        assert np.array_equal(algorithm.last(state), found[-1])
    return found, node


def near(node: Plain, i: int) -> list[int]:
    return [int(j) for j in np.flatnonzero(node.join[i])]


def differ(node: Plain, w: Any) -> Any:
    """(n, d) sum_j (w_i - w_j)."""
    return np.array([sum((w[i] - w[j] for j in near(node, i)), np.zeros(D)) for i in range(N)])


def around(node: Plain, i: int, lam: Any, eta: float, w: Any, e: Any, extra: float) -> Any:
    """argmin f_i(v) + 2 lam.v + e.v + (extra/2)|v|^2 + eta sum_j |v - (w_i + w_j)/2|^2, by its
    normal equations."""
    left = node.h[i] + (R + extra) * np.eye(D)
    right = node.b[i] - 2 * lam - e
    for j in near(node, i):
        left, right = left + 2 * eta * np.eye(D), right + 2 * eta * (w[i] + w[j]) / 2
    return np.linalg.solve(left, right)


GROWS = S.power(0.4, 0.5)
ETA = [0.4 * t**0.5 for t in range(1, ROUNDS + 1)]


OWN = [0.2, 0.0, 1.5, 0.4, 0.0]  # what the nodes add to R


@pytest.mark.parametrize("edges", [RING, ALONE])
@pytest.mark.parametrize(
    ("kind", "own"),
    [
        ("madmm", 0.0),
        ("madmm theta", 0.0),
        *((kind, own) for kind in ("admm", "dvp", "pvp", "pvp closing") for own in (0.0, OWN)),
    ],
)
def test_exact_admm_and_its_perturbations(kind: str, own: Any, edges: Any) -> None:
    algorithm = {
        "admm": A.ADMM(penalty=GROWS, own_strength=own),
        "madmm": A.MADMM(penalty=GROWS),
        "madmm theta": A.MADMM(penalty=GROWS, dual_step=0.25),
        "dvp": A.DVP(penalty=GROWS, own_strength=own),
        "pvp": A.PVP(penalty=GROWS, own_strength=own),
        "pvp closing": A.PVP(GROWS, "gaussian", closing_dvp=True, own_strength=own),
    }[kind]
    own = np.broadcast_to(own, N)
    found, node = played(algorithm, edges)
    w, lam = START, np.zeros((N, D))
    for t in range(ROUNDS):
        inside = kind.startswith(("madmm", "dvp")) or (kind == "pvp closing" and t == ROUNDS - 1)
        e, extra = (node.noise[t], node.extra[t]) if inside else (0 * w, np.zeros((N, 1)))
        kappa = extra[:, 0] + own
        new = np.array([around(node, i, lam[i], ETA[t], w, e[i], kappa[i]) for i in range(N)])
        w = new if inside else new + node.noise[t]
        theta = {"madmm": ETA[0], "madmm theta": 0.25}.get(kind, ETA[t])
        lam = lam + theta / 2 * differ(node, w)
        np.testing.assert_allclose(found[t], w, rtol=1e-10, atol=1e-12)
    words = {"admm": "gaussian", "pvp": "l2-laplace", "pvp closing": "gaussian"}
    added = {"admm": ROUNDS, "pvp": ROUNDS, "pvp closing": ROUNDS - 1}.get(kind, 0)
    assert node.asked.releases == [(words.get(kind, ""), None)] * added
    assert node.asked.objectives == ROUNDS - added and node.asked.messages == ROUNDS


@pytest.mark.parametrize("closing", [False, True])
def test_primal_perturbation_with_its_hidden_centre(closing: bool) -> None:
    """Zhang and Zhu (2016) as published: the centre is (w_i - e_i + V_j)/2 with the node's own
    unreleased w_i (V_i = w_i + e_i), and that of the closing round (line 15) (w_i + V_j)/2, with
    the noise inside the objective."""
    found, node = played(A.PVP(penalty=GROWS, centre="hidden", closing_dvp=closing), RING)
    v, hidden, noise, lam = START, START, 0 * START, np.zeros((N, D))
    for t in range(ROUNDS):
        last, new = closing and t == ROUNDS - 1, np.empty((N, D))
        for i in range(N):
            left, right = node.h[i] + R * np.eye(D), node.b[i] - 2 * lam[i]
            if last:
                left, right = left + node.extra[t][i] * np.eye(D), right - node.noise[t][i]
            for j in near(node, i):
                centre = (hidden[i] - (0 if last else noise[i]) + v[j]) / 2
                left, right = left + 2 * ETA[t] * np.eye(D), right + 2 * ETA[t] * centre
            new[i] = np.linalg.solve(left, right)
        hidden, noise = new, 0 * new if last else node.noise[t]
        v = hidden + noise
        lam = lam + ETA[t] / 2 * differ(node, v)
        np.testing.assert_allclose(found[t], v, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("edges", [RING, ALONE])
def test_recycled_admm(edges: Any) -> None:
    """The even half-step by the gradient of the perturbed objective itself, not by what was
    released. Schedules count the paper's iterations, two to a round."""
    gamma = S.power(0.2, 0.7)
    found, node = played(A.RADMM(penalty=GROWS, recycle_proximal=gamma), edges)
    w, lam = START, np.zeros((N, D))
    for t in range(ROUNDS):
        eta, e, extra = GROWS(2 * t + 1), node.noise[t], node.extra[t]
        odd = np.array([around(node, i, lam[i], eta, w, e[i], extra[i, 0]) for i in range(N)])
        lam = lam + eta / 2 * differ(node, odd)
        g = node.slope(odd) + e + extra * odd
        eta = GROWS(2 * t + 2)
        w = odd - (g + 2 * lam + eta * differ(node, odd)) / (
            2 * eta * node.degree + 0.2 * (2 * t + 2) ** 0.7
        )
        np.testing.assert_allclose(found[t], w, rtol=1e-9, atol=1e-11)
    assert node.asked.messages == 2 * ROUNDS and node.asked.objectives == ROUNDS


@pytest.mark.parametrize("step", ["subgradient", "prox", "auto"])
@pytest.mark.parametrize(
    ("kind", "radius"),
    [("ip", None), ("ip", 0.6), ("ip theory", None), ("ddp", 0.6), ("cdp", None)],
)
def test_linearised_admm(kind: str, radius: float | None, step: str) -> None:
    prox = S.power(0.7, 0.25)
    common: Any = {
        "penalty": GROWS,
        "proximal": "theory" if kind == "ip theory" else prox,
        "regulariser_step": step,
        "radius": radius,
        "batch_size": 4,
    }
    steps = 3 if kind.startswith("ip") else 1
    algorithm: Any = {
        "ip": lambda: A.IPADMM(inner_steps=3, **common),
        "ip theory": lambda: A.IPADMM(inner_steps=3, diameter=5.0, objective_slope=0.2, **common),
        "ddp": lambda: A.DDPADMM(**common),
        "cdp": lambda: A.CDPADMM(variance_decay=0.8, **common),
    }[kind]()
    found, node = played(algorithm, RING)
    w, shared, gam, k, stds = START, START, np.zeros((N, D)), 0, []
    for t in range(ROUNDS):
        rho, mean = ETA[t], np.zeros((N, D))
        std = {"ddp": (t + 1) ** -0.25, "cdp": 0.8 ** (t / 2)}.get(kind, 1.0)
        both = np.array([sum(shared[i] + shared[j] for j in near(node, i)) for i in range(N)])
        for _ in range(steps):
            k += 1
            eta: Any = 0.7 * (t + 1) ** 0.25
            if (
                kind == "ip theory"
            ):  # Huang and Gong (2020), (23) with 2 G c z / b, for batches of b
                spread = 2 * 1.5 * 0.7 / 4
                eta = np.sqrt(2 * k) / 5.0 * np.sqrt(0.2**2 + D * spread**2)
            weight = 2 * rho * node.degree + eta
            g = node.slope(w, regularised=step != "prox")
            w = (eta * w - g + 2 * gam + rho * both) / weight + std * node.noise[k - 1]
            if step == "prox":
                w = w / (1 + R / weight)
            if radius is not None:
                size = np.linalg.norm(w, axis=1, keepdims=True)
                w = np.where(size > radius, w * radius / size, w)
            mean = mean + w / steps
            stds.append(std)
        shared = mean
        gam = gam - rho / 2 * differ(node, shared)
        np.testing.assert_allclose(found[t], shared, rtol=1e-10, atol=1e-12)
    assert node.asked.gradients == [(4, False, step != "prox")] * steps * ROUNDS
    assert [s or 1.0 for _, s in node.asked.releases] == pytest.approx(stds)
    assert {n for n, _ in node.asked.releases} == {"gaussian"}
    assert algorithm.traits.steps_per_round == steps and algorithm.traits.sample == "poisson"


def test_automatic_regulariser_step_takes_the_prox_where_there_is_no_gradient() -> None:
    for regulariser, by_prox in (("l1", True), ("elastic-net", True), ("l2", False)):
        node = Plain(RING)
        constants = Constants.declared(loss="logistic", regulariser=regulariser, strength=R)
        node.facts = Facts(node.facts.sizes, D, constants)
        algorithm = A.IPADMM(inner_steps=1)
        algorithm.step(algorithm.init(node, START.copy()), node)
        assert node.asked.gradients == [(None, False, not by_prox)]


@pytest.mark.parametrize("decay", [0.5, 0.0])
def test_star_admm(decay: float) -> None:
    """w = mean(w_i) - mean(gam_i)/rho, known to everybody; variance falls as t^-decay."""
    prox = S.power(0.7, 0.25)
    algorithm = A.DPADMM(penalty=GROWS, proximal=prox, noise_decay=decay, batch_size=6)
    found, node = played(algorithm, STAR)
    w, gam, centre = START, np.zeros((N, D)), START
    for t in range(ROUNDS):
        rho, inverse = ETA[t], 0.7 * (t + 1) ** 0.25
        noise = node.noise[t] * ((t + 1) ** -decay) ** 0.5
        w = (inverse * w - node.slope(w) + rho * centre + gam) / (rho + inverse) + noise
        centre = np.tile(w.mean(axis=0) - gam.mean(axis=0) / rho, (N, 1))
        gam = gam - rho * (w - centre)
        np.testing.assert_allclose(found[t], centre, rtol=1e-10, atol=1e-12)
    assert node.asked.gradients == [(6, False, True)] * ROUNDS


@pytest.mark.parametrize("noise", ["correlated", "independent"])
def test_gossip(noise: str) -> None:
    batch = None if noise == "correlated" else 5
    algorithm = A.GossipGD(
        step_size=S.power(0.2, -0.5), mixings=2, noise=noise, correlation=3.0, batch_size=batch
    )
    found, node = played(algorithm, RING)
    x = START
    for t in range(ROUNDS):
        eta = 0.2 / (t + 1) ** 0.5
        x = (x - eta * (node.slope(x, False) + node.noise[t])) / (1 + eta * R)
        x = node.weights() @ (node.weights() @ x)
        np.testing.assert_allclose(found[t], x, rtol=1e-10, atol=1e-12)
    word = "correlated" if noise == "correlated" else "gaussian"
    assert node.asked.releases == [(word, None)] * ROUNDS
    assert node.asked.gradients == [(batch, False, False)] * ROUNDS
    assert algorithm.traits.shared_noise == (3.0 if noise == "correlated" else None)
    assert algorithm.traits.exchanges_per_round == 2


@pytest.mark.parametrize("tail", [0.5, 0.1, 1.0, 0.34])
def test_gossip_averages_the_last_share_of_its_rounds(tail: float) -> None:
    algorithm = A.GossipGD(tail=tail)
    for rounds in (1, 2, 7, 10):
        weights = [algorithm.averaging_weight(t, rounds) for t in range(1, rounds + 1)]
        last = max(1, round(tail * rounds))
        assert weights == [0.0] * (rounds - last) + [1.0] * last


@pytest.mark.parametrize("kind", ["linear", "constant", "correlated", "one", "dda", "dda batch"])
def test_dual_averaging(kind: str) -> None:
    gamma, batch = S.power(2.0, 0.5), {"one": 1, "dda batch": 3}.get(kind)
    algorithm: Any = {
        "linear": lambda: A.DPDDA(offset=gamma),
        "constant": lambda: A.DPDDA(offset=gamma, weights="constant"),
        "correlated": lambda: A.DPDDA(offset=gamma, noise="correlated", correlation=4.0),
        "one": lambda: A.DPDDA(offset=gamma, batch_size=1, sampling="one"),
        "dda": lambda: A.DDA(offset=gamma),
        "dda batch": lambda: A.DDA(offset=gamma, batch_size=3),
    }[kind]()
    found, node = played(algorithm, RING)
    plain = kind in ("constant", "dda", "dda batch")
    z, total = np.zeros((N, D)), 0.0
    for t in range(ROUNDS):
        a = 1.0 if plain else t + 1.0
        total += a
        x = -z / (total * R + 2.0 * (t + 1) ** 0.5)
        z = node.weights() @ (z + a * (node.slope(x, False) + node.noise[t]))
        np.testing.assert_allclose(found[t], x, rtol=1e-10, atol=1e-12)
        assert algorithm.averaging_weight(t + 1, ROUNDS) == a
    word = "correlated" if kind == "correlated" else "gaussian"
    assert node.asked.releases == [(word, None)] * ROUNDS
    assert node.asked.gradients == [(batch, kind == "one", False)] * ROUNDS
    assert algorithm.traits.shared_noise == (4.0 if kind == "correlated" else None)
    drawn = "all" if batch is None else "poisson"
    assert algorithm.traits.sample == ("one" if kind == "one" else drawn)


def test_the_default_offset_of_plain_dual_averaging_is_the_papers() -> None:
    """gamma(t) = 20 + sqrt(t), Liu et al.'s (2022) baseline."""
    assert A.DDA().offset == S.square_root(20.0, 1.0)
    assert A.DPDDA().offset == 20.0


def test_what_goes_on_when_neighbours_change() -> None:
    """A restart keeps the newest model and forgets what was heard of edges that are gone; dual
    averages hold nothing of edges and stay."""
    node = Plain(ALONE)
    for algorithm in (A.ADMM(), A.DVP(), A.PVP(), A.IPADMM(), A.CDPADMM(), A.GossipGD()):
        state = algorithm.step(algorithm.init(Plain(RING), START.copy()), Plain(RING))
        again = algorithm.restart(state, node)
        fresh = algorithm.init(node, np.array(algorithm.last(state)))
        for name in vars(fresh):
            assert np.array_equal(getattr(again, name), getattr(fresh, name)), (algorithm, name)
    for algorithm in (A.DPDDA(), A.DDA()):
        state = algorithm.step(algorithm.init(Plain(RING), START.copy()), Plain(RING))
        assert algorithm.restart(state, node) is state


def test_what_an_algorithm_says_of_itself() -> None:
    """Passes and messages in a round, secrets in the state, noise inside an objective: the
    programs' other parts rest on these words."""
    said = {
        algorithm.name: (
            algorithm.traits.steps_per_round,
            algorithm.traits.exchanges_per_round,
            algorithm.traits.sample,
            algorithm.traits.noise_in_objective,
            algorithm.traits.keeps_secret,
            algorithm.traits.shared_noise,
        )
        for algorithm in (kind() for kind in A.ALGORITHMS.values())
    }
    usual = (1, 1, "all", False, False, None)
    inside = (1, 1, "all", True, False, None)
    assert said == {
        **dict.fromkeys(
            ("admm", "optimum", "pvp", "dpadmm", "ddpadmm", "cdpadmm", "dda", "dpdda"), usual
        ),
        **dict.fromkeys(("madmm", "dvp", "radmm"), inside),
        "ipadmm": (10, *usual[1:]),
        "gossipgd": (*usual[:-1], 10.0),
        **dict.fromkeys(("treegd", "moments"), (*usual[:-1], np.inf)),
    }
    assert A.PVP(closing_dvp=True).traits.noise_in_objective
    assert A.PVP(centre="hidden").traits.keeps_secret
    assert A.PVP(noise="gaussian").published_form() == A.PVP(centre="hidden")
    assert A.ADMM().averaging_weight(1, 3) == 1.0
