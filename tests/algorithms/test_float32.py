"""Every method runs privately on float32 records, keeps to its reservation, and ends where the
float64 run ends."""

from __future__ import annotations

import numpy as np
import pytest

import tacenda as tc
from tacenda.algorithms import registry

CHOSEN = {
    "cdpadmm": tc.algorithms.CDPADMM(penalty=0.13, proximal=0.7, variance_decay=0.98),
    "ddpadmm": tc.algorithms.DDPADMM(penalty=0.13, proximal=0.7),
    "ipadmm": tc.algorithms.IPADMM(penalty=0.13, proximal=0.7, inner_steps=3),
    "dpadmm": tc.algorithms.DPADMM(penalty=0.13, proximal=0.7),
    "gossipgd": tc.algorithms.GossipGD(noise="independent"),
    "gossipgd, shared noise": tc.algorithms.GossipGD(noise="correlated"),
    "treegd": tc.algorithms.TreeGD(),
    "treegd, independent": tc.algorithms.TreeGD(noise="independent"),
    **{name: registry.by_name(name) for name in ("dda", "dpdda", "dvp", "pvp", "radmm", "madmm")},
}


def test_no_private_method_is_forgotten() -> None:
    served = {
        kind.__name__
        for kind in registry.ALGORITHMS.values()
        if kind.private and not kind.needs.squared_loss
    }
    assert served == {type(algorithm).__name__ for algorithm in CHOSEN.values()}


@pytest.mark.filterwarnings("ignore::tacenda.errors.ConvergenceWarning")
@pytest.mark.parametrize("name", sorted(CHOSEN))
@pytest.mark.parametrize("prepare", [None, "whitening"])
def test_private_runs_on_float32_records(name: str, prepare: str | None) -> None:
    if prepare is not None and CHOSEN[name].needs.smooth_loss:
        pytest.skip("float64 whatever the records are")
    made = tc.data.make_classification(600, 7, seed=1)
    graph = tc.graph.star(6) if name == "dpadmm" else tc.graph.random_regular(6, 3, seed=1)
    models = []
    for dtype in (np.float32, np.float64):
        problem = tc.Problem(
            tc.data.partition.even(made.X.astype(dtype), made.y, 6), classes=(0, 1), strength=1e-3
        )
        result = tc.simulate(
            problem,
            graph,
            CHOSEN[name],
            5,
            tc.Privacy(1.0, 1e-5),
            seed=0,
            prepare=prepare,
            progress=False,
        )
        assert result.privacy is not None and 0.999 < result.privacy.epsilon <= 1.0
        models.append(result.models)
    np.testing.assert_allclose(models[0], models[1], rtol=1e-3, atol=1e-4)
