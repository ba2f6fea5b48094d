"""What an algorithm is when nothing is said: a file or a contract that leaves a hyperparameter out
must mean the same run tomorrow, and the papers' names and verdicts are what is shown to users."""

from __future__ import annotations

import dataclasses

from tacenda.algorithms import ALGORITHMS
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.needs import Needs

DEFAULTS = {
    "admm": {"penalty": 0.5, "own_strength": 0.0},
    "madmm": {"penalty": 0.5, "dual_step": None, "noise": "l2-laplace"},
    "dvp": {"penalty": 0.5, "noise": "l2-laplace", "own_strength": 0.0},
    "pvp": {
        "penalty": 0.5,
        "noise": "l2-laplace",
        "closing_dvp": False,
        "centre": "released",
        "own_strength": 0.0,
    },
    "radmm": {
        "penalty": 0.5,
        "recycle_proximal": 0.2,
        "noise": "l2-laplace",
        "perturb": "objective",
    },
    "dpadmm": {"penalty": 0.1, "proximal": 1.0, "batch_size": None, "noise_decay": 0.5},
    "ipadmm": {
        "penalty": 0.01,
        "proximal": 1.0,
        "inner_steps": 10,
        "batch_size": None,
        "regulariser_step": "auto",
        "radius": None,
        "diameter": 20.0,
        "objective_slope": 1.0,
    },
    "ddpadmm": {
        "penalty": 0.1,
        "proximal": 1.0,
        "batch_size": None,
        "regulariser_step": "auto",
        "radius": None,
    },
    "cdpadmm": {
        "penalty": 0.1,
        "proximal": 1.0,
        "variance_decay": 0.98,
        "batch_size": None,
        "regulariser_step": "auto",
        "radius": None,
    },
    "dda": {
        "offset": {"schedule": "square-root", "offset": 20.0, "slope": 1.0},
        "batch_size": None,
        "sampling": "poisson",
    },
    "dpdda": {
        "weights": "linear",
        "offset": 20.0,
        "batch_size": None,
        "sampling": "poisson",
        "noise": "independent",
        "correlation": 10.0,
    },
    "gossipgd": {
        "step_size": 1.0,
        "mixings": 1,
        "noise": "correlated",
        "correlation": 10.0,
        "tail": 0.5,
        "batch_size": None,
    },
}
# title, source, private, output, paper of the verdict, verdict
SHOWN = {
    "admm": (
        "ADMM",
        "Zhang and Zhu (2016), (9)-(10); Zhang et al. (2018), (8)-(9)",
        False,
        "last",
        "Zhang et al. (2018); Zhang and Zhu (2016)",
        "no privacy",
    ),
    "madmm": (
        "M-ADMM (penalty perturbation)",
        "the baseline of Zhang et al. (2018)",
        True,
        "last",
        "baseline of Zhang et al. (2018)",
        "loose",
    ),
    "dvp": (
        "ADMM with dual variable perturbation (DVP)",
        "Zhang and Zhu (2016), Algorithm 2, (15)-(19)",
        True,
        "last",
        "Zhang and Zhu (2016), Alg. 2",
        "unsound",
    ),
    "pvp": (
        "ADMM with primal variable perturbation (PVP)",
        "Zhang and Zhu (2016), Algorithm 3, (22)-(24)",
        True,
        "last",
        "Zhang and Zhu (2016), Alg. 3",
        "unsound as a whole",
    ),
    "radmm": (
        "Recycled ADMM (R-ADMM)",
        "Zhang et al. (2018), (10)-(13), (28)-(30)",
        True,
        "last",
        "Zhang et al. (2018), Alg. 2",
        "loose",
    ),
    "dpadmm": (
        "DP-ADMM (star)",
        "the baseline of Huang and Gong (2020) and Gauthier et al. (2020)",
        True,
        "last",
        "baseline of Huang and Gong (2020), Gauthier et al. (2020)",
        "sound if bounded",
    ),
    "ipadmm": (
        "IPADMM (multi-step)",
        "Huang and Gong (2020), (11)-(15), (18), (23)",
        True,
        "average",
        "Huang and Gong (2020)",
        "loose",
    ),
    "ddpadmm": (
        "DDP-ADMM (variance 1/sqrt(t))",
        "Gauthier et al. (2020), (6)-(9)",
        True,
        "last",
        "Gauthier et al. (2020)",
        "sound if bounded",
    ),
    "cdpadmm": (
        "CDP-ADMM (geometric variance)",
        "Gauthier et al. (2020), (6)-(9)",
        True,
        "last",
        "Gauthier et al. (2020)",
        "sound if bounded",
    ),
    "dda": (
        "DDA (dual averaging)",
        "Liu et al. (2022), its baseline",
        True,
        "average",
        "Liu et al. (2022) baseline",
        "no privacy as published",
    ),
    "dpdda": (
        "DP-DDA (private dual averaging)",
        "Liu et al. (2022), Algorithm 1, (2)-(5)",
        True,
        "average",
        "Liu et al. (2022), Alg. 1",
        "unsound",
    ),
    "gossipgd": ("GossipGD (noise shared by neighbours)", "ours", True, "average", "ours", "sound"),
}
EXACT = {"smooth_loss", "smooth_regulariser", "bounded_loss_slope"}
INSIDE = EXACT | {"twice_differentiable_loss"}
NEEDS = {
    "admm": EXACT,
    "pvp": EXACT,
    **dict.fromkeys(("madmm", "dvp", "radmm"), INSIDE),
    "dpadmm": {"hub"},
    "dpdda": {"strongly_convex_regulariser"},
}


def test_hyperparameters_that_are_left_out_mean_what_they_always_meant() -> None:
    found = {name: kind().to_plain() for name, kind in ALGORITHMS.items() if name in DEFAULTS}
    assert found == {name: {"name": name, **values} for name, values in DEFAULTS.items()}


def test_what_is_shown_of_an_algorithm() -> None:
    for name, words in SHOWN.items():
        kind = ALGORITHMS[name]
        verdict = kind.verdict
        assert verdict is not None
        said = (kind.title, kind.source, kind.private, kind.default_output)
        assert (*said, verdict.paper, verdict.verdict) == words
        assert len(verdict.printed) > 20 and len(verdict.sound) > 15


def test_what_an_algorithm_needs() -> None:
    for name in DEFAULTS:
        needs = ALGORITHMS[name].needs
        found = {f.name for f in dataclasses.fields(needs) if getattr(needs, f.name)}
        assert found == NEEDS.get(name, set()), name
    assert not any(dataclasses.astuple(Needs()))
    assert (Algorithm.private, Algorithm.default_output) == (True, "last")
    assert (Algorithm.batch_size, Algorithm.verdict) == (None, None)
