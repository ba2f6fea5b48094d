"""Two runs that differ in anything are two runs: the ledger adds them up, their noise is not
shared, and neither resumes the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import support
import tacenda as tc
from tacenda.errors import PrivacyError, StateError
from tacenda.privacy.lasting.ledger_store import LedgerStore

LOUD = tc.Privacy.from_noise(noise_multiplier=50.0)
ROUNDS = 3


def regression(**settings: Any) -> Any:
    return support.problem(
        4, task="regression", **{"loss": tc.losses.Huber(1.0), "clip_norm": 1.0, **settings}
    )


def run(problem: Any, privacy: Any = LOUD, **more: Any) -> tc.RunResult:
    algorithm = more.pop("algorithm", tc.algorithms.CDPADMM())
    return tc.simulate(
        problem, tc.graph.ring(4), algorithm, ROUNDS, privacy, seed=0, record_every=0, **more
    )


OTHER = {
    "loss parameter": (regression(), regression(loss=tc.losses.Huber(2.0))),
    "regulariser parameter": (
        regression(regulariser=tc.regularisers.ElasticNet(0.2)),
        regression(regulariser=tc.regularisers.ElasticNet(0.6)),
    ),
    "declared sizes": (regression(public_sizes=30), regression(public_sizes=31)),
}


@pytest.mark.parametrize("what", OTHER)
def test_the_ledger_charges_both_and_their_noise_differs(what: str, tmp_path: Path) -> None:
    """Found in review: both had one name in the ledger, so the second was free, and its noise was
    that of the first."""
    relation = "add-remove" if what == "declared sizes" else "replace-one"
    privacy = tc.Privacy.from_noise(noise_multiplier=50.0, adjacency=relation)
    one, other = (run(p, privacy, ledger=tmp_path / "book", dataset="d") for p in OTHER[what])
    with LedgerStore(tmp_path / "book") as store:
        assert sum(count for _, count in store.spent("d").events) == 2 * ROUNDS
    apart = np.linalg.norm(one.last - other.last) / np.linalg.norm(one.last)
    # Nearly all of a model is noise here: with the same noise they would lie close together
    assert apart > 0.5


def test_the_same_run_again_is_free_and_the_same(tmp_path: Path) -> None:
    one, again = (run(regression(), ledger=tmp_path / "book", dataset="d") for _ in range(2))
    np.testing.assert_array_equal(one.models, again.models)
    with LedgerStore(tmp_path / "book") as store:
        assert sum(count for _, count in store.spent("d").events) == ROUNDS


def test_runs_of_other_algorithms_with_one_seed_share_no_noise_in_a_ledger(tmp_path: Path) -> None:
    """Composition takes the noise of the two for independent; with one stream the difference of the
    two is noiseless."""
    both = [tc.algorithms.CDPADMM(penalty=0.1), tc.algorithms.CDPADMM(penalty=0.1001)]
    charged = [
        run(regression(), algorithm=a, ledger=tmp_path / "book", dataset="d").last for a in both
    ]
    plain = [run(regression(), algorithm=a).last for a in both]
    size = np.linalg.norm(plain[0])
    # A simulation by seed: the same noise, as documented
    assert np.linalg.norm(plain[0] - plain[1]) < 0.01 * size
    assert np.linalg.norm(charged[0] - charged[1]) > 0.5 * size


@pytest.mark.parametrize("what", OTHER)
def test_a_checkpoint_of_the_one_is_not_resumed_by_the_other(what: str, tmp_path: Path) -> None:
    relation = "add-remove" if what == "declared sizes" else "replace-one"
    privacy = tc.Privacy.from_noise(noise_multiplier=50.0, adjacency=relation)
    one, other = OTHER[what]
    run(one, privacy, checkpoint=tmp_path / "c")
    with pytest.raises(StateError, match="belongs to another run"):
        run(other, privacy, checkpoint=tmp_path / "c", resume=True)


def test_counts_of_records_do_not_leave_under_add_remove(tmp_path: Path) -> None:
    """Found in review: results, reports and model cards carried the true counts,
    which that relation hides."""
    problem = regression(public_sizes=30)
    result = run(problem, tc.Privacy.from_noise(noise_multiplier=50.0, adjacency="add-remove"))
    assert result.settings["problem"]["sizes"].tolist() == [30] * 4
    assert run(problem).settings["problem"]["sizes"].tolist() == problem.sizes.tolist()


def test_one_drawn_record_is_not_credited_with_a_declared_crowd() -> None:
    """Found in review: one of 30 records drawn,
    but charged as one of the 10,000 that public_sizes declared."""
    algorithm = tc.algorithms.DDA(batch_size=1, sampling="one")
    with pytest.raises(PrivacyError, match="public_sizes"):
        run(regression(public_sizes=10_000), algorithm=algorithm)
    assert run(regression(), algorithm=algorithm).privacy is not None
