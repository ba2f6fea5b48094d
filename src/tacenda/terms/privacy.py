"""What a run promises about its records: the settings of `tacenda.Privacy`, and those that only
files, flags and contracts have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt

from tacenda import checks
from tacenda.errors import InputError
from tacenda.terms.setting import UNSTATED, setting, settings

# The command line makes its flags from these classes, so nothing here loads NumPy
if TYPE_CHECKING:
    from tacenda.privacy.secrets.noise_plan import Spread

RELATIONS = ("replace-one", "add-remove")
MODES = ("sound", "as-published")
NODE_NOISES = ("own", "worst")
ALL = "all"  # the others, as the size of a coalition in a file
PAPER_INPUTS = Literal["c0", "a", "alpha", "phi", "phi_1"]
_CONSTANTS = "a table or a list in the file; in a shell --set"
_ALWAYS_SOUND = "contracts are for real records, whose noise comes from the accountant alone"


def _epsilon(name: str, value: Any) -> Any:
    if isinstance(value, (str, bytes)) or value is None:
        raise InputError(
            f"{name} must be a number above 0, not {value!r}; "
            "for a run without privacy pass privacy=None."
        )
    if isinstance(value, Iterable) and getattr(value, "ndim", 1) > 0:
        return tuple(checks.positive(name, v) for v in value)
    return checks.positive(name, value)


def _delta(name: str, value: Any) -> Any:
    checks.between(name, value, 0.0, 1.0, open_ends=False)
    if value == 1:
        raise InputError(f"{name} must be below 1, not 1: with delta 1 nothing is promised.")
    return value


def _spread(name: str, value: Any) -> Any:
    from tacenda import schedules

    if not isinstance(value, str) and not callable(value):
        return tuple(float(s) for s in value)
    if isinstance(value, schedules.PerNode):
        schedules.check(name, value, per_node=True)
    return value


def _schedule_to_plain(value: Any) -> Any:
    from tacenda import schedules

    return as_list(schedules.to_plain(value))


def _schedule_from_plain(value: Any) -> Any:
    from tacenda import schedules

    return schedules.from_plain(value)


def _coalition(name: str, value: Any) -> Any:
    return value if value is None else checks.whole(name, value)


def as_list(value: Any) -> Any:
    """Tuples as files write them."""
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True)
class Promise:
    """The settings of a `tacenda.Privacy`, which checks them."""

    epsilon: float | Sequence[float] = setting(
        kind=float | list[float],
        assumed=1.0,
        agreed=(Annotated[float, Gt(0)], UNSTATED),
        flags=("--epsilon", "-e"),
        typed=float,
        help="Budget of the whole run, for one record or person.",
        about="The budget: one number above 0, or one per node.",
        check=_epsilon,
        to_plain=as_list,
    )
    delta: float = setting(
        1e-5,
        kind=float,
        agreed=(Annotated[float, Gt(0), Lt(1)], UNSTATED),
        flags=("--delta", "-d"),
        help="Probability that the bound fails.",
        about="The probability with which the bound may fail, from 0 to below 1. Choose it below "
        "one over the number of records. 0 is possible only with methods of pure differential "
        "privacy.",
        check=_delta,
    )
    adjacency: str = setting(
        "replace-one",
        kind=Literal["replace-one", "add-remove"],
        help="Neighbouring data sets: 'replace-one' or 'add-remove'.",
        about="Which data sets count as neighbours: one record is replaced (sizes of nodes are "
        "public), or one record is added or removed.",
        check=lambda name, value: checks.one_of(name, value, RELATIONS),
    )
    mode: str = setting(
        "sound",
        kind=Literal["sound", "as-published"],
        agreed=(Literal["sound"], "sound"),
        help="'sound' (exact accountant), or 'as-published' for a paper's own noise.",
        about='"sound" takes the noise from an exact accountant. "as-published" takes the paper\'s '
        "own formula, to reproduce its figures; the result then carries the claimed and the true "
        "epsilon. Never use it on real data.",
        check=lambda name, value: checks.one_of(name, value, MODES),
    )
    spread: Spread = setting(
        "uniform",
        kind=str | list[float] | dict[str, Any],
        written="str, schedule or sequence of float",
        help="How the budget is divided over the rounds: 'uniform', one share per round, or a "
        "schedule.",
        about='How the budget is divided over the rounds: "uniform", a schedule, one share per '
        "round, or `schedules.PerNode` with a schedule for each node. Any division costs each "
        "node exactly its own epsilon.",
        check=_spread,
        to_plain=_schedule_to_plain,
        from_plain=_schedule_from_plain,
        left_out={
            "flag": _CONSTANTS,
            "contract": "a round that is made again after a loss costs as much as the dearest one, "
            "so contracts divide the budget evenly",
        },
    )
    node_noise: str = setting(
        "own",
        kind=Literal["own", "worst"],
        help="Noise of each node by its own size ('own'), or by the smallest one's ('worst').",
        about='"own" gives each node the noise that its own size needs; "worst" gives all nodes '
        "what the smallest one needs.",
        check=lambda name, value: checks.one_of(name, value, NODE_NOISES),
        left_out={
            "contract": "sizes are public there, so noise for the smallest would only cost accuracy"
        },
    )
    coalition: int | None = setting(
        1,
        kind=Annotated[int, Ge(0)] | Literal["all"],
        agreed=(Annotated[int, Ge(0), Le(1000)], None),
        help="How many members may combine what they know, where neighbours share noise; 'all': no "
        "such trust.",
        about="How many curious members may combine what they know, where neighbours share noise. "
        'None (in a file "all") means that all other members may: an algorithm whose neighbours '
        "share noise is then refused.",
        check=_coalition,
        from_plain=lambda value: None if value == ALL else value,
    )


@dataclass(frozen=True)
class StatedPrivacy(Promise):
    """All that a file, the flags or a contract may say about privacy. It is a description only:
    `tacenda.Privacy` is what runs take."""

    private: bool = setting(
        True,
        kind=bool,
        flags=("--privacy/--no-privacy",),
        help="Whether to add noise; without it 'auto' ends at the optimum.",
        left_out={"contract": "runs between organisations are private"},
    )
    noise_multiplier: float | None = setting(
        None,
        kind=float,
        flags=("--noise-multiplier", "-z"),
        help="noise_std / sensitivity of a Gaussian release, given instead of a budget.",
        left_out={"contract": _ALWAYS_SOUND},
    )
    round_epsilon: float | None = setting(
        None,
        kind=float,
        help="Pure epsilon of each round (dvp, pvp, madmm, radmm), given instead of a budget.",
        left_out={"contract": _ALWAYS_SOUND},
    )
    records_per_person: int | None = setting(
        None,
        kind=Annotated[int, Ge(1), Le(1_000_000)],
        help="Promise to a person, and keep at most this many records of each at a node, drawn at "
        "random; goes with --adjacency add-remove.",
        about="The promise is for a person (data.person, or the schema's `person`); at most this "
        'many records of each are kept at a node; goes with adjacency "add-remove".',
    )
    members_per_person: int = setting(
        1,
        kind=Annotated[int, Ge(1), Le(1_000_000)],
        agreed=(Annotated[int, Ge(1), Le(1_000_000)], None),
        help="Number of nodes at which the same person may be.",
    )
    paper: dict[str, Any] = setting(
        {},
        kind=dict[PAPER_INPUTS, float | list[Any] | dict[str, Any]],
        help="A paper's own input in mode 'as-published'.",
        about='A paper\'s own input in mode "as-published": c0 (Huang and Gong 2020), a (Zhang et '
        "al. 2018), alpha (Zhang and Zhu 2016), or phi or phi_1 (Gauthier et al. 2020); a and "
        "alpha may be a schedule, or a list with one for each node.",
        left_out={"flag": _CONSTANTS, "contract": _ALWAYS_SOUND},
    )
    floating_point_noise: bool = setting(
        False,
        kind=bool,
        help="Accept, by name, noise drawn as floating-point numbers.",
        left_out={
            "file": "a simulation's noise is floating-point, and its result says so",
            "flag": "of a contract alone",
        },
    )


PROMISE = settings(Promise)
