"""Checks of hyperparameters, for the `__post_init__` of an algorithm."""

from __future__ import annotations

from typing import Any

from tacenda import checks, schedules


def check_hyperparameters(
    algorithm: Any,
    positive: tuple[str, ...] = (),
    at_least_zero: tuple[str, ...] = (),
    per_node: tuple[str, ...] = (),
) -> None:
    """Check that hyperparameters are numbers or schedules above (or not below) 0.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm, in its `__post_init__`.
    positive : tuple of str, default=()
        Names of those that must be above 0.
    at_least_zero : tuple of str, default=()
        Names of those that must not be below 0.
    per_node : tuple of str, default=()
        Names of those that may also be one for each node; they are then kept as
        `schedules.PerNode`.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.algorithms.check_hyperparameters(tc.algorithms.ADMM(), positive=("penalty",))
    """
    kind = type(algorithm).__name__
    for name in (*positive, *at_least_zero):
        value = getattr(algorithm, name)
        if name in per_node and schedules.is_per_node(value):
            value = schedules.per_node(value)
            object.__setattr__(algorithm, name, value)
        schedules.check(
            f"{kind}.{name}", value, zero=name in at_least_zero, per_node=name in per_node
        )


def check_batch(algorithm: Any) -> None:
    """Check that batch_size is None or a whole number of at least 1."""
    if algorithm.batch_size is not None:
        checks.whole(f"{type(algorithm).__name__}.batch_size", algorithm.batch_size, least=1)
