"""Losses by name: those of this package, and those of users and plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from tacenda import checks, plugins
from tacenda.errors import InputError
from tacenda.losses.base import PREDICTIONS, Loss

if TYPE_CHECKING:
    from tacenda.losses.custom import CustomLoss

GROUP = "tacenda.losses"
BUILT_IN: dict[str, type[Any]] = {}
_REGISTERED: dict[str, CustomLoss] = {}
Kind = TypeVar("Kind", bound=type[Any])


def built_in(kind: Kind) -> Kind:
    """Make a loss of this package known by its name; a decorator, above the dataclass."""
    taken = {other.code: other.__name__ for other in BUILT_IN.values()}
    # Rows of a stacked loss are those of the logistic one, and so is the formula
    if kind.name in BUILT_IN or (kind.code in taken and not kind.stacked):
        raise TypeError(f"{kind.__name__} needs a name and a code of its own; taken: {taken}.")
    if kind.predicts not in PREDICTIONS:
        raise TypeError(f"{kind.__name__}.predicts must be one of {PREDICTIONS}.")
    BUILT_IN[kind.name] = kind
    return kind


def names() -> tuple[str, ...]:
    """Names of the losses of this package.

    Examples
    --------
    >>> import tacenda as tc
    >>> "hinge" in tc.losses.names()
    True
    """
    return tuple(sorted(BUILT_IN, key=lambda name: (BUILT_IN[name].stacked, BUILT_IN[name].code)))


def predicts(name: str | None) -> str | None:
    """What a score of the loss with this name predicts; None for a loss of somebody's own."""
    kind = BUILT_IN.get(name or "")
    return None if kind is None else str(kind.predicts)


def rows_of(name: str | None, cells: int) -> int:
    """How many rows the loss with this name makes of a record with one of so many outcomes."""
    kind = BUILT_IN.get(name or "")
    return int(kind.questions(cells)) if kind is not None and kind.stacked else 1


def register(loss: CustomLoss) -> CustomLoss:
    """Make a loss of your own known by its name in this process.

    A package that is installed names its loss in the entry-point group `tacenda.losses` instead,
    and it is found by name everywhere, on real nodes too.

    Parameters
    ----------
    loss : CustomLoss
        The loss.

    Raises
    ------
    InputError
        If it is no `CustomLoss`, or another loss has the name.

    Examples
    --------
    >>> import tacenda as tc
    >>> callable(tc.losses.register)
    True
    """
    from tacenda.losses.custom import CustomLoss

    if not isinstance(loss, CustomLoss):
        raise InputError(f"register takes a CustomLoss, not {loss!r}.")
    if _REGISTERED.get(loss.name, loss) != loss:
        raise InputError(_taken(loss.name))
    _REGISTERED[loss.name] = loss
    return loss


def free_name(name: Any) -> str:
    """Return the name of a user's own loss, if it is one and no loss of this package has it."""
    found = plugins.checked_name("CustomLoss.name", name)
    if found in BUILT_IN:
        raise InputError(_taken(found))
    return found


def _taken(name: str) -> str:
    return (
        f"CustomLoss.name: {name!r} is the name of another loss already; give yours another name."
    )


def code_hash(loss: Loss) -> str | None:
    """SHA-256 of the source of the packages that a loss of somebody's own comes from; None for one
    of this package."""
    if type(loss) in BUILT_IN.values():
        return None
    return plugins.source_hash(loss.modules, f"The loss {loss.name!r}")  # type: ignore[attr-defined]


def by_name(loss: str | Loss, **options: Any) -> Loss:
    """Loss of that name, with its usual settings or those given.

    Parameters
    ----------
    loss : str or Loss
        A name (hyphen or underscore), those of installed plugins included; a loss object is
        returned as it is, but for the options.
    **options : float
        Settings of the loss, such as label_bound=12.0.

    Raises
    ------
    InputError
        If there is no such loss, or it has no such setting.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.losses.by_name("smoothed_hinge")
    SmoothedHinge(width=0.5)
    >>> tc.losses.by_name("poisson", label_bound=12.0)
    Poisson(label_bound=12.0)
    """
    from tacenda.losses.custom import CustomLoss

    if options:
        return checks.with_options("loss_options", by_name(loss), options)
    if isinstance(loss, CustomLoss) or type(loss) in BUILT_IN.values():
        return loss  # type: ignore[return-value]
    if isinstance(loss, tuple(BUILT_IN.values())):
        raise InputError(
            f"loss must be of a known class itself, not of {type(loss).__name__}, made from one: "
            "records are read by the known formula, and noise would follow from other bounds; "
            "declare a CustomLoss."
        )
    if isinstance(loss, type):
        raise InputError(
            f"loss must be a name or an object, not the class {loss.__name__}: "
            f"write {loss.__name__}()."
        )
    word = loss.lower().replace("_", "-") if isinstance(loss, str) else loss
    if word in BUILT_IN:
        return BUILT_IN[word]()
    if word not in _REGISTERED:
        offered = plugins.offered(GROUP, "a loss")
        checks.one_of("loss", word, [*names(), *_REGISTERED, *offered])
        plugins.load(offered[str(word)], register)
    return _REGISTERED[str(word)]
