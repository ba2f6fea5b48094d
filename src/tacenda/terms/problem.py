"""What a run minimises: the settings that fix a problem's public constants, and those that only
files and flags have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from annotated_types import Ge, Gt, MinLen

from tacenda import checks
from tacenda.errors import InputError
from tacenda.terms.setting import AUTO, setting, settings

# The command line makes its flags from these classes, so nothing here loads NumPy
if TYPE_CHECKING:
    from tacenda.losses import Loss
    from tacenda.regularisers import Regulariser

_POSITIVE = Annotated[float, Gt(0)]
_TABLE = "a table in the file; in a shell --set"
# Far above any useful model; its squares and its products with bounded rows stay finite, also as
# float32
RADIUS = 1e9


def _loss(name: str, value: Any) -> Any:
    from tacenda import losses

    return losses.by_name(value)


def _regulariser(name: str, value: Any) -> Any:
    from tacenda import regularisers

    return regularisers.by_name(value)


def _strength(name: str, value: Any) -> Any:
    if isinstance(value, str) and value != AUTO:
        raise InputError(
            f'{name} must be a number of at least 0 or "auto", not {value!r}; "auto" chooses it '
            "from what is released."
        )
    return value if isinstance(value, str) else checks.positive(name, value, zero=True)


def _clip_norm(name: str, value: Any) -> Any:
    return value if value is None else checks.positive(name, value)


class DeclaredOptions(TypedDict, total=False):
    """The same names as `Declared` has, for type checkers: keyword arguments of `Problem`."""

    loss: str | Loss
    regulariser: str | Regulariser | None
    strength: float | str
    loss_scale: float
    data_norm: float
    row_scale: float
    clip_norm: float | None
    radius: float


@dataclass(frozen=True)
class Declared:
    """The settings from which a problem's public constants follow (`questions.constants`).

    f_i(w) = (loss_scale/size_i) sum_j loss + strength R(w), rows of norm at most data_norm.
    """

    loss: str | Loss = setting(
        "logistic",
        kind=str,
        assumed="auto",
        written="str or Loss",
        help="The loss; 'auto' follows the label's kind.",
        about="A name (`tacenda.losses.names()`) or an object of `tacenda.losses`. In a file "
        '"auto" is logistic, multinomial or huber, by the label\'s declared kind.',
        check=_loss,
    )
    regulariser: str | Regulariser | None = setting(
        "l2",
        kind=str,
        written="str, Regulariser or None",
        help="The regulariser: 'l2', 'l1' or another.",
        about="A name (`tacenda.regularisers.names()`) or an object of `tacenda.regularisers`.",
        check=_regulariser,
    )
    strength: float | str = setting(
        1e-4,
        kind=float | Literal["auto"],
        assumed=AUTO,
        agreed=(Annotated[float, Ge(0)] | Literal["auto"], AUTO),
        written='float or "auto"',
        help="Weight r of the regulariser; 'auto' chooses it from what is released.",
        about="r >= 0, the weight of the regulariser, for the rows as they were before "
        '`row_scale`. "auto" leaves the objective open: a run that releases the records\' spectrum '
        "chooses it afterwards (docs/planner.md); everywhere else it is 1e-5.",
        check=_strength,
    )
    loss_scale: float = setting(
        1.0,
        kind=float,
        agreed=(_POSITIVE, 1.0),
        help="Factor of the mean loss.",
        about="c > 0, the weight of the loss.",
        title="Loss scale",
        check=checks.positive,
    )
    data_norm: float = setting(
        1.0,
        kind=float,
        assumed=None,
        agreed=(_POSITIVE, 1.0),
        help="Public bound on the norm of every row; by default what the data or its schema "
        "declares.",
        about="Public bound on the l2 norm of every row. Declare it from public knowledge: the "
        "noise is computed from it. In a file by default what the data or its schema declares.",
        check=checks.positive,
    )
    row_scale: float = setting(
        1.0,
        kind=float,
        assumed=None,
        agreed=(_POSITIVE, 1.0),
        help="By how much the rows were divided; by default what the data or its schema declares.",
        about="The public number by which the rows were divided to keep `data_norm`, as "
        "`Dataset.row_scale` gives it. `strength` then means what it means for the rows before the "
        "division: the regulariser is R(w / row_scale). In a file by default what the data or its "
        "schema declares.",
        check=checks.positive,
        names_run=False,  # it is in the regulariser
    )
    clip_norm: float | None = setting(
        None,
        kind=float,
        agreed=(_POSITIVE, None),
        help="Clip each record's gradient to this norm.",
        about="Public bound to which each record's gradient is clipped. Needed where the loss has "
        "no bounded slope (squared loss); None does not clip.",
        title="Gradient clipping",
        check=_clip_norm,
    )
    radius: float = setting(
        RADIUS,
        kind=float,
        agreed=(_POSITIVE, RADIUS),
        help="Public bound on every coordinate of a model and of a message.",
        title="Bound on a coordinate",
        about="Public bound on every coordinate of a model: points at which records are asked, and "
        "messages, are cut to it. In a run between organisations, a member that sends a larger one "
        "is cut off.",
        check=checks.positive,
    )


@dataclass(frozen=True)
class StatedProblem(Declared):
    """All that a file, the flags or a contract may say about the problem. It is a description only:
    `tacenda.Problem` is what runs take."""

    loss_options: dict[str, float] | None = setting(
        {},
        kind=dict[str, float],
        agreed=(Annotated[dict[str, float], MinLen(1)], None),
        help="Settings of the loss, such as label_bound of 'poisson'.",
        left_out={"flag": _TABLE},
    )
    regulariser_options: dict[str, float] | None = setting(
        {},
        kind=dict[str, float],
        agreed=(Annotated[dict[str, float], MinLen(1)], None),
        help="Settings of the regulariser, such as l1_ratio of 'elastic-net'.",
        left_out={"flag": _TABLE},
    )
    model: Literal["linear", "additive", "auto"] = setting(
        "linear",
        kind=Literal["linear", "additive", "auto"],
        agreed=(Literal["linear", "additive"], "linear"),
        help="'linear'; 'additive': a curve for each number of the schema; or 'auto'.",
        about='"linear" takes the schema as it is declared. "additive" makes a curve of every '
        "number (docs/additive.md): smooth functions on public knots over its declared range. "
        '"auto" takes curves where the forecast says that the records can carry their noise, and '
        "says which it took; a contract names one of the other two.",
    )
    on_large_rows: Literal["error", "scale"] = setting(
        "error",
        kind=Literal["error", "scale"],
        help="Rows above the norm are an error ('error'), or are shortened to it ('scale').",
        left_out={"contract": "a schema bounds every row that a member encodes"},
    )
    public_size: float | None = setting(
        None,
        kind=float,
        help="Public size of every node, for adjacency 'add-remove'.",
        left_out={"contract": "the members' sizes say it"},
    )


DECLARED = settings(Declared)


def checked(given: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Every setting of `Declared`, as it is given or by default; prefix: what stands before a name
    in errors."""
    for name in given.keys() - {s.name for s in DECLARED}:
        raise TypeError(f"{name!r} is an unexpected keyword argument.")
    return {s.name: s.check(prefix + s.name, given.get(s.name, s.default)) for s in DECLARED}


def declared(part: Any, where: str, **known: Any) -> dict[str, Any]:
    """The arguments of `Constants.declared` and `Problem`, as a part of a file or a contract states
    them, with the loss and the regulariser as objects.

    where: what stands before a setting's name in errors. known: what is said elsewhere, such as
    what the data declares.
    """
    from tacenda import losses, regularisers

    found = {s.name: getattr(part, s.name) for s in DECLARED} | known
    for name, by_name in (("loss", losses.by_name), ("regulariser", regularisers.by_name)):
        if name not in known:
            options = getattr(part, f"{name}_options") or {}
            found[name] = checks.with_options(
                f"{where}{name}_options", by_name(found[name]), options
            )
    return found
