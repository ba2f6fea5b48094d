"""diffprivlib's side: its private logistic regression on pooled records; run by `python -m
benchmarks.peers` in an environment of its own."""

from __future__ import annotations

from itertools import count
from typing import Any

from diffprivlib.models import LogisticRegression
from turns import Work, take_turns, timed


def prepare(work: Work) -> Any:
    seeds = count()
    X, y = work.part(0)

    def turn() -> dict[str, Any]:
        model = LogisticRegression(
            epsilon=work.asked["epsilon"], data_norm=1.0, max_iter=2000, random_state=next(seeds)
        )
        seconds, _ = timed(lambda: model.fit(X, y))
        return {"seconds": seconds, "accuracy": float(model.score(work.test_X, work.test_y))}

    return turn


if __name__ == "__main__":
    take_turns("diffprivlib", prepare)
