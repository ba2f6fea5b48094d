"""The five papers' bounds as functions, each with its assumptions; letters in the bodies are the
papers' own.

    Huang and Gong (2020)  ipadmm_bound, ipadmm_bound_limit                  Theorem 7
    Zhang et al. (2018)    recycled_privacy_bound                            (30)
    Liu et al. (2022)      dual_averaging_bound                              Theorem 2
                           dual_averaging_utility_loss                       Corollary 1, (10)
                           dual_averaging_distance                           (11) with (10)
                           noise_free_distance                               Corollary 2 (12)
                           attained_epsilon                                  Theorem 1, for samples
    Zhang and Zhu (2016)   sample_size                                       Theorems 3-6
                           fit_accuracy, optimal_alpha                       (27)-(30)
    Gauthier et al. (2020) concentrated_total, concentrated_epsilon          its corollary
                           concentrated_price                                (12), for every R < 1

The convergence condition of Zhang et al. (2018), (24)-(27), is in `tacenda.algorithms`.

A bound is a statement about the paper's own assumptions, never a guarantee of a run: privacy
comes from the ledger alone.
"""

from tacenda_papers.theory.concentrated import (
    concentrated_epsilon,
    concentrated_price,
    concentrated_total,
)
from tacenda_papers.theory.dual_averaging import (
    attained_epsilon,
    consensus_distance,
    dual_averaging_bound,
    dual_averaging_distance,
    dual_averaging_utility_loss,
    noise_free_distance,
    published_noise_std,
)
from tacenda_papers.theory.multistep import ipadmm_bound, ipadmm_bound_limit, published_multiplier
from tacenda_papers.theory.privacy_level import (
    AccuracyFit,
    OptimalLevel,
    fit_accuracy,
    optimal_alpha,
    privacy_utility,
)
from tacenda_papers.theory.recycled import recycled_privacy_bound
from tacenda_papers.theory.sample_size import sample_size

__all__ = [
    "AccuracyFit",
    "OptimalLevel",
    "attained_epsilon",
    "concentrated_epsilon",
    "concentrated_price",
    "concentrated_total",
    "consensus_distance",
    "dual_averaging_bound",
    "dual_averaging_distance",
    "dual_averaging_utility_loss",
    "fit_accuracy",
    "ipadmm_bound",
    "ipadmm_bound_limit",
    "noise_free_distance",
    "optimal_alpha",
    "privacy_utility",
    "published_multiplier",
    "published_noise_std",
    "recycled_privacy_bound",
    "sample_size",
]
