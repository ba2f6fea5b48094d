"""Run by `bounds_ranks.py` in an environment of its own: `python bounds_rival.py opendp|smartnoise
FILE` finds bounds of every column that the file asks for, and writes them beside it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

method, file = sys.argv[1], Path(sys.argv[2])
with np.load(file) as given:
    columns = [given[f"column{k}"] for k in range(len(given["asked"]))]
    asked, candidates = given["asked"].tolist(), given["candidates"].tolist()


def opendp(values: np.ndarray, epsilon: float, tail: float, times: int) -> list[tuple]:
    """Two quantiles among the candidates, each with half of epsilon, one record replaced."""
    import opendp.prelude as dp

    dp.enable_features("contrib", "honest-but-curious")
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(values))

    def made(alpha: float, scale: float):  # type: ignore[no-untyped-def]
        return dp.m.make_private_quantile(
            domain,
            dp.symmetric_distance(),
            dp.max_divergence(),
            candidates=candidates,
            alpha=alpha,
            scale=scale,
        )

    ends = [
        dp.binary_search_chain(lambda s, a=alpha: made(a, s), d_in=2, d_out=epsilon / 2, T=float)
        for alpha in (tail, 1 - tail)
    ]
    listed = values.tolist()
    return [tuple(end(listed) for end in ends) for _ in range(times)]


def smartnoise(values: np.ndarray, epsilon: float, tail: float, times: int) -> list[tuple]:
    """Its histogram of signed powers of two; a replaced record changes two of the counts."""
    from snsql.sql._mechanisms.approx_bounds import approx_bounds

    found = [approx_bounds(values, epsilon / 2) for _ in range(times)]
    return [(np.nan, np.nan) if low is None else (low, high) for low, high in found]


solve = {"opendp": opendp, "smartnoise": smartnoise}[method]
answers = {
    f"bounds{k}": np.array(solve(values, epsilon, tail, int(times)), float)
    for k, (values, (epsilon, tail, times)) in enumerate(zip(columns, asked, strict=True))
}
np.savez(file.with_name("found.npz"), **answers)
