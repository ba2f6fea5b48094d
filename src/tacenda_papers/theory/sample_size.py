"""Zhang and Zhu (2016), Theorems 3-6: how many records B_p a node needs for an excess loss of at
most alpha_acc with high probability.

The theorems say "there exists a constant"; it is the argument `constant` here, 1 unless you know
better, so only ratios of the answers mean something by themselves. Corollaries 4.1, 6.1 and 6.2 ask
for the same numbers of records, and allow an excess that is larger by Delta(t): how far the loss of
the iterate is from that of the minimiser it converges to, which no theorem bounds. Assumes
logistic-like losses (convex, |loss'| <= 1, Lipschitz derivative), |x| <= 1, R = |f|^2/2, a
reference classifier of norm `reference_norm` with the wished loss, and the regularisation that the
proofs choose.
"""

from __future__ import annotations

import math

from tacenda import checks

KINDS = ("non-private", "dual", "primal-centre", "primal", "primal-final")


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
    """How many records a node needs at least, Theorems 3-6 of Zhang and Zhu (2016).

    The theorems say "there exists a constant"; it is the argument `constant`, so that only ratios
    of the results mean something by themselves.

    Parameters
    ----------
    kind : str
        "non-private" (Theorem 3, holds with probability 1 - failure), "dual" (4, 1 - 2
        failure), "primal-centre" (5, the minimiser before noise, 1 - 2 failure), "primal" (6, 1 -
        3 failure), "primal-final" (Corollary 6.2, PVP after its closing round of DVP, 1 - 5
        failure: both 4 and 6).
    accuracy : float
        alpha_acc, the excess loss that is allowed.
    reference_norm : float
        Norm of a classifier with the wanted loss.
    failure : float
        Probability of failure.
    alpha : float or None, default=None
        Privacy of one round.
    dim : int, default=1
        Number of features.
    loss_scale : float, default=1.0
        C^R.
    penalty : float, default=1.0
        eta.
    degree : int, default=1
        Neighbours of the node.
    curvature : float, default=0.25
        A bound on the curvature of the loss.
    constant : float, default=1.0
        The constant of the theorem.

    Examples
    --------
    >>> from tacenda_papers import theory
    >>> wish = {"accuracy": 0.1, "reference_norm": 1.0, "failure": 0.05}
    >>> public = theory.sample_size("non-private", **wish)
    >>> public <= theory.sample_size("dual", **wish, alpha=0.1, dim=10)
    True
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
    dual = (f * spread / (acc * a), c * curvature * f**2 / (acc * a), statistical)
    if kind == "dual":
        return constant * max(dual)
    centre = f**3 * penalty * degree * spread / (acc**2 * a)
    if kind == "primal-centre":
        return constant * max(c * centre, statistical)
    noise = (
        4 * c * f * dim * math.log(dim / delta) ** 2 / (acc * a),
        4 * centre,
        4 * c**1.5 * f**2 * spread / (acc**1.5 * a),
    )
    primal = (c * centre, statistical, *noise)
    return constant * max(*primal, *(dual if kind == "primal-final" else ()))
