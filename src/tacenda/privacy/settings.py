"""`Privacy`: what a run promises, as the user states it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tacenda import checks, schedules
from tacenda._types import Array, Floats
from tacenda.errors import InputError, UnsupportedError
from tacenda.privacy.secrets.noise_plan import Spread, level_and_weights, round_weights
from tacenda.terms.privacy import PROMISE, Promise
from tacenda.terms.reference import documented
from tacenda.terms.setting import plain

LEVELS = ("a", "alpha")  # of a paper, which may change with the round and the node
LARGE_EPSILON = 20.0  # above it the bound e^epsilon says nothing that anybody could use


@documented
@dataclass(frozen=True)
class Privacy(Promise):
    """What a run promises: (epsilon, delta) for one record of any node, over the whole run.

    The guarantee holds against an adversary who sees every message of every node in every round,
    and who knows all other records and all settings. Its conditions: the bounds on records
    (`Problem(data_norm=...)`) are declared from public knowledge, and labels' values,
    hyperparameters and the graph are public. Where neighbours share noise or masks, the adversary
    may hold at most `coalition` members.

    Parameters
    ----------
    {settings}
    noise : dict, optional
        Noise that is given instead of a budget; set by `from_noise` and `from_paper`.

    Raises
    ------
    InputError
        If a value is outside its range; the message names it.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.Privacy(epsilon=1.0, delta=1e-6).adjacency
    'replace-one'
    >>> tc.Privacy([0.5, 2.0]).epsilon_of(2)
    array([0.5, 2. ])
    """

    noise: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for s in PROMISE:
            if s.name != "epsilon" or not self.noise:
                object.__setattr__(self, s.name, s.check(s.name, getattr(self, s.name)))

    @classmethod
    def of(cls, epsilon: Any, **given: Any) -> Privacy:
        """A promise from whatever a caller may give.

        epsilon: a promise, or the budget of one. **given: the other settings, all at their defaults
        beside a promise, which has its own.
        """
        if not isinstance(epsilon, cls):
            return cls(epsilon, **given)
        usual = {s.name: s.default for s in PROMISE}
        for name, value in given.items():
            if value != usual[name]:
                raise InputError(
                    f"{name} must be left out where epsilon is a tacenda.Privacy, which has its "
                    f"own, not {value!r}; give Privacy({name}=...)."
                )
        return epsilon

    @classmethod
    def from_noise(
        cls,
        *,
        noise_multiplier: float | None = None,
        round_epsilon: float | None = None,
        **given: Any,
    ) -> Privacy:
        """Give the noise, and let the result tell its epsilon at delta.

        Parameters
        ----------
        noise_multiplier : float or None, default=None
            noise_std / sensitivity of each Gaussian release (of the first one, where the
            algorithm shapes the noise over the run).
        round_epsilon : float or None, default=None
            The pure epsilon of each round (DVP, PVP, PP, R-ADMM). Give exactly one of the two.
        **given : object
            Other settings of `Privacy` but mode; at its delta the result states its epsilon.

        Returns
        -------
        Privacy
            Settings whose target epsilon is infinite: the result's statement has the true one.

        Raises
        ------
        InputError
            If both or neither of `noise_multiplier` and `round_epsilon` are given.

        Examples
        --------
        >>> import tacenda as tc
        >>> tc.Privacy.from_noise(noise_multiplier=30).noise
        {'noise_multiplier': 30.0}
        """
        if (noise_multiplier is None) == (round_epsilon is None):
            raise InputError("from_noise takes exactly one of noise_multiplier and round_epsilon.")
        if noise_multiplier is not None:
            noise = {"noise_multiplier": checks.positive("noise_multiplier", noise_multiplier)}
        else:
            noise = {"round_epsilon": checks.positive("round_epsilon", round_epsilon)}
        return cls(np.inf, mode="sound", **given, noise=noise)

    @classmethod
    def from_paper(
        cls,
        *,
        epsilon: float | None = None,
        delta: float = 1e-5,
        c0: float | None = None,
        a: Any = None,
        alpha: Any = None,
        phi: float | None = None,
        phi_1: float | None = None,
        spread: Spread = "uniform",
    ) -> Privacy:
        """Use the noise of a paper's own formula, from the paper's own inputs.

        For reproducing figures only: several published formulas give less privacy than they claim.
        The result carries the claimed and the accounted epsilon.

        Parameters
        ----------
        epsilon : float or None, default=None
            The claimed epsilon, where the formula has one.
        delta : float, default=1e-05
            The claimed delta.
        c0 : float or None, default=None
            Constant of Huang and Gong (2020); goes with `epsilon`.
        a : float, schedule, sequence or None, default=None
            Noise rate a_i(k) of Zhang et al. (2018): a number, a schedule of the round k, or one
            for each node (a list, an array (n,) or (rounds, n), `schedules.PerNode`).
        alpha : float, schedule, sequence or None, default=None
            Epsilon alpha_p(t) of each round of Zhang and Zhu (2016), given in the same ways.
        phi : float or None, default=None
            Total zCDP budget of Gauthier et al. (2020).
        phi_1 : float or None, default=None
            Its share of the first round, from which the paper's formula gives the total: the level
            of the noise at the start.
        spread : str, schedule or sequence of float, default="uniform"
            As in `Privacy`.

        Raises
        ------
        InputError
            If more than one of c0, a, alpha, phi and phi_1 is given, or nothing that fixes the
            noise.

        Examples
        --------
        >>> import tacenda as tc
        >>> tc.Privacy.from_paper(alpha=0.1).mode
        'as-published'
        """
        inputs = {"c0": c0, "a": a, "alpha": alpha, "phi": phi, "phi_1": phi_1}
        noise = {name: _level(name, value) for name, value in inputs.items() if value is not None}
        if len(noise) > 1:
            raise InputError(
                "from_paper takes one of c0, a, alpha, phi and phi_1, "
                f"not {', '.join(noise)} together."
            )
        if epsilon is None and (not noise or "c0" in noise):
            raise InputError(
                "from_paper needs epsilon (with c0 if you like), or one of a, alpha, phi and phi_1."
            )
        claim = np.inf if epsilon is None else checks.positive("epsilon", epsilon)
        return cls(claim, delta, "replace-one", "as-published", spread, noise=noise)

    def epsilon_of(self, n: int) -> Floats:
        """Target epsilon of each node.

        n: number of nodes.
        """
        values = np.asarray(self.epsilon, float)
        if values.ndim and len(values) != n:
            raise InputError(
                f"epsilon must be one number or one per node ({n}), not {len(values)} numbers."
            )
        return np.broadcast_to(values, (n,)).copy()

    def weights(self, rounds: int) -> Array:
        """Each round's share of the budget, 1 on average.

        Result: shape (rounds,), or (rounds, n) where the nodes differ.
        """
        for name in LEVELS:
            if callable(self.noise.get(name)):
                if self.spread != "uniform":
                    raise InputError(
                        f"spread must be left 'uniform' where {name} is given for each round or "
                        f"node, not {self.spread!r}."
                    )
                return level_and_weights(self.noise[name], rounds)[1]
        return round_weights(self.spread, rounds)

    def level(self, name: str, rounds: int) -> Any:
        """A paper's own input, as its mean over the rounds.

        Result: a number, or one for each node, shape (n,).
        """
        return level_and_weights(self.noise[name], rounds)[0]

    def at_nodes(self, positions: Array) -> Privacy:
        """The same promise for the nodes at these positions.

        positions: shape (b,).
        """

        def own(value: Any) -> Any:
            return value.at_nodes(positions) if isinstance(value, schedules.PerNode) else value

        epsilon: Any = self.epsilon
        if isinstance(epsilon, tuple):
            epsilon = tuple(epsilon[int(i)] for i in positions)
        noise = {name: own(value) for name, value in self.noise.items()}
        return replace(self, epsilon=epsilon, spread=own(self.spread), noise=noise)

    def node_kinds(self, n: int) -> Array:
        """Which nodes share their budget over the rounds in the same way.

        Result: shape (n, k), equal rows for nodes that are alike; k = 0 where all nodes are.
        """
        columns = [np.zeros((n, 0), np.int64)]
        for name, value in {"spread": self.spread, **self.noise}.items():
            if isinstance(value, schedules.PerNode):
                schedules.check_nodes(name, value, n)
                columns.append(value.kinds()[:, None])
        return np.concatenate(columns, axis=1)

    def pooled(self, title: str) -> int:
        """Size of the coalition against which shared noise has to hold.

        title: name of the algorithm, for the message. Result: how many members may combine what
        they know.
        """
        if self.coalition is None:
            raise UnsupportedError(
                f"{title} shares noise between neighbours, "
                "which coalition=None (all others may combine what they know) rules out; pass "
                "coalition=1 or more, or use noise that needs no trust: noise='independent', "
                "or an algorithm such as dpdda or cdpadmm."
            )
        return self.coalition

    def advice(self, records: float) -> list[str]:
        """Say in plain words where this budget promises next to nothing.

        records: number of records in the whole network, a public number. Result: one sentence for
        an epsilon above 20, one for a delta above 1/records; often none.
        """
        said = []
        largest = float(np.max(np.asarray(self.epsilon, float)))
        if LARGE_EPSILON < largest < np.inf:
            said.append(
                f"Weak privacy: epsilon={largest:g} promises next to nothing: anyone who sees the "
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

    def plain_noise(self) -> dict[str, Any]:
        """The given noise as plain values.

        Result: numbers, or schedules as dictionaries.
        """
        return {name: schedules.to_plain(value) for name, value in self.noise.items()}

    def to_plain(self) -> dict[str, Any]:
        """Plain values for files.

        Result: numbers, strings and lists only.
        """
        return {**plain(Promise, self), **({"noise": self.plain_noise()} if self.noise else {})}


def _level(name: str, value: Any) -> Any:
    """A number above 0; of `LEVELS` also a schedule, or one for each node."""
    if name not in LEVELS:
        return checks.positive(name, value)
    if schedules.is_per_node(value):
        value = schedules.per_node(value)
    schedules.check(name, value, per_node=True)
    return value if callable(value) else float(value)
