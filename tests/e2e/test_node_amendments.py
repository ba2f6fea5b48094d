"""Amendments that are taken up while the run goes on: a member's certificate and key are replaced,
a member leaves for good."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from cli_tools import run_main
from node_stage import Crowd, simulated, small_contract
from tacenda_node.identity import certificates, contract_files
from tacenda_node.identity.certificates import Identity
from tacenda_node.membership.amendments import amendment_path

ALGORITHM = {"name": "ipadmm", "penalty": 0.1, "inner_steps": 1}


def _hand_round(crowd: Crowd, made: Path, signers: list[str]) -> None:
    """Every signer gets the amendment, and has nobody's signature but its own."""
    for name in signers:
        mine = amendment_path(crowd.contracts[name], 1)
        if mine != made:
            shutil.copy(made, mine)
        run_main("contract", "sign", "--contract", mine, "-i", crowd.folder(name) / "identity")


@pytest.mark.slow
def test_a_key_and_certificate_are_replaced_in_the_middle_of_a_run(tmp_path: Path) -> None:
    """m2 gets a new TLS key and certificate; then m0 is killed and started again, so that it meets
    the new certificate. The bits are those of a run without all this."""
    crowd = Crowd(tmp_path, small_contract(3, rounds=3000, algorithm=ALGORITHM), seed=3)
    crowd.keep_own_signatures()
    try:
        crowd.start()
        crowd.until("m0", "round one done")
        old = Identity.read(crowd.folder("m2") / "identity").fingerprint
        home = crowd.folder("m2") / "identity"
        request = certificates.request(home, "m2", new_key=True)
        certificates.sign(crowd.stage.folder / "authority", request, home, days=2)
        address = crowd.stage.contract.member("m2").address
        card = contract_files.write_card(Identity.read(home), address, 80, tmp_path / "m2.card")
        run_main("contract", "amend", "-c", crowd.contracts["m2"], "--replace", card)
        _hand_round(crowd, amendment_path(crowd.contracts["m2"], 1), crowd.names)
        for name in crowd.names:
            crowd.until(name, "amendment in force")
        assert "all rounds done" not in crowd.log("m0")
        crowd.kill("m0")
        crowd.start("m0")
        models = crowd.finish(400)
    finally:
        crowd.stop()
    np.testing.assert_array_equal(models, simulated(crowd.stage, seed=3))
    new = Identity.read(crowd.folder("m2") / "identity").fingerprint
    assert new != old
    from tacenda_node.state.database import NodeState

    state = NodeState(crowd.folder("m0") / "state")
    try:
        assert state.noted("certificate of m2") == new
    finally:
        state.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ipadmm", "gossipgd"])
def test_a_member_leaves_for_good_where_the_contract_says_stop(tmp_path: Path, name: str) -> None:
    """m3 of a ring of four leaves: the others agree on a view without it and finish; m3 ends in
    order and does not come back. Nobody spends more than agreed, also where neighbours share
    noise."""
    algorithm = ALGORITHM if name == "ipadmm" else {"name": name, "step_size": 0.5}
    privacy = {"epsilon": 5.0, "delta": 1e-5}
    if name == "gossipgd":
        privacy |= {"coalition": 1, "floating_point_noise": True}
    contract = small_contract(4, rounds=1500, algorithm=algorithm, privacy=privacy)
    crowd = Crowd(tmp_path, contract)
    crowd.keep_own_signatures()
    stay = ["m0", "m1", "m2"]
    try:
        crowd.start()
        crowd.until("m3", "round one done")
        run_main("contract", "amend", "-c", crowd.contracts["m0"], "--remove", "m3")
        made = amendment_path(crowd.contracts["m0"], 1)
        shutil.copy(made, amendment_path(crowd.contracts["m3"], 1))
        _hand_round(crowd, made, stay)
        assert crowd.wait(120, ["m3"]) == {"m3": 2}
        assert "m3 has left the run by amendment 1" in crowd.output("m3")
        crowd.kill("m1")
        crowd.start("m1", "m3")
        codes = crowd.wait(400, stay)
        assert set(codes.values()) == {0}, crowd.output("m0")
        assert crowd.wait(60, ["m3"]) == {"m3": 2}
    finally:
        crowd.stop()
    for member in stay:
        assert '"absent": "m3"' in crowd.log(member)
        found = crowd.folder(member) / "state" / "results" / f"{name}-{member}.safetensors"
        from tacenda.runtime.result import load

        result = load(found)
        assert result.privacy is not None
        assert result.privacy.epsilon <= 5.0 * (1 + 1e-6)
