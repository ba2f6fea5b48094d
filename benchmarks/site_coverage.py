"""Coverage of the pooled effect of sites that differ: the whole of `site_effects`, with noise.

    python -m benchmarks.site_coverage [--repeat 40]

Each site has a true log hazard ratio of its own, normal around -0.5; one column, four periods.
"mean" is how often the interval of the mean effect holds -0.5, "new" how often the prediction
interval holds the true effect of one more site, and "site" how often a site's own interval holds.
"""

from __future__ import annotations

import argparse
import json
import warnings
from typing import Any

import numpy as np

import tacenda as tc

MEAN, RECORDS = -0.5, 4000


def drawn(sites: int, tau: float, seed: int) -> tuple[dict[str, Any], Any]:
    """(records of all sites, the true effects of each and of one more)."""
    rng = np.random.default_rng(seed)
    effects = MEAN + tau * rng.normal(size=sites + 1)
    at = np.repeat(np.arange(sites), RECORDS)
    arm = rng.integers(0, 2, len(at))
    time = rng.exponential(3 * np.exp(-effects[at] * arm) * rng.uniform(0.8, 1.25, sites)[at])
    table = {"site": np.char.add("s", at.astype(str)), "arm": arm.astype(str)}
    table |= {"t": np.minimum(time, 4.0), "e": np.where(time < 4, "1", "0")}
    return table, effects


def main() -> None:
    """Print one line of JSON for each setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=40)
    repeat = parser.parse_args().repeat
    warnings.simplefilter("ignore")
    schema = tc.data.Schema.build(
        columns=[{"kind": "categorical", "name": "arm", "levels": ["0", "1"]}],
        label={"name": "e", "classes": ["0", "1"]},
        survival={"time": "t", "event": "e", "points": [1, 2, 3, 4]},
        node_column="site",
    )
    for sites in (5, 10, 30):
        for tau, epsilon in ((0.0, 2.0), (0.2, 2.0), (0.2, None)):
            mean, new, own, found, hidden = [], [], [], [], 0
            for seed in range(repeat):
                table, truth = drawn(sites, tau, 1000 * sites + seed)
                budget = None if epsilon is None else tc.Privacy(epsilon)
                one = tc.tables.site_effects(schema, table, budget, seed=seed)
                hidden += int(np.sum(~np.isfinite(one.effects)))
                p = one.pooled
                mean.append(p.low <= MEAN <= p.high)
                new.append(p.new_low <= truth[-1] <= p.new_high)
                order = [int(name[1:]) for name in one.sites]
                apart = np.abs(np.array(one.effects) - truth[order]) / np.array(one.errors)
                own += (apart <= 1.96)[np.isfinite(one.effects)].tolist()
                found.append((p.effect, p.tau, p.high - p.low))
            effect, spread, width = np.mean(found, axis=0).round(4).tolist()
            print(
                json.dumps(
                    {
                        "sites": sites,
                        "tau": tau,
                        "epsilon": epsilon,
                        "repeat": repeat,
                        "hidden": hidden,
                        "mean": float(np.mean(mean)),
                        "new": float(np.mean(new)),
                        "site": round(float(np.mean(own)), 4),
                        "effect": effect,
                        "found tau": spread,
                        "width": width,
                    }
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
