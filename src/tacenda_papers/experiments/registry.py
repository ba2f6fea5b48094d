"""All experiments by name, in the papers' order."""

from __future__ import annotations

from tacenda import checks
from tacenda_papers.experiments import (
    concentrated,
    dual_averaging,
    equal_privacy,
    ipadmm,
    many_members,
    perturbation,
    perturbation_choice,
    recycled,
    whitened,
)
from tacenda_papers.experiments.spec import Claim, Experiment

_FILES = (
    ipadmm,
    recycled,
    dual_averaging,
    perturbation,
    perturbation_choice,
    concentrated,
    equal_privacy,
    many_members,
    whitened,
)
EXPERIMENTS: dict[str, Experiment] = {e.name: e for file in _FILES for e in file.EXPERIMENTS}
CLAIMS: list[Claim] = [c for file in _FILES for c in getattr(file, "CLAIMS", ())]


def by_name(name: str) -> Experiment:
    """The experiment of that name."""
    return EXPERIMENTS[checks.one_of("experiment", name, EXPERIMENTS)]
