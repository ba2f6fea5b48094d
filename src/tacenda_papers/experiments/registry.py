"""All experiments by name, in the papers' order."""

from __future__ import annotations

from tacenda import checks
from tacenda_papers.experiments import (
    concentrated,
    concentrated_beyond,
    dual_averaging,
    dual_averaging_beyond,
    dual_averaging_levels,
    equal_privacy,
    ipadmm,
    ipadmm_batches,
    ipadmm_compare,
    ipadmm_steps,
    many_members,
    perturbation,
    perturbation_choice,
    perturbation_levels,
    recycled,
    recycled_private,
    whitened,
)
from tacenda_papers.experiments.spec import Claim, Experiment

_FILES = (
    ipadmm,
    ipadmm_steps,
    ipadmm_batches,
    ipadmm_compare,
    recycled,
    recycled_private,
    dual_averaging,
    dual_averaging_levels,
    dual_averaging_beyond,
    perturbation,
    perturbation_levels,
    perturbation_choice,
    concentrated,
    concentrated_beyond,
    equal_privacy,
    many_members,
    whitened,
)
EXPERIMENTS: dict[str, Experiment] = {e.name: e for file in _FILES for e in file.EXPERIMENTS}
CLAIMS: list[Claim] = [c for file in _FILES for c in getattr(file, "CLAIMS", ())]


def by_name(name: str) -> Experiment:
    """The experiment of that name."""
    return EXPERIMENTS[checks.one_of("experiment", name, EXPERIMENTS)]
