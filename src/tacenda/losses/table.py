"""How compiled code reads a loss that is a table of cubic pieces (`pieces` writes it)."""

from __future__ import annotations

import math
from typing import Any

from tacenda.losses.formulas import clamped, formula

# Where what a table holds begins in `numbers`
LOWEST, HIGHEST, STEEPEST_RISE, OF_MARGIN, SCALE, REACH, PER_UNIT, CELLS, PIECES, HEAD = range(10)


@formula
def piece_at(numbers: Any, z: float) -> int:
    """Which piece of a table holds z; -1 below all of them, or if z is no number, and the number of
    pieces above them."""
    cells, pieces = int(numbers[CELLS]), int(numbers[PIECES])
    knots = HEAD + cells
    if not z >= numbers[knots]:
        return -1
    if z >= numbers[knots + pieces]:
        return pieces
    cell = int((math.asinh(z / numbers[SCALE]) + numbers[REACH]) * numbers[PER_UNIT])
    cell = 0 if cell < 0 else (cell if cell < cells else cells - 1)
    k = int(numbers[HEAD + cell])
    while z < numbers[knots + k]:
        k -= 1
    while z >= numbers[knots + k + 1]:
        k += 1
    return k


@formula
def slope(numbers: Any, s: float, y: float) -> float:
    """The slope in s of a loss that is a table of cubic pieces: within its bounds whatever the
    table holds; no number where s is none."""
    margin = numbers[OF_MARGIN] > 0.0
    z = y * s if margin else s - y
    if not abs(z) <= math.inf:
        return z
    k, pieces = piece_at(numbers, z), int(numbers[PIECES])
    found = numbers[LOWEST] if k < 0 else numbers[HIGHEST]
    if 0 <= k < pieces:
        knots = HEAD + int(numbers[CELLS])
        c, u = knots + pieces + 1 + 4 * k, z - numbers[knots + k]
        found = numbers[c] + u * (numbers[c + 1] + u * (numbers[c + 2] + u * numbers[c + 3]))
        found = clamped(found, numbers[LOWEST], numbers[HIGHEST])
    return y * found if margin else found


@formula
def curvature(numbers: Any, s: float, y: float) -> float:
    """The second derivative in s of such a loss, from 0 to its bound; one element of it at a
    knot."""
    z = y * s if numbers[OF_MARGIN] > 0.0 else s - y
    k, pieces = piece_at(numbers, z), int(numbers[PIECES])
    if not 0 <= k < pieces:
        return 0.0
    knots = HEAD + int(numbers[CELLS])
    c, u = knots + pieces + 1 + 4 * k, z - numbers[knots + k]
    found = numbers[c + 1] + u * (2.0 * numbers[c + 2] + u * 3.0 * numbers[c + 3])
    return clamped(found, 0.0, numbers[STEEPEST_RISE])
