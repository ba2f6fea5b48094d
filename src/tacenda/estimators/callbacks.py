"""scikit-learn's callbacks (version 1.9 and later): `model.set_callbacks(ProgressBar())`.

A callback is told of rounds and never given records, so what it does is as private as the run. A
score on training data would not be: `ScoringMonitor` therefore records nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tacenda._types import Array

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # an older scikit-learn: estimators have no `set_callbacks`

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""

    def with_callbacks(method: Any) -> Any:
        """Return the method as it is."""
        return method


__all__ = ["CallbackSupportMixin", "rounds_told", "with_callbacks"]


@contextmanager
def rounds_told(
    estimator: Any, rounds: int, every: int
) -> Iterator[Callable[[int, Array], bool] | None]:
    """What `simulate` calls at every recorded round, so that callbacks hear of it; None without
    callbacks. One that answers True ends the run there, which spends less than was planned."""
    if not hasattr(estimator, "_skl_callbacks") and not hasattr(estimator, "_parent_callback_ctx"):
        yield None
        return
    recorded = -(-rounds // every)
    context = estimator._init_callback_context(max_subtasks=recorded)
    context.call_on_fit_task_begin(estimator=estimator)

    def told(done: int, models: Array) -> bool:
        one = context.subcontext(task_name=f"round {done}")
        one.call_on_fit_task_begin(estimator=estimator)
        return bool(one.call_on_fit_task_end(estimator=estimator))

    yield told
    context.call_on_fit_task_end(estimator=estimator)
