"""Compiled inner loops of the CSV reader: where cells begin and end, which of them are equal, and
plain decimal numbers.

What is unusual is not decided here. The loops stop or mark it, and Python's own `csv` and `float`
have the last word, so that every file means the same to both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacenda._jit import EXACT, njit

DONE, UNFINISHED, UNUSUAL = 0, 1, 2
# Longer raw fields are left to Python's csv, which refuses those above 131,072 characters.
LONGEST_FIELD = 131_072

_LINE_FEED, _RETURN, _SPACE, _TAB, _QUOTE = 10, 13, 32, 9, 34
_EXACT_POWERS = 10.0 ** np.arange(23)  # floats hold these exactly
_LARGEST_EXACT = 2**53


@njit(**EXACT)
def tokenise(block, begin, is_last, mark, most, starts, ends):  # type: ignore[no-untyped-def]
    """Find the cells of the records in `block` (bytes) from `begin` on.

    starts, ends (columns, at least `most` records): filled with where the cells begin, and twice
    where they end, plus 1 where quotes inside are doubled. Empty lines are skipped. Returns
    (records, where the next one begins, DONE, or UNFINISHED where the block ends within a record,
    or UNUSUAL where Python's csv must judge the next one).
    """
    width, size = len(starts), len(block)
    records, at, done = 0, begin, begin
    while records < most and at < size:
        column, filled = 0, False
        while True:
            while at < size and block[at] == _SPACE:
                at += 1
            start, doubled = at, 0
            if at < size and block[at] == _QUOTE:
                at += 1
                start = at
                closed = False
                while at < size:
                    if block[at] == _QUOTE:
                        if at + 1 < size and block[at + 1] == _QUOTE:
                            doubled = 1
                            at += 1
                        else:
                            closed = True
                            break
                    at += 1
                    if at - start > LONGEST_FIELD:
                        return records, done, UNUSUAL
                end = at
                at += 1
                if (not closed or at >= size) and not is_last:
                    return records, done, UNFINISHED
                if not closed:
                    return records, done, UNUSUAL
                if (
                    at < size
                    and block[at] != mark
                    and block[at] != _LINE_FEED
                    and block[at] != _RETURN
                ):
                    return records, done, UNUSUAL
            else:
                while (
                    at < size
                    and block[at] != mark
                    and block[at] != _LINE_FEED
                    and block[at] != _RETURN
                ):
                    at += 1
                end = at
                if end - start > LONGEST_FIELD:
                    return records, done, UNUSUAL
            if column < width:
                starts[column, records] = start
                ends[column, records] = 2 * end + doubled
            column += 1
            filled = filled or end > start
            if at >= size:
                if not is_last:
                    return records, done, UNFINISHED
                break
            at += 1
            if block[at - 1] != mark:
                break
        if filled or column > 1:
            if column != width:
                return records, done, UNUSUAL
            records += 1
        done = at
    return records, done, DONE


@njit(**EXACT)
def intern(block, starts, ends, records, slots, codes, firsts):  # type: ignore[no-untyped-def]
    """Give equal cells of one column equal codes, from 0 on, and return how many codes there are.

    records: which of the records; slots: zeros, a power of two of them, at least twice as many as
    records; firsts: filled with the first record of each code.
    """
    mask = len(slots) - 1
    count = 0
    for k in range(len(records)):
        record = records[k]
        start, tagged = starts[record], ends[record]
        length = (tagged >> 1) - start
        found = np.uint64(14695981039346656037 + (tagged & 1))
        for i in range(length):
            found = (found ^ np.uint64(block[start + i])) * np.uint64(1099511628211)
        slot = np.int64(found ^ (found >> np.uint64(29))) & mask
        while True:
            code = slots[slot] - 1
            if code < 0:
                slots[slot] = count + 1
                firsts[count] = record
                code = count
                count += 1
                break
            other = firsts[code]
            before = starts[other]
            if (ends[other] >> 1) - before == length and (ends[other] ^ tagged) & 1 == 0:
                same = True
                for i in range(length):
                    if block[before + i] != block[start + i]:
                        same = False
                        break
                if same:
                    break
            slot = (slot + 1) & mask
        codes[k] = code
    return count


@njit(**EXACT)
def pack(block, starts, ends, records, text, offsets):  # type: ignore[no-untyped-def]
    """Copy the cells of these records to `text`, one after the other, with doubled quotes made
    single; cell k ends up in text[offsets[k] : offsets[k + 1]]."""
    place = 0
    offsets[0] = 0
    for k in range(len(records)):
        at, tagged = starts[records[k]], ends[records[k]]
        while at < tagged >> 1:
            text[place] = block[at]
            place += 1
            at += 2 if tagged & 1 and block[at] == _QUOTE else 1
        offsets[k + 1] = place


@njit(**EXACT)
def plain_numbers(text, offsets, values, plain):  # type: ignore[no-untyped-def]
    """Read decimal numbers exactly: values[k] is the float nearest to cell k where plain[k]. A
    whole number below 2^53 times or by a power of ten that is exact needs one rounding only; all
    else is left to Python's float."""
    for k in range(len(values)):
        at, end = offsets[k], offsets[k + 1]
        plain[k], values[k] = False, np.nan
        while at < end and (text[at] == _SPACE or text[at] == _TAB):
            at += 1
        while at < end and (text[end - 1] == _SPACE or text[end - 1] == _TAB):
            end -= 1
        negative = at < end and text[at] == 45
        if at < end and (text[at] == 45 or text[at] == 43):
            at += 1
        whole, digits, power, dotted = 0, 0, 0, False
        while at < end and whole < _LARGEST_EXACT:
            c = text[at]
            if 48 <= c <= 57:
                whole = 10 * whole + (c - 48)
                digits += 1
                power -= 1 if dotted else 0
            elif c == 46 and not dotted:
                dotted = True
            else:
                break
            at += 1
        if digits == 0 or whole > _LARGEST_EXACT:
            continue
        if at < end and (text[at] == 101 or text[at] == 69):
            at += 1
            down = at < end and text[at] == 45
            if at < end and (text[at] == 45 or text[at] == 43):
                at += 1
            begin, shift = at, 0
            while at < end and 48 <= text[at] <= 57 and shift < 1000:
                shift = 10 * shift + (text[at] - 48)
                at += 1
            if at == begin:
                continue
            power += -shift if down else shift
        if at < end or not -22 <= power <= 22:
            continue
        value = float(whole)
        value = value * _EXACT_POWERS[power] if power >= 0 else value / _EXACT_POWERS[-power]
        values[k], plain[k] = -value if negative else value, True


def cells_of(block: Any, starts: Any, ends: Any, records: Any) -> tuple[Any, Any, Any]:
    """(codes of these records' cells in one column, text and offsets of what each code means)."""
    count = len(records)
    codes, firsts = np.empty(count, np.int32), np.empty(count, np.int64)
    slots = np.zeros(1 << (2 * count).bit_length(), np.int32)
    known = intern(block, starts, ends, records, slots, codes, firsts)
    firsts = firsts[:known]
    longest = int(((ends[firsts] >> 1) - starts[firsts]).sum())
    text, offsets = np.empty(longest, np.uint8), np.empty(known + 1, np.int64)
    pack(block, starts, ends, firsts, text, offsets)
    return codes, text[: offsets[-1]], offsets
