"""`Privacy`: what a run promises, as the user states it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacenda import checks, schedules
from tacenda._types import Floats
from tacenda.errors import InputError, UnsupportedError
from tacenda.privacy import adjacency as relation
from tacenda.privacy.secrets.noise_plan import Spread

MODES = ("sound", "as-published")
LARGE_EPSILON = 20.0  # above it the bound e^epsilon says nothing that anybody could use


@dataclass(frozen=True)
class Privacy:
    """(epsilon, delta) for the whole run, for one record of any node, against an adversary who sees
    every message.

    epsilon      a number, or one per node
    delta        the chance that the bound fails; 0 only for methods of pure privacy
    adjacency    "replace-one" (node sizes are public) or "add-remove"
    mode         "sound": noise from an exact accountant. "as-published": the paper's own formula,
                 for reproducing its figures; the result then carries the claimed and the true
                 epsilon. Never for real data.
    spread       how the budget is spread over the rounds: "uniform", a schedule, or one share per
                 round
    coalition    how many curious members may pool what they know, where neighbours share noise;
                 None: all others may, so that only noise which needs no trust is accepted, and an
                 algorithm whose neighbours share noise is refused
    node_noise   "own": each node gets the noise its own size needs; "worst": all get what the
                 smallest node needs
    """

    epsilon: float | Sequence[float]
    delta: float = 1e-5
    adjacency: str = "replace-one"
    mode: str = "sound"
    spread: Spread = "uniform"
    node_noise: str = "own"
    coalition: int | None = 1
    noise: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.noise:
            object.__setattr__(self, "epsilon", _epsilon(self.epsilon))
        checks.between("delta", self.delta, 0.0, 1.0, open_ends=False)
        if self.delta == 1:
            raise InputError("delta must be below 1, not 1: with delta 1 nothing is promised.")
        relation.check(self.adjacency)
        checks.one_of("mode", self.mode, MODES)
        if self.coalition is not None:
            checks.whole("coalition", self.coalition)
        checks.one_of("node_noise", self.node_noise, ("own", "worst"))
        if not isinstance(self.spread, str) and not callable(self.spread):
            object.__setattr__(self, "spread", tuple(float(s) for s in self.spread))

    @classmethod
    def from_noise(
        cls,
        *,
        noise_multiplier: float | None = None,
        round_epsilon: float | None = None,
        delta: float = 1e-5,
        adjacency: str = "replace-one",
        spread: Spread = "uniform",
        node_noise: str = "own",
        coalition: int | None = 1,
    ) -> Privacy:
        """The other way round: the noise is given, and the result tells its epsilon at `delta`.

        noise_multiplier: noise_std / sensitivity of each Gaussian release (of the first one, where
        the algorithm shapes the noise over the run). round_epsilon: the pure epsilon of each round
        (DVP, PVP, PP, R-ADMM).
        """
        if (noise_multiplier is None) == (round_epsilon is None):
            raise InputError("from_noise takes exactly one of noise_multiplier and round_epsilon.")
        if noise_multiplier is not None:
            noise = {"noise_multiplier": checks.positive("noise_multiplier", noise_multiplier)}
        else:
            noise = {"round_epsilon": checks.positive("round_epsilon", round_epsilon)}
        return cls(np.inf, delta, adjacency, "sound", spread, node_noise, coalition, noise)

    @classmethod
    def from_paper(
        cls,
        *,
        epsilon: float | None = None,
        delta: float = 1e-5,
        c0: float | None = None,
        a: float | None = None,
        alpha: float | None = None,
        phi: float | None = None,
        spread: Spread = "uniform",
    ) -> Privacy:
        """Noise as published, from the paper's own inputs.

        c0 with epsilon (HuangGong20), a (ZhangEtAl18), alpha a round (ZhangZhu16), total phi
        (GauthierEtAl20).
        """
        inputs = {"c0": c0, "a": a, "alpha": alpha, "phi": phi}
        noise = {
            name: checks.positive(name, value)
            for name, value in inputs.items()
            if value is not None
        }
        if len(noise) > 1:
            raise InputError(
                f"from_paper takes one of c0, a, alpha and phi, not {', '.join(noise)} together."
            )
        if epsilon is None and (not noise or "c0" in noise):
            raise InputError(
                "from_paper needs epsilon (with c0 if you like), or one of a, alpha and phi."
            )
        claim = np.inf if epsilon is None else checks.positive("epsilon", epsilon)
        return cls(claim, delta, "replace-one", "as-published", spread, noise=noise)

    def epsilon_of(self, n: int) -> Floats:
        """(n,) the target of each node."""
        values = np.asarray(self.epsilon, float)
        if values.ndim and len(values) != n:
            raise InputError(
                f"epsilon must be one number or one per node ({n}), not {len(values)} numbers."
            )
        return np.broadcast_to(values, (n,)).copy()

    def pooled(self, title: str) -> int:
        """How many members may pool what they know, for the algorithm `title`,
        whose neighbours share noise."""
        if self.coalition is None:
            raise UnsupportedError(
                f"{title} shares noise between neighbours, "
                "which coalition=None (all others may pool what they know) rules out; pass "
                "coalition=1 or more, or use noise that needs no trust: noise='independent', "
                "or an algorithm such as dpdda or cdpadmm."
            )
        return self.coalition

    def advice(self, records: float) -> list[str]:
        """What such a budget means in plain words, where it promises next to nothing; for a
        network of that many records in all, a public number."""
        said = []
        largest = float(np.max(np.asarray(self.epsilon, float)))
        if LARGE_EPSILON < largest < np.inf:
            said.append(
                f"Weak privacy: epsilon={largest:g} promises next to nothing: whoever sees the "
                f"messages may be e^{largest:g} times surer that a record was there; "
                f"choose epsilon from 0.1 to 10."
            )
        if self.delta * records > 1:
            said.append(
                f"Weak privacy: delta={self.delta:g} is above one over the number of records "
                f"({records:g}): publishing a record outright could pass under it; "
                f"choose delta below {1 / records:.1g}."
            )
        return said

    def to_plain(self) -> dict[str, Any]:
        """Plain values for files."""
        spread = schedules.to_plain(self.spread)
        return {
            "epsilon": list(self.epsilon) if isinstance(self.epsilon, tuple) else self.epsilon,
            "delta": self.delta,
            "adjacency": self.adjacency,
            "mode": self.mode,
            "spread": list(spread) if isinstance(spread, tuple) else spread,
            "node_noise": self.node_noise,
            "coalition": self.coalition,
            **({"noise": dict(self.noise)} if self.noise else {}),
        }


def _epsilon(value: Any) -> Any:
    if isinstance(value, (str, bytes)) or value is None:
        raise InputError(
            f"epsilon must be a number above 0, not {value!r}; "
            "for a run without privacy pass privacy=None."
        )
    if np.ndim(value) == 0:
        return checks.positive("epsilon", value)
    return tuple(checks.positive("epsilon", v) for v in value)
