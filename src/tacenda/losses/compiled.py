"""The compiled formulas of the losses: slopes and curvatures of one score by the losses' codes, and
the softmax of several.

What a loss writes as `slope_at` and `curvature_at` is compiled into the kernels that need it. A
kernel chooses by code, among the losses that read `numbers` or among those that do not; a code that
no loss has gives NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import overload

from tacenda._jit import FAST, FAST_BODY, FAST_INNER, njit
from tacenda.losses.base import OfOneScore
from tacenda.losses.custom import CustomLoss
from tacenda.losses.formulas import FORMULAS
from tacenda.losses.registry import BUILT_IN

AT_ONCE = 4  # formulas that one function chooses from: few functions compile faster


def _compile_with_callers(function: Callable[..., Any]) -> None:
    overload(function, jit_options=FAST_BODY, strict=False)(lambda *args: function)


for _function in FORMULAS:
    _compile_with_callers(_function)


def slope_of(code: int, numbers: Any, s: float, y: float) -> float:
    """d loss / d s at score s and label y, of the loss with this code; numbers: what its formula
    reads, None for a loss without parameters."""
    raise TypeError("slope_of is only for compiled code.")


def curvature_of(code: int, numbers: Any, s: float, y: float) -> float:
    """d^2 loss / d s^2 (one element of it where the loss is only once differentiable)."""
    raise TypeError("curvature_of is only for compiled code.")


@overload(slope_of, jit_options=FAST_BODY)
def _slope_of(code: int, numbers: Any, s: float, y: float) -> Any:
    return _choice("slope_at", numbers)


@overload(curvature_of, jit_options=FAST_BODY)
def _curvature_of(code: int, numbers: Any, s: float, y: float) -> Any:
    return _choice("curvature_at", numbers)


def _choice(name: str, numbers: Any) -> Any:
    """Return a function that calls the formula of this name of the loss with a given code."""
    plain = isinstance(numbers, types.NoneType)
    kinds: list[Any] = [k for k in BUILT_IN.values() if issubclass(k, OfOneScore) and not k.stacked]
    chosen = [k for k in kinds if (k().numbers is None) == plain] + ([] if plain else [CustomLoss])

    found: Any = _no_such_loss
    while chosen:
        some, chosen = chosen[:AT_ONCE], chosen[AT_ONCE:]
        some += [some[-1]] * (AT_ONCE - len(some))
        codes = tuple(kind.code for kind in some)
        found = _one_of(
            codes, tuple(getattr(kind, name) for kind in some), njit(**FAST_BODY)(found)
        )
    return found


def _no_such_loss(code: int, numbers: Any, s: float, y: float) -> float:
    return math.nan


def _one_of(codes: tuple[int, ...], formulas: tuple[Any, ...], others: Any) -> Any:
    a, b, c, d = codes
    of_a, of_b, of_c, of_d = formulas

    def chosen(code: int, numbers: Any, s: float, y: float) -> float:
        if code == a:
            return of_a(numbers, s, y)
        if code == b:
            return of_b(numbers, s, y)
        if code == c:
            return of_c(numbers, s, y)
        if code == d:
            return of_d(numbers, s, y)
        return others(code, numbers, s, y)

    return chosen


@njit(**FAST)
def slopes_of(code: int, numbers: Any, scores: Any, labels: Any, out: Any) -> None:
    """out (m,) = `slope_of` for scores (m,) and labels (m,)."""
    for k in range(scores.shape[0]):
        out[k] = slope_of(code, numbers, scores[k], labels[k])


@njit(**FAST)
def curvatures_of(code: int, numbers: Any, scores: Any, labels: Any, out: Any) -> None:
    """out (m,) = `curvature_of` for scores (m,) and labels (m,)."""
    for k in range(scores.shape[0]):
        out[k] = curvature_of(code, numbers, scores[k], labels[k])


@njit(**FAST_INNER)
def softmax_minus_label(scores: Any, label: int, temperature: float, less: float) -> float:
    """Turn the K scores of a record into softmax(s) - less e_y in place, and return its l2 norm.

    temperature 0: of the scores as they are. Above 0: of (s_k + 1)/temperature for k other than y
    and s_y/temperature, which asks for a margin.
    """
    if temperature > 0.0:
        for k in range(scores.shape[0]):
            scores[k] = (scores[k] + (0.0 if k == label else 1.0)) / temperature
    top = scores[0]
    for k in range(1, scores.shape[0]):
        top = max(top, scores[k])
    total = 0.0
    for k in range(scores.shape[0]):
        scores[k] = math.exp(scores[k] - top)
        total += scores[k]
    square = 0.0
    for k in range(scores.shape[0]):
        scores[k] = scores[k] / total - (less if k == label else 0.0)
        square += scores[k] * scores[k]
    if not square <= 3.0:  # it is 2 at most: the scores were no numbers, and the record counts as 0
        for k in range(scores.shape[0]):
            scores[k] = 0.0
        return 0.0
    return math.sqrt(square)


@njit(**FAST)
def softmax_minus_labels(scores: Any, labels: Any, temperature: float, less: float) -> None:
    """`softmax_minus_label` of every row of scores (m, K), in place; labels (m,)."""
    for k in range(scores.shape[0]):
        softmax_minus_label(scores[k], labels[k], temperature, less)


@njit(**FAST_INNER)
def sharpness_of(classes: Any, numbers: Any) -> float:
    """What the Hessian diag(q) - q q' of a loss of K scores is multiplied by: 1/temperature; 1 for
    the multinomial loss and for losses of one score."""
    if classes is None:
        return 1.0
    return 1.0 / numbers[0] if numbers[0] > 0.0 else 1.0
