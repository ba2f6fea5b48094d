"""What a next run takes over: its digest, its file, and who lacks it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from months_stage import months_contract
from node_stage import small_contract
from tacenda.algorithms.tabled import Tabled
from tacenda.algorithms.taken import Taken
from tacenda.algorithms.whitened import Whitened
from tacenda.errors import InputError, PrivacyError
from tacenda_node.identity.contract import Contract
from tacenda_node.membership.amendments import next_run
from tacenda_node.peer.public_start import PublicStart, file_of, find_start
from tacenda_node.peer.run_plan import can_be_continued, make_plan

START = PublicStart(np.array([0.5, -1.0, 0.25, 0.0]), np.array([*range(10), 0.0, 0.1, 0.02], float))


def continued(start: PublicStart = START, **more: object) -> Contract:
    before = months_contract(3)
    terms = {"run": before.run_id(), "start": start.digest, **more}
    return next_run(before, "month 2", [], [], {"m1": 70}, terms)


def test_its_file_is_found_by_its_digest(tmp_path: Path) -> None:
    file = START.write(tmp_path)
    assert file == file_of(tmp_path, START.digest)
    found = find_start(continued(), tmp_path / "next.toml", tmp_path / "state-1")
    assert found is not None and found.digest == START.digest
    np.testing.assert_array_equal(found.model, START.model)
    assert find_start(months_contract(3), tmp_path / "c.toml", tmp_path / "state") is None


def test_who_lacks_it_reads_whom_to_ask(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="its model is not here. Ask a member") as said:
        find_start(continued(), tmp_path / "next.toml", tmp_path / "state-1")
    assert file_of(tmp_path, START.digest).name in str(said.value)
    other = PublicStart(START.model + 1, START.for_next)
    other.write(tmp_path).rename(file_of(tmp_path, START.digest))
    with pytest.raises(InputError, match="is not the start that the contract names"):
        find_start(continued(), tmp_path / "next.toml", tmp_path / "state-1")


def test_the_plan_releases_no_moment_and_spends_all_on_rounds() -> None:
    before, after = make_plan(months_contract(3)), make_plan(continued())
    assert isinstance(after.spec.algorithm, Whitened)
    assert before.releases == (2, 1, 1, 1) and after.releases == (1, 1, 1, 1)
    assert after.contract.member("m1").size == 70
    ((_, count),) = after.events("m0")
    assert count == 4
    # The numbers change no noise: the plan with them is the one that was signed
    taken = START.taken_by(after.contract)
    assert taken is not None and taken.drift == 0.01
    again = make_plan(after.contract, taken)
    assert again.events("m0") == after.events("m0")
    assert len(before.events("m0")) == 2 or before.events("m0")[0][1] == 5


def test_tables_beside_a_training_take_their_share_of_what_is_left() -> None:
    from tacenda.questions.statistics import Count

    facts, share = make_plan(months_contract(3)).spec.facts, 0.2
    kinds = [make_plan(c).spec.algorithm for c in (months_contract(3), continued())]
    degree = np.full((3, 1), 2.0)
    anew, next_one = (Tabled(a, Count(), share).weight(facts, degree, 4) for a in kinds)
    assert next_one == pytest.approx(float(anew) * 0.9)  # the moment's share was 0.1


def test_only_methods_that_end_with_one_model_continue() -> None:
    terms = {"run": "0" * 64, "start": "1" * 64}
    with pytest.raises(PrivacyError, match="members must end with the same model"):
        make_plan(small_contract(3, continues=terms))
    assert make_plan(small_contract(3, continues=terms, finish_mixing="exact"))


def test_a_moment_of_another_width_is_refused() -> None:
    from tacenda_node.peer.run_plan import Whitened as Named

    algorithm = make_plan(continued()).spec.algorithm
    assert isinstance(algorithm, Named)
    facts, inner = make_plan(continued()).spec.facts, algorithm.algorithm
    scale = algorithm.whitening.labels_in(facts, inner)
    taken = make_plan(continued(), Taken(np.zeros(3), scale, 0.1, 0.02)).spec.algorithm.taken
    with pytest.raises(InputError, match="has 3 numbers, which are not those of 4 features"):
        taken.moment_for(facts, algorithm.whitening, inner, np.zeros((1, 4)))


def test_the_part_of_the_contract_is_checked() -> None:
    assert months_contract(3).run_id() != continued().run_id()
    with pytest.raises(InputError, match="continues.records"):
        continued(records="some")
    with pytest.raises(InputError, match="continues.window"):
        continued(window=0)
    with pytest.raises(InputError, match="--size m9=5"):
        next_run(months_contract(3), "month 2", [], [], {"m9": 5})


def test_what_can_be_continued() -> None:
    assert can_be_continued(months_contract(3))
    assert not can_be_continued(small_contract(3))
    assert can_be_continued(small_contract(3, finish_mixing="exact"))
