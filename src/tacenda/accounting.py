"""Privacy accounting: what releases cost, and what a run would guarantee, without any data.

    account(sizes, dim, graph, method, privacy)   noise and epsilon of a run, from public facts
    judge([(event, count), ...])                  the privacy curve of any list of releases
    gaussian_mu(epsilon, delta)                   the Gaussian noise that a budget allows

In a shell: `tacenda account` and `tacenda calibrate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacenda._lazy import lazily

if TYPE_CHECKING:
    from tacenda.privacy.accounting.calibration import gaussian_mu
    from tacenda.privacy.accounting.events import (
        BatchGaussian,
        Event,
        Gaussian,
        L2Laplace,
        OneOfGaussian,
        PoissonGaussian,
        Pure,
    )
    from tacenda.privacy.accounting.judge import Curve, judge
    from tacenda.runtime.account import account

_HOMES = {
    "Curve": "privacy.accounting.judge",
    "Event": "privacy.accounting.events",
    "Gaussian": "privacy.accounting.events",
    "L2Laplace": "privacy.accounting.events",
    "BatchGaussian": "privacy.accounting.events",
    "OneOfGaussian": "privacy.accounting.events",
    "PoissonGaussian": "privacy.accounting.events",
    "Pure": "privacy.accounting.events",
    "account": "runtime.account",
    "gaussian_mu": "privacy.accounting.calibration",
    "judge": "privacy.accounting.judge",
}

__all__ = [
    "Curve",
    "Event",
    "Gaussian",
    "L2Laplace",
    "BatchGaussian",
    "OneOfGaussian",
    "PoissonGaussian",
    "Pure",
    "account",
    "gaussian_mu",
    "judge",
]

__getattr__ = lazily("tacenda", _HOMES)
