"""Statements of the papers that their own formulas decide, without a run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacenda import Method, Privacy
from tacenda.accounting import account, gaussian_mu
from tacenda.algorithms import RADMM
from tacenda.graph import complete
from tacenda_papers import theory
from tacenda_papers.experiments import recycled
from tacenda_papers.experiments.spec import PUBLISHED, Finding

NODES, RECORDS, FEATURES, DELTA = 100, 452, 104, 1e-5  # Huang and Gong (2020), section 5


def findings() -> list[Finding]:
    """All of them; the papers' errata in docs/papers.md name the same numbers."""
    made = [_rate(), _more_steps(), *_centralised(), _composition(), _condition(), _charged()]
    return [*made, _utility()]


def _bound(rounds: int, inner_steps: int, noise: float) -> float:
    return theory.ipadmm_bound(
        rounds,
        inner_steps,
        dim=FEATURES,
        sizes=np.full(NODES, RECORDS),
        degrees=NODES - 1,
        penalty=0.001,
        noise_multiplier=noise,
        diameter=20.0,
        dual_bound=0.01,
    )


def noise_free_rate(rounds: int = 10**8) -> float:
    """The exponent of t in (24) of Huang and Gong (2020) without noise, for large t."""
    return math.log2(_bound(2 * rounds, 10, 0.0) / _bound(rounds, 10, 0.0))


def _rate() -> Finding:
    rate = noise_free_rate()
    return Finding(
        PUBLISHED,
        "Huang and Gong (2020): without noise the bound (24) falls as 1/t",
        rate < -0.9,
        f"It falls as t^{rate:.2f}: the first term is sqrt(2) D (c2/n)/sqrt(t l).",
    )


def _more_steps() -> Finding:
    one, many = (
        _bound(100, steps, theory.published_multiplier(100, steps, 1.0, DELTA)) / NODES
        for steps in (1, 25)
    )
    return Finding(
        PUBLISHED,
        "Huang and Gong (2020): the bound (24) falls with the number of inner steps",
        many < one,
        f"At T = 100, D = 20, epsilon 1, by nodes: {one:.3f} at l = 1, {many:.3f} at l = 25.",
    )


def split_factor(nodes: int, records: int) -> float:
    """The limit of (24), as a mean over the nodes, against the same bound for one node that holds
    all records."""
    known: dict[str, Any] = {"dim": FEATURES, "epsilon": 1.0, "delta": DELTA, "diameter": 20.0}
    apart = theory.ipadmm_bound_limit(sizes=np.full(nodes, records), **known) / nodes
    together = theory.ipadmm_bound_limit(sizes=[nodes * records], **known)
    return apart / together


def _centralised() -> list[Finding]:
    factor, larger = split_factor(NODES, RECORDS), split_factor(NODES, 100 * RECORDS)
    claim = "Huang and Gong (2020): the bound is of the order of the centralised one"
    return [
        Finding(
            PUBLISHED,
            f"{claim} for a fixed number of nodes",
            math.isclose(factor, larger, rel_tol=0.01),
            f"With a hundred times as many records on {NODES} nodes the ratio of the two bounds is "
            f"{larger:.0f}, as before ({factor:.0f}).",
        ),
        Finding(
            PUBLISHED,
            f"{claim} however many nodes share the records",
            factor < 2,
            f"Over {NODES} nodes it is {factor:.0f} times that of one node with all records: "
            "sum 1/m_i is n^2/N, not 1/N.",
        ),
    ]


def composition_constant(delta: float) -> float:
    """c0 as the proof of Theorem 4 of Huang and Gong (2020) has it:
    sqrt(ln(1/delta)/ln(1.25/delta))."""
    return math.sqrt(math.log(1 / delta) / math.log(1.25 / delta))


def composition_constant_whole(epsilon: float, delta: float) -> float:
    """The same with the term that the proof leaves out: the moments give epsilon' = c + 2 sqrt(c
    ln(1/delta)), c = t epsilon^2/(4 ln(1.25/delta)), and the proof has the second part alone."""
    log = math.log(1 / delta)
    root = math.sqrt(log + epsilon) - math.sqrt(log)
    return epsilon / (2 * root * math.sqrt(math.log(1.25 / delta)))


def _composition() -> Finding:
    exact = theory.published_multiplier(1, 1, 1.0, DELTA)
    return Finding(
        PUBLISHED,
        "Huang and Gong (2020): there is a constant c0 for which the noise (20) is enough",
        True,
        f"The proof gives c0 = {composition_constant(DELTA):.3f} at delta 1e-5, with the term "
        f"that it leaves out {composition_constant_whole(1.0, DELTA):.3f} at epsilon 1; the exact "
        f"Gaussian needs {1 / gaussian_mu(1.0, DELTA) / exact:.3f}.",
    )


def _condition() -> Finding:
    least = {nodes: recycled.least_gammas(nodes) for nodes in (5, 20)}
    top = max(recycled.GAMMAS)
    told = "; ".join(
        f"on {nodes} nodes at least {example:.3g} by (26)-(27), {best:.4g} with the best constants"
        for nodes, (example, best) in least.items()
    )
    return Finding(
        PUBLISHED,
        f"Zhang et al. (2018): Theorem III.1 covers gamma up to {top:g}, as in Figure 1",
        all(best <= top for _, best in least.values()),
        f"Gamma must be {told}.",
    )


def charged_rounds(rounds: int) -> int:
    """How many releases a run of private R-ADMM is charged for; a round is two iterations."""
    method, privacy = Method(RADMM(1.0, 0.2), rounds), Privacy.from_paper(epsilon=8.0)
    found = account(9044, 105, complete(5), method, privacy, strength=0.01, loss_scale=1750.0)
    return sum(count for _, count in found.charges.events(0))


def _charged() -> Finding:
    rounds = 25
    charged = charged_rounds(rounds)
    return Finding(
        PUBLISHED,
        "Zhang et al. (2018): half of the iterations are charged nothing",
        charged == rounds,
        f"The ledger of {2 * rounds} iterations has {charged} releases.",
    )


def utility_orders(
    nodes: int, records: int, dim: int, epsilon: float, delta: float
) -> tuple[float, dict[str, float]]:
    """The order of Liu et al.'s (2022) utility loss, and those that its introduction gives for the
    three methods of Remark 1; all without their constants."""
    own = dim * math.log(1 / delta) / (records * epsilon) ** 2
    return own, {
        "m/eps^2": dim / epsilon**2,
        "(m n^2/eps)^(1/4)": (dim * nodes**2 / epsilon) ** 0.25,
        "m/(sqrt(n) eps)": dim / (math.sqrt(nodes) * epsilon),
    }


def _utility() -> Finding:
    """Remark 1 at the size of the paper's experiments."""
    rounds, nodes, spent = 60_000, 20, {"records": 20_000, "dim": 2000, "epsilon": 1.0}
    own, others = utility_orders(nodes, delta=0.01, **spent)  # type: ignore[arg-type]
    told = ", ".join(f"{value:.3g} for {name}" for name, value in others.items())
    whole = theory.dual_averaging_utility_loss(
        rounds,
        strong_convexity=0.0005,
        lipschitz=1.0,
        second_singular=(1 + 2 * math.cos(2 * math.pi / nodes)) / 3,
        delta=0.01,
        **spent,  # type: ignore[arg-type]
    )
    return Finding(
        PUBLISHED,
        "Liu et al. (2022): the order of the utility loss is below those of three earlier methods",
        own < min(others.values()),
        f"{own:.2g} against {told}, all without constants; only the first falls with the records. "
        f"With its constants (10) is {whole:.2g} there, and a zero model loses 1.",
    )
