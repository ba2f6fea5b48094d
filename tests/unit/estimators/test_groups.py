"""`groups` in fit: the guarantee is for persons."""

from __future__ import annotations

import numpy as np
import pytest

import tacenda as tc
from tacenda.errors import InputError
from tacenda.estimators import PrivateLogisticRegression


def test_groups_make_persons_the_unit() -> None:
    data = tc.data.make_classification(600, 3, difficulty=0.2, seed=0)
    ids = np.random.default_rng(0).integers(0, 200, 600)
    model = PrivateLogisticRegression(
        epsilon=20.0,
        adjacency="add-remove",
        n_nodes=2,
        public_sizes=250,
        classes=(0, 1),
        bounds="norm",
        algorithm="treegd",
        rounds=5,
        random_state=0,
    )
    model.fit(data.X, data.y, groups=ids, records_per_person=3)
    assert model.privacy_.unit == "one person with at most 3 records"
    assert any("every person with at most 3 records" in said for said in model.conditions_)
    with pytest.raises(InputError, match="groups must hold one id per record"):
        model.fit(data.X, data.y, groups=ids[:5])
    with pytest.raises(InputError, match="n_nodes must be given"):
        model.set_params(n_nodes=None).fit(data.X, data.y, groups=ids, records_per_person=3)
