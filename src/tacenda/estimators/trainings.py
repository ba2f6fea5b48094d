"""The trainings of a search: which candidates one of them serves, and what all cost together."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from tacenda import regularisers
from tacenda.algorithms.moments import MomentRegression
from tacenda.errors import PrivacyError
from tacenda.estimators.base import Arrangement
from tacenda.estimators.regressor_base import LinearRegressor, released_form
from tacenda.privacy.accounting.calibration import gaussian_mu
from tacenda.privacy.accounting.curves import GaussianProfile
from tacenda.privacy.secrets.ledger import Charges
from tacenda.privacy.statement import Statement
from tacenda.runtime.spec import RunSpec

FREE = ("strength", "l1_ratio")  # other values of these follow from one released moment
WITHIN = 1 + 1e-9


@dataclass(frozen=True, eq=False)
class Training:
    """One training: the positions of its candidates, what it will run, and what that will cost."""

    candidates: list[int]
    arranged: Arrangement
    statement: Statement

    def models(self, settings: list[dict[str, Any]]) -> dict[int, Any]:
        """Run it: the model of each of its candidates."""
        first, *others = self.candidates
        own: Any = self.arranged.estimator._run(self.arranged)
        return {first: own} | {k: self._other(own, settings[k]) for k in others}

    def _other(self, own: Any, settings: dict[str, Any]) -> Any:
        """The model of another strength, from what the training released."""
        other = copy.copy(own).set_params(**settings)
        form = released_form(own.result_)
        assert form is not None
        which = regularisers.by_name(other._regulariser())
        model = form.path(which, [other._stated_strength()])[0]
        models = np.broadcast_to(model, own.result_.models.shape).copy()
        result = replace(own.result_, models=models, last=models, noise_std=None)
        other._keep(result, self.arranged.scaling, self.arranged.topology)
        return other


def trainings_of(
    search: Any, candidates: list[dict[str, Any]], part: dict[str, Any], seeds: list[int] | None
) -> list[Training]:
    """All trainings, arranged and priced: together they keep (epsilon, delta)."""
    groups = _groups(candidates, free=isinstance(search.estimator, LinearRegressor))
    found = _priced(search, groups, candidates, part, seeds)
    alone = all(isinstance(t.arranged.method.algorithm, MomentRegression) for t in found)
    if len(groups) < len(candidates) and not alone:
        found = _priced(search, _groups(candidates, free=False), candidates, part, seeds)
    return found


def _groups(candidates: list[dict[str, Any]], free: bool) -> list[list[int]]:
    """Candidates that one training serves."""
    groups: dict[str, list[int]] = {}
    for k, params in enumerate(candidates):
        own = {name: v for name, v in params.items() if not (free and name in FREE)}
        groups.setdefault(repr(sorted(own.items())) if free else str(k), []).append(k)
    return list(groups.values())


def _priced(
    search: Any,
    groups: list[list[int]],
    candidates: list[dict[str, Any]],
    part: dict[str, Any],
    seeds: list[int] | None,
) -> list[Training]:
    """By Gaussian composition, where trainings are Gaussian; else by adding epsilon and delta
    up."""
    epsilon, delta = float(search.epsilon), float(search.delta)
    mu = gaussian_mu(epsilon, delta) / math.sqrt(len(groups))
    ways = (
        (GaussianProfile(mu).epsilon(delta), delta),
        (epsilon / len(groups), delta / len(groups)),
    )
    for each, small in ways:
        found = []
        for group in groups:
            own = clone(search.estimator).set_params(
                **candidates[group[0]],
                **search.estimator._budgeted(each, small),
                ledger=search.ledger,
                dataset=search.dataset,
                random_state=None if seeds is None else seeds[group[0]],
                **search._known,
                **search._sizes(1 - search.held_out),
            )
            arranged = own._arranged(**part)
            found.append(Training(group, arranged, _reserved(arranged, delta)))
        if together([t.statement for t in found], epsilon).epsilon <= epsilon * WITHIN:
            return found
    name = found[0].arranged.method.algorithm.title
    raise PrivacyError(
        f"epsilon: no division of {epsilon:g} over {len(groups)} trainings by {name} is known "
        "to keep it; use algorithm='auto'."
    )


def _reserved(arranged: Arrangement, delta: float) -> Statement:
    """What a training will cost, before it begins."""
    assert arranged.privacy is not None
    spec = RunSpec.of_problem(
        arranged.method, arranged.problem, arranged.topology, arranged.privacy
    )
    assert spec.calibration is not None
    found = spec.statement(spec.calibration.reserved, "reserved")
    assert found is not None
    return replace(found, delta=delta, hidden=None)


def together(statements: list[Statement], epsilon: float) -> Statement:
    """One statement of several runs on the same records."""
    charges = Charges(item for said in statements for item in said.charges)
    return replace(statements[0], charges=charges, target=epsilon, hidden=None)
