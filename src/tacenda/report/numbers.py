"""Numbers as a reader wants them: few digits, thin units, words for infinity."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

MINUS, NARROW = "\u2212", "\u202f"
_SUPER = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def short(value: Any, digits: int = 4) -> str:
    """Up to `digits` significant digits; powers of ten where plain digits would be long."""
    if value is None:
        return "–"
    number = float(value)
    if math.isnan(number):
        return "–"
    if math.isinf(number):
        return "∞" if number > 0 else f"{MINUS}∞"
    if number == 0:
        return "0"
    if 1e-3 <= abs(number) < 1e6:
        return _plain(number, digits)
    exponent = math.floor(math.log10(abs(number)))
    factor = float(f"{number / 10.0**exponent:.{max(digits - 1, 1)}g}")
    if abs(factor) >= 10:
        factor, exponent = factor / 10, exponent + 1
    power = f"10{str(exponent).translate(_SUPER)}"
    return power if factor == 1 else f"{factor:g}".replace("-", MINUS) + f"{NARROW}×{NARROW}{power}"


def _plain(number: float, digits: int) -> str:
    if number == int(number):
        return whole(int(number))
    if abs(number) >= 10 ** (digits - 1):
        return whole(round(number))
    places = digits - 1 - math.floor(math.log10(abs(number)))
    return f"{number:.{min(max(places, 0), digits)}f}".replace("-", MINUS)


def epsilon(value: Any) -> str:
    """A privacy loss, rounded up at the fourth digit (never to look smaller than it is),
    without idle zeros."""
    number = float(value)
    if not math.isfinite(number) or number <= 0:
        return short(number)
    step = 10.0 ** (math.floor(math.log10(number)) - 3)
    # Up to rounding errors of the accountant
    up = math.ceil(number / step * (1 - 1e-4 / 10)) * step
    return f"{up:.4g}" if 1e-3 <= up < 1e4 else short(up)


def whole(value: int) -> str:
    """Thousands set apart."""
    return f"{value:,}".replace(",", NARROW).replace("-", MINUS)


def percent(value: Any, places: int = 1) -> str:
    return (
        "–"
        if value is None or math.isnan(float(value))
        else f"{100 * float(value):.{places}f}{NARROW}%"
    )


def size(count: Any) -> str:
    """Bytes with a unit."""
    number = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if abs(number) < 1000:
            return f"{number:.3g}{NARROW}{unit}" if unit != "B" else f"{int(number)}{NARROW}B"
        number /= 1000
    return f"{number:.3g}{NARROW}TB"


def seconds(value: Any) -> str:
    number = float(value)
    return f"{number:.2f}{NARROW}s" if number < 100 else f"{number / 60:.1f}{NARROW}min"


def spread(values: Any, percentage: bool = False) -> tuple[str, str]:
    """(mean, "least – largest") of some numbers; the second is empty where both ends look alike."""
    found = np.asarray(values, float)
    show = percent if percentage else short
    if not found.size:
        return "–", ""
    low, high = show(found.min()), show(found.max())
    return show(found.mean()), "" if low == high else f"{low} – {high}"


def row_bound(problem: dict[str, Any]) -> str:
    """The bound on a row's norm, and by what rows were divided to keep it; strength is for the rows
    before that."""
    scale = problem.get("regulariser_options", {}).get("row_scale", 1.0)
    after = "" if scale == 1.0 else f" after division by {setting(float(scale))}"
    return setting(problem["data_norm"]) + after


def strength(problem: dict[str, Any]) -> str:
    """Of the regulariser, and who chose it."""
    by = " (chosen by auto)" if problem.get("auto_strength") else ""
    return f"{problem['strength']:.3g}{by}"


def setting(value: Any) -> str:
    """A hyperparameter as plain words: schedules by name, lists shortened."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        rest = ", ".join(f"{k} {setting(v)}" for k, v in value.items() if k != "schedule")
        return f"{value['schedule']} ({rest})" if "schedule" in value else rest
    if isinstance(value, (list, tuple)):
        shown = ", ".join(setting(v) for v in value[:6])
        return f"{shown}, … ({len(value)} values)" if len(value) > 6 else shown
    return str(value)
