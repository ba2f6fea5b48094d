"""ZhangZhu16 Theorems 3-6: how many records B_p a node needs for an excess loss of at most
alpha_acc with high probability.

The theorems say "there exists a constant"; it is the argument `constant` here, 1 unless you know
better, so only ratios of the answers mean something by themselves. Assumes logistic-like losses
(convex, |loss'| <= 1, Lipschitz derivative), |x| <= 1, R = |f|^2/2, a reference classifier of norm
`reference_norm` with the wished loss, and the regularisation that the proofs choose.
"""

from __future__ import annotations

import math

from tacenda import checks

KINDS = ("non-private", "dual", "primal-centre", "primal")


def sample_size(
    kind: str,
    *,
    accuracy: float,
    reference_norm: float,
    failure: float,
    alpha: float | None = None,
    dim: int = 1,
    loss_scale: float = 1.0,
    penalty: float = 1.0,
    degree: int = 1,
    curvature: float = 0.25,
    constant: float = 1.0,
) -> float:
    """B_p must exceed this.

    kind: "non-private" (Theorem 3, holds with probability 1 - failure), "dual" (4, 1 - 2 failure),
    "primal-centre" (5, the minimiser before noise, 1 - 2 failure), "primal" (6, 1 - 3 failure).
    accuracy: alpha_acc. alpha: privacy of one round. loss_scale: C^R.
    """
    checks.one_of("kind", kind, KINDS)
    acc = checks.positive("accuracy", accuracy)
    f = checks.positive("reference_norm", reference_norm)
    delta = checks.between("failure", failure, 0.0, 1.0)
    c, fail = checks.positive("loss_scale", loss_scale), math.log(1 / delta)
    statistical = c * f**2 * fail / acc**2
    if kind == "non-private":
        return constant * statistical
    a, spread = checks.positive("alpha", alpha), dim * math.log(dim / delta)
    if kind == "dual":
        return constant * max(f * spread / (acc * a), c * curvature * f**2 / (acc * a), statistical)
    centre = f**3 * penalty * degree * spread / (acc**2 * a)
    if kind == "primal-centre":
        return constant * max(c * centre, statistical)
    noise = (
        4 * c * f * dim * math.log(dim / delta) ** 2 / (acc * a),
        4 * centre,
        4 * c**1.5 * f**2 * spread / (acc**1.5 * a),
    )
    return constant * max(c * centre, statistical, *noise)
