"""`Method`: how a run learns. The planner chooses one, a user may fix any part of it, and every
run has one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from annotated_types import Ge, Le

from tacenda import checks
from tacenda.errors import InputError
from tacenda.terms.closing import EXACT, Finish, checked_finish, closing_for, closing_words
from tacenda.terms.reference import documented
from tacenda.terms.setting import AUTO, Auto, plain, setting, settings

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


def _groups(name: str, value: Any) -> Any:
    return value if value == AUTO else checks.whole(name, value, least=1)


def _groups_words(groups: int) -> str:
    return "one sum of all members" if groups == 1 else f"{groups}, whose sums are public"


def _output(name: str, value: Any) -> Any:
    return value if value is None else checks.one_of(name, value, OUTPUTS)


class MethodOptions(TypedDict, total=False):
    """Names of settings, for type checkers: keyword arguments of `simulate` beside `rounds`."""

    output: str | None
    finish_mixing: Finish | None
    groups: int | Auto | None
    mixing: str | Varying | None


@documented
@dataclass(frozen=True)
class Method:
    """An algorithm with all settings of its run.

    `tc.simulate(problem, graph, method, privacy=...)` carries it out.

    Attributes
    ----------
    algorithm : Algorithm
        The algorithm with its hyperparameters.
    {settings}
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
        help="Rounds of communication.",
        check=_rounds,
    )
    output: str | None = setting(
        None,
        kind=Literal["average", "last"],
        planned=True,
        written='{"average", "last"} or None',
        about="Which model is the result; by default the algorithm's own rule.",
        help="Which model is the result: 'average' or 'last'.",
        check=_output,
    )
    finish_mixing: Finish = setting(
        0,
        kind=Annotated[int, Ge(0), Le(100_000)] | Literal["exact"],
        planned=True,
        help="Closing rounds that only mix what was released, or 'exact' for one exact average; "
        "free of privacy.",
        written='int or "exact"',
        about="Closing rounds that only mix what was released: they cost no privacy and bring all "
        'nodes near the average model. "exact" makes one exact average over a spanning tree, which '
        "is cheaper and the same at every node.",
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
        written="str, RandomEdges or PeriodicEdges",
        about='Weights of dual averaging, gossip and the closing rounds: "metropolis", "uniform" '
        'or "max-degree"; or edges that vary from round to round (`tacenda.graph.RandomEdges`, '
        "`PeriodicEdges`, in a file a table), where closing rounds use all edges.",
        title="mixing weights",
        to_plain=_mixing_to_plain,
        from_plain=_mixing_from_plain,
    )
    groups: int | Auto = setting(
        1,
        kind=Annotated[int, Ge(1), Le(10_000)] | Literal["auto"],
        agreed=(Annotated[int, Ge(1), Le(10_000)], 1),
        help="In how many groups masked sums are made, so that one liar cannot move the model far; "
        "'auto' proposes a number.",
        written='int or "auto"',
        about="In how many groups of members masked sums are made (TreeGD, MomentRegression). 1 is "
        "one sum of all. From 3 a public rule joins the groups' means, so that a member that lies "
        "within the range cannot move the model far; the groups' sums are public then, and the "
        'noise is about sqrt(groups) as large. "auto" takes a number for the members and the '
        "coalition, or 1.",
        later=True,
        takes_auto=True,
        title="groups",
        words=_groups_words,
        check=_groups,
        flags=("--groups",),
    )
    reasons: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, method: Any, prepare: Any = None, **given: Any) -> Method:
        """A method from whatever a caller may give.

        method: a method, or an algorithm as an object or by its name. prepare: what comes before
        the algorithm. **given: settings that replace those of the method; None leaves one as it is.
        Result: the method, not checked yet.
        """
        from tacenda.algorithms.registry import prepared

        fixed = {name: value for name, value in given.items() if value is not None}
        if not isinstance(method, cls):
            fixed.setdefault("rounds", None)
            method = cls(algorithm_of(method), **fixed)
        return replace(method, algorithm=prepared(method.algorithm, prepare), **fixed)

    @classmethod
    def usual(cls, algorithm: Algorithm, topology: Topology, rounds: int | None = None) -> Method:
        """How a named algorithm runs where nothing is planned: all nodes end with one model.

        rounds: by default the algorithm's own number.
        """
        finish = 0 if algorithm.traits.reaches_consensus else closing_for(topology)
        turns = algorithm.default_rounds if rounds is None else rounds
        return cls(algorithm, turns, finish_mixing=finish)

    @property
    def ends_exactly(self) -> bool:
        """Whether the run ends with one exact average over the spanning tree."""
        return self.finish_mixing == EXACT

    @property
    def closing_mixings(self) -> int:
        """How many rounds only mix at the end."""
        return 0 if isinstance(self.finish_mixing, str) else self.finish_mixing

    @property
    def closing_rounds(self) -> int:
        """How many rounds follow those of the algorithm."""
        return 1 if self.ends_exactly else self.closing_mixings

    def checked(self, topology: Topology, where: str = "") -> Method:
        """The same with its defaults filled in.

        where: what stands before a setting's name in errors.
        """
        from tacenda.graph.varying import check_mixing

        found = {s.name: s.check(where + s.name, getattr(self, s.name)) for s in SETTINGS}
        check_mixing(self.mixing, topology, found["rounds"])
        output = found["output"] or self.algorithm.default_output
        return replace(self, **{**found, "output": output})

    def naming(self) -> dict[str, Any]:
        """The plain values that tell two runs apart.

        Result: by the setting's name.
        """
        found, named = plain(Method, self), {s.name for s in SETTINGS if s.names_run}
        return {name: value for name, value in found.items() if name in named}

    def to_plain(self) -> dict[str, Any]:
        """Plain values of the algorithm and of every setting.

        Result: numbers, strings, lists and dictionaries only.
        """
        return {"algorithm": self.algorithm.to_plain(), **plain(Method, self)}


SETTINGS = settings(Method)


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
