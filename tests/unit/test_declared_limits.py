"""Every setting that is checked by its name: what is refused, by exactly that name, and what at the
very limit is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

import tacenda as tc
from tacenda import losses, regularisers
from tacenda.algorithms.moments import MomentRegression
from tacenda.algorithms.whitening import Whitening
from tacenda.errors import InputError
from tacenda.graph.coalition import leverage
from tacenda.graph.topology import Topology
from tacenda.privacy import adjacency
from tacenda.privacy.accounting import events
from tacenda.privacy.accounting.calibration import solve_scale
from tacenda.privacy.accounting.judge import judge
from tacenda.privacy.noise import discrete
from tacenda.privacy.secrets.noise_plan import round_weights
from tacenda.questions.constants import LARGEST_RADIUS, SENSIBLE, Constants
from tacenda.questions.facts import Facts

NOT_ABOVE_0 = (0.0, -1.0, math.nan, math.inf, "1", True, None)
BELOW_0 = (-1e-300, math.nan, "1", False, None)
NO_WORD = ("", "nonsense", None, 1)


@dataclass(frozen=True)
class Rule:
    """make(value) refuses `wrong` with a sentence that begins with `name`, and takes `right`."""

    name: str
    make: Callable[[Any], Any]
    wrong: tuple[Any, ...]
    right: tuple[Any, ...] = ()


def no_less(least: int) -> tuple[Any, ...]:
    return (least - 1, least + 0.5, math.nan, math.inf, "2", True)


def constants(**given: Any) -> Constants:
    return Constants.declared(**{"loss": "logistic", **given})


def problem(**given: Any) -> tc.Problem:
    return tc.Problem([(np.eye(2), [0, 1])], classes=(0, 1), **given)


FACTS = Facts(np.full(3, 10.0), 2, constants())
PATH = Topology.of(nx.path_graph(3))
CURVE = judge([(events.Gaussian(2.0), 1)])
GAUSSIAN = [(events.Gaussian(1.0), 2)]
ENDS = (0.0, math.inf)


def scaled(epsilon: Any = 1.0, delta: Any = 1e-5, **more: Any) -> float:
    return solve_scale(lambda k: [(events.Gaussian(k), 1)], epsilon, delta, **more)


def paper(**given: Any) -> Any:
    return tc.Privacy.from_paper(**given)


RULES = [
    # privacy
    Rule("epsilon", tc.Privacy, (*NOT_ABOVE_0, "", b"1"), (1e-300, 1e300)),
    Rule("epsilon", lambda v: tc.Privacy([1.0, v]), NOT_ABOVE_0, (2.0,)),
    Rule("epsilon", lambda v: paper(epsilon=v, c0=1.0), (0.0, -1.0, math.nan, "1"), (2.0,)),
    Rule("delta", lambda v: tc.Privacy(1.0, v), (-1e-9, 1.0, 1.1, math.nan), (0.0, 0.999)),
    Rule("mode", lambda v: tc.Privacy(1.0, mode=v), NO_WORD, ("sound", "as-published")),
    Rule("adjacency", adjacency.check, NO_WORD, ("replace-one", "add-remove")),
    Rule("adjacency", lambda v: tc.Privacy(1.0, adjacency=v), NO_WORD, ("add-remove",)),
    Rule("coalition", lambda v: tc.Privacy(1.0, coalition=v), no_less(0), (None, 0, 5)),
    Rule("node_noise", lambda v: tc.Privacy(1.0, node_noise=v), NO_WORD, ("own", "worst")),
    Rule(
        "noise_multiplier",
        lambda v: tc.Privacy.from_noise(noise_multiplier=v),
        NOT_ABOVE_0[:-1],
        (1e-3,),
    ),
    Rule(
        "round_epsilon", lambda v: tc.Privacy.from_noise(round_epsilon=v), NOT_ABOVE_0[:-1], (0.1,)
    ),
    *(
        Rule(name, lambda v, name=name: paper(**{name: v}), NOT_ABOVE_0[:-1], (0.1,))
        for name in ("a", "alpha", "phi")
    ),
    Rule("c0", lambda v: paper(epsilon=1.0, c0=v), NOT_ABOVE_0[:-1], (0.1,)),
    Rule("spread", lambda v: round_weights(v, 3), ("even", [1.0], [1.0, 0.0, 1.0]), ("uniform",)),
    Rule("spread", lambda v: round_weights(v, 2), ([1.0, math.nan], [1, math.inf]), ([1, 2],)),
    # events
    Rule("noise_multiplier", events.Gaussian, BELOW_0, ENDS),
    Rule("noise_multiplier", lambda v: events.PoissonGaussian(v, 0.5), BELOW_0, ENDS),
    Rule("rate", lambda v: events.PoissonGaussian(1.0, v), (-1e-9, 1 + 1e-9, math.nan), (0, 1)),
    Rule("noise_multiplier", lambda v: events.OneOfGaussian(v, 3), BELOW_0, ENDS),
    Rule("population", lambda v: events.OneOfGaussian(1.0, v), no_less(1), (1, 9)),
    Rule("epsilon", events.Pure, BELOW_0, ENDS),
    Rule("epsilon", lambda v: events.L2Laplace(v, 3), BELOW_0, ENDS),
    Rule("dim", lambda v: events.L2Laplace(1.0, v), no_less(1), (1, 9)),
    Rule("noise_multiplier", events.DiscreteGaussian, BELOW_0, ENDS),
    Rule("mu", lambda v: events.MaskedSum(v, 2), BELOW_0, ENDS),
    Rule("coalition", lambda v: events.MaskedSum(1.0, v), no_less(0), (0, 9)),
    Rule("mu", lambda v: events.CorrelatedGaussian(v, 2), BELOW_0, ENDS),
    Rule("coalition", lambda v: events.CorrelatedGaussian(1.0, v), no_less(0), (0, 9)),
    Rule("count", lambda v: events.merged([(events.Gaussian(1.0), v)]), no_less(0), (0, 9)),
    # curves
    Rule("delta", CURVE.epsilon, (-1e-9, 1 + 1e-9, math.nan, "1"), (0.0, 1.0)),
    Rule("epsilon", CURVE.delta, BELOW_0, (0.0, math.inf)),
    Rule("size", CURVE.group, no_less(1), (1, 4)),
    Rule(
        "accountant", lambda v: judge(GAUSSIAN, accountant=v), NO_WORD, ("auto", "gaussian-exact")
    ),
    Rule("epsilon", scaled, NOT_ABOVE_0, (1.0,)),
    Rule("delta", lambda v: scaled(1.0, v), (-1e-9, 1.0, math.nan), (0.9,)),
    Rule("hint", lambda v: scaled(hint=v), NOT_ABOVE_0[:-1], (None, 3.0)),
    # noise
    Rule("scale", discrete._check_scale, (*NOT_ABOVE_0, 2.0**28 + 1), (2.0**28, 0.1)),
    Rule("size", discrete._shape, no_less(0), (0, 4)),
    # graphs
    Rule("correlation", lambda v: leverage(PATH, v, 1), BELOW_0, ENDS),
    Rule("coalition", lambda v: leverage(PATH, 1.0, v), no_less(0), (0, 2)),
    # problems
    Rule("strength", lambda v: constants(strength=v), (*BELOW_0, 1e101), (0.0,)),
    Rule("loss_scale", lambda v: constants(loss_scale=v), NOT_ABOVE_0, (1e-3,)),
    Rule("data_norm", lambda v: constants(data_norm=v), NOT_ABOVE_0, (1e-3,)),
    Rule("clip_norm", lambda v: constants(clip_norm=v), NOT_ABOVE_0[:-1], (None, 1e-3)),
    Rule("radius", lambda v: constants(radius=v), NOT_ABOVE_0, (10.0,)),
    Rule("asked.strength", lambda v: constants(strength=v, prefix="asked."), (-1.0,)),
    Rule("asked.loss_scale", lambda v: constants(loss_scale=v, prefix="asked."), (-1.0,)),
    Rule("asked.data_norm", lambda v: constants(data_norm=v, prefix="asked."), (-1.0,)),
    Rule("asked.clip_norm", lambda v: constants(clip_norm=v, prefix="asked."), (-1.0,)),
    Rule("asked.radius", lambda v: constants(radius=v, prefix="asked."), (-1.0,)),
    Rule("on_large_rows", lambda v: problem(on_large_rows=v), NO_WORD, ("error", "scale")),
    Rule("tolerance", lambda v: problem().solve(v), NOT_ABOVE_0, (1e-3,)),
    Rule("width", losses.SmoothedHinge, NOT_ABOVE_0, (0.5,)),
    Rule("delta", losses.Huber, NOT_ABOVE_0, (0.5,)),
    Rule("loss", losses.by_name, NO_WORD, ("hinge", "smoothed-hinge", "Smoothed_Hinge")),
    Rule("regulariser", regularisers.by_name, ("", "nonsense", 1), ("l1", None, "Elastic_Net")),
    Rule("l1_ratio", regularisers.ElasticNet, (-1e-9, 1 + 1e-9, math.nan, "1"), (0.0, 1.0)),
    Rule("label_scale", lambda v: FACTS.moment_bound(v, 1.0), (-1e-9, math.inf), (0.0, 5.0)),
    Rule("label_bound", lambda v: FACTS.moment_bound(1.0, v), (0.0, -1.0, math.inf), (5.0,)),
    # algorithms
    Rule("Whitening.share", lambda v: Whitening(share=v), (0.0, 1.0, math.nan), (0.999,)),
    Rule("Whitening.norm", lambda v: Whitening(norm=v), NOT_ABOVE_0, (0.1,)),
    *(
        Rule(f"Whitening.{name}", lambda v, name=name: Whitening(**{name: v}), NOT_ABOVE_0[:-1])
        for name in ("clip", "floor", "scale")
    ),
    Rule("Whitening.label_scale", lambda v: Whitening(label_scale=v), BELOW_0[:-1], (None, 0.3)),
    Rule("Whitening.rank", lambda v: Whitening(rank=v), no_less(1), (None, 1)),
    Rule("Whitening.kind", lambda v: Whitening(kind=v), ("", "nonsense", 1), (None, "full")),
    Rule("prepare.name", Whitening.from_plain, ({"name": "white"},), ({}, {"name": "whitening"})),
    Rule("prepare", Whitening.from_plain, ({"shares": 1},), ({"share": 0.3, "clip": None},)),
    Rule("MomentRegression.share", lambda v: MomentRegression(share=v), (0.0, 1.0), (0.5,)),
    *(
        Rule(
            f"MomentRegression.{name}",
            lambda v, name=name: MomentRegression(**{name: v}),
            NOT_ABOVE_0,
            (0.5,),
        )
        for name in ("tail", "label_scale", "label_bound")
    ),
]


@pytest.mark.parametrize("rule", RULES, ids=[f"{k}-{rule.name}" for k, rule in enumerate(RULES)])
def test_what_is_refused_is_named_and_what_is_at_the_limit_is_taken(rule: Rule) -> None:
    for value in rule.wrong:
        with pytest.raises(InputError) as refused:
            rule.make(value)
        assert str(refused.value).startswith(f"{rule.name} must "), (value, str(refused.value))
    for value in rule.right:
        rule.make(value)


def test_constants_hold_what_makes_sense() -> None:
    """Between 1e-9 and 1e9, the ends included; the radius up to 1e15."""
    plain = constants()
    assert SENSIBLE == (1e-9, 1e9) and LARGEST_RADIUS == 1e15
    for name in ("data_norm", "loss_scale", "clip_norm"):
        for value in SENSIBLE:
            assert getattr(replace(plain, **{name: value}), name) == value
        for value in (SENSIBLE[0] / 2, SENSIBLE[1] * 2):
            with pytest.raises(InputError, match=f"^{name} must be between"):
                replace(plain, **{name: value})
    assert replace(plain, strength=SENSIBLE[1]).strength == SENSIBLE[1]
    assert replace(plain, radius=LARGEST_RADIUS).radius == LARGEST_RADIUS
    assert replace(plain, radius=SENSIBLE[0]).radius == SENSIBLE[0]
    for wrong in (LARGEST_RADIUS * 2, SENSIBLE[0] / 2):
        with pytest.raises(InputError, match="^radius must be between"):
            replace(plain, radius=wrong)
    for width in SENSIBLE:
        assert constants(loss=losses.Huber(width)).loss.parameter == width
    with pytest.raises(InputError, match=r"^the parameter of Huber must be between"):
        constants(loss=losses.Huber(SENSIBLE[1] * 2))
