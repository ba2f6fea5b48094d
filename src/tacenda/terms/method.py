"""`Method`: how a run learns. The planner chooses one, a user may fix any part of it, and every
run has one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge, Le

from tacenda import checks
from tacenda.errors import InputError
from tacenda.terms.closing import Finish, checked_finish, closing_words
from tacenda.terms.setting import setting, settings

# The command line makes its flags from this class, so nothing here loads NumPy
if TYPE_CHECKING:
    from tacenda.algorithms.base import Algorithm
    from tacenda.graph.topology import Topology
    from tacenda.graph.varying import Varying

OUTPUTS = ("average", "last")


def _rounds(name: str, value: Any) -> int:
    return checks.whole(name, value, least=1)


def _mixing_to_plain(value: Any) -> Any:
    from tacenda.graph.varying import mixing_to_plain

    return mixing_to_plain(value)


def _mixing_from_plain(value: Any) -> Any:
    from tacenda.graph.varying import mixing_from_plain

    return mixing_from_plain(value)


def _output(name: str, value: Any) -> Any:
    return value if value is None else checks.one_of(name, value, OUTPUTS)


@dataclass(frozen=True)
class Method:
    """An algorithm with all settings of its run.

    `tc.simulate(problem, graph, method, privacy=...)` carries it out.

    Attributes
    ----------
    algorithm : Algorithm
        The algorithm with its hyperparameters.
    rounds : int
        Number of rounds.
    output : {"average", "last"} or None
        Which of the models is the answer; None for the algorithm's own rule.
    finish_mixing : int or "exact"
        Closing mixings of what was released, or one exact average; free of privacy.
    mixing : str, RandomEdges or PeriodicEdges
        The weights of mixings, or edges that vary from round to round.
    reasons : tuple of str
        Why these were chosen, one sentence for each choice.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.plan(1000, 10, tc.graph.ring(5), epsilon=1.0).method.finish_mixing
    0
    """

    algorithm: Algorithm
    rounds: int = setting(
        kind=Annotated[int, Ge(1), Le(1_000_000)],
        planned=True,
        flags=("--rounds", "-T"),
        typed=int,
        help="Rounds of communication.",
        check=_rounds,
    )
    output: str | None = setting(
        None,
        kind=Literal["average", "last"],
        planned=True,
        help="Which of the models is the answer: 'average' or 'last'.",
        check=_output,
    )
    finish_mixing: Finish = setting(
        0,
        kind=Annotated[int, Ge(0), Le(100_000)] | Literal["exact"],
        planned=True,
        help="Closing rounds that only mix what was released, or 'exact' for one exact average; "
        "free of privacy.",
        title="at the end",
        words=closing_words,
        check=checked_finish,
        names_run=False,  # it acts on what was released already
    )
    mixing: str | Varying = setting(
        "metropolis",
        kind=Literal["metropolis", "uniform", "max-degree"] | dict[str, Any],
        help="Weights of mixings: 'metropolis', 'uniform' or 'max-degree'; in a file also a table "
        "of edges that vary.",
        title="mixing weights",
        to_plain=_mixing_to_plain,
        from_plain=_mixing_from_plain,
    )
    reasons: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, method: Any, prepare: Any = None, **given: Any) -> Method:
        """A method from whatever a caller may give.

        Parameters
        ----------
        method : Method, Algorithm or str
            A method, or an algorithm as an object or by its name.
        prepare : Whitening, str or None, default=None
            What comes before the algorithm.
        **given : object
            Settings that replace those of the method; None leaves one as it is.

        Returns
        -------
        Method
            The method, not checked yet.
        """
        from tacenda.algorithms.whitening import prepared

        fixed = {name: value for name, value in given.items() if value is not None}
        if not isinstance(method, cls):
            fixed.setdefault("rounds", None)
            method = cls(algorithm_of(method), **fixed)
        return replace(method, algorithm=prepared(method.algorithm, prepare), **fixed)

    def checked(self, topology: Topology, where: str = "") -> Method:
        """The same with its defaults filled in.

        Parameters
        ----------
        topology : Topology
            The network.
        where : str, default=''
            What stands before a setting's name in errors.

        Returns
        -------
        Method
            The checked method.

        Raises
        ------
        InputError
            If a value cannot be.
        """
        from tacenda.graph.varying import check_mixing

        found = {s.name: s.check(where + s.name, getattr(self, s.name)) for s in SETTINGS}
        check_mixing(self.mixing, topology, found["rounds"])
        output = found["output"] or self.algorithm.default_output
        return replace(self, **{**found, "output": output})

    def naming(self) -> dict[str, Any]:
        """The plain values that tell two runs apart.

        Returns
        -------
        dict
            By the setting's name.
        """
        return {s.name: s.to_plain(getattr(self, s.name)) for s in SETTINGS if s.names_run}

    def to_plain(self) -> dict[str, Any]:
        """Plain values of the algorithm and of every setting.

        Returns
        -------
        dict
            Numbers, strings, lists and dictionaries only.
        """
        values = {s.name: s.to_plain(getattr(self, s.name)) for s in SETTINGS}
        return {"algorithm": self.algorithm.to_plain(), **values}


SETTINGS = tuple(settings(Method))


def algorithm_of(algorithm: Any) -> Algorithm:
    """An algorithm by its name or as an object."""
    from tacenda.algorithms.base import Algorithm
    from tacenda.algorithms.registry import by_name

    found = by_name(algorithm) if isinstance(algorithm, str) else algorithm
    if not isinstance(found, Algorithm):
        raise InputError(
            f"algorithm must be a name or an object of tacenda.algorithms, not {algorithm!r}."
        )
    return found
