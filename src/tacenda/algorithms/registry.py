"""All algorithms by name; the tests in tests/algorithms walk this table."""

from __future__ import annotations

import dataclasses
from typing import Any

from tacenda import checks, schedules
from tacenda.algorithms.admm import ADMM
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.dpadmm import DPADMM
from tacenda.algorithms.dual_averaging import DDA, DPDDA
from tacenda.algorithms.gossip import GossipGD
from tacenda.algorithms.linearised import CDPADMM, DDPADMM, IPADMM
from tacenda.algorithms.madmm import MADMM
from tacenda.algorithms.perturbation import DVP, PVP
from tacenda.algorithms.recycled import RADMM
from tacenda.errors import InputError

ALGORITHMS: dict[str, type[Algorithm]] = {
    kind.name: kind for kind in (ADMM, MADMM, DVP, PVP, RADMM, DPADMM, IPADMM, DDPADMM, CDPADMM, DDA, DPDDA, GossipGD)
}


def by_name(name: str, **hyperparameters: Any) -> Algorithm:
    """The algorithm of that name ("ipadmm"), with hyperparameters as plain values or schedules."""
    kind = ALGORITHMS[checks.one_of("algorithm", name.lower().replace("-", ""), ALGORITHMS)]
    known = [f.name for f in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for given in hyperparameters:
        if given not in known:
            checks.one_of(f"hyperparameter of {kind.__name__}", given, known)
    return kind(**{k: schedules.from_plain(v) for k, v in hyperparameters.items()})


def from_plain(values: dict[str, Any]) -> Algorithm:
    """The inverse of `Algorithm.to_plain`."""
    if "name" not in values:
        raise InputError("an algorithm's table must have a 'name'.")
    return by_name(values["name"], **{k: v for k, v in values.items() if k != "name"})


def private_names() -> list[str]:
    """The class names of the algorithms that take a privacy budget."""
    return [kind.__name__ for kind in ALGORITHMS.values() if kind.private]
