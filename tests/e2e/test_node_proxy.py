"""Members behind an HTTP proxy, over IPv6, and with an address that changes."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from connect_proxy import ConnectProxy
from node_stage import Crowd, simulated, small_contract
from tacenda_node.setup.rehearse import free_ports


def same_as_simulated(crowd: Crowd) -> None:
    crowd.start()
    np.testing.assert_allclose(crowd.finish(), simulated(crowd.stage, seed=3), rtol=0, atol=1e-12)


@pytest.mark.slow
def test_one_member_over_ipv6_and_one_behind_a_proxy(tmp_path: Path) -> None:
    """m0 calls m1 over IPv6, and m2 through a proxy that wants a password."""
    proxy = ConnectProxy("anna:secret")
    login = tmp_path / "login"
    login.write_text("anna:secret")
    login.chmod(0o600)
    six = f"[::1]:{free_ports(1)[0]}"
    crowd = Crowd(tmp_path / "crowd", small_contract(3, rounds=3, graph="path"), seed=3)
    crowd.options = {
        "m1": {"bind": six, "proxy": proxy.url, "proxy_login": login},
        "m2": {"bind": f"localhost:{crowd.stage.contract.member('m2').address.split(':')[1]}"},
    }
    crowd.addresses = {"m0": {"m1": six}}
    try:
        same_as_simulated(crowd)
    finally:
        proxy.close()
    assert set(proxy.asked) == {crowd.stage.contract.member("m2").address}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("tinyproxy") is None, reason="tinyproxy is not installed")
def test_through_tinyproxy(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    config = tmp_path / "tinyproxy.conf"
    config.write_text(
        f"Port {port}\nListen 127.0.0.1\nAllow 127.0.0.1\nBasicAuth anna secret\n"
        f'LogFile "{tmp_path / "proxy.log"}"\nTimeout 600\nMaxClients 20\n'
    )
    login = tmp_path / "login"
    login.write_text("anna:secret")
    login.chmod(0o600)
    process = subprocess.Popen(["tinyproxy", "-d", "-c", str(config)], stdout=subprocess.DEVNULL)
    try:
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
        crowd = Crowd(tmp_path / "crowd", small_contract(3, rounds=20), seed=3)
        crowd.options = {
            name: {"proxy": f"http://127.0.0.1:{port}", "proxy_login": login}
            for name in crowd.names
        }
        same_as_simulated(crowd)
    finally:
        process.terminate()
        process.wait(20)
    assert (tmp_path / "proxy.log").read_text().count("Established connection") >= 3


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="a hosts file of its own needs root")
def test_a_name_that_changes_its_address(tmp_path: Path) -> None:
    """m1 moves while m0 calls it by name: the new address is found without a restart."""
    crowd = Crowd(tmp_path / "crowd", small_contract(2, rounds=3), seed=3)
    port = crowd.stage.contract.member("m1").address.rpartition(":")[2]
    crowd.options = {"m1": {"bind": f"127.0.0.3:{port}"}}
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n127.0.0.9 m1.test\n")
    words = shlex.join([*crowd.stage.command("m0"), "--peer", f"m1=m1.test:{port}"])
    script = f"mount --bind {hosts} /etc/hosts && exec {words}"
    crowd.start("m1")
    caller = subprocess.Popen(["unshare", "-m", "sh", "-c", script])
    try:
        log = crowd.folder("m0") / "state" / "log.jsonl"
        while not log.exists() or "peer not reached" not in log.read_text():
            assert caller.poll() is None
            time.sleep(0.05)
        hosts.write_text("127.0.0.1 localhost\n127.0.0.3 m1.test\n")
        assert caller.wait(60) == 0
        assert crowd.wait(60, ["m1"]) == {"m1": 0}
    finally:
        caller.kill()
        caller.wait(20)
        crowd.stop()
    np.testing.assert_allclose(crowd.models(), simulated(crowd.stage, seed=3), rtol=0, atol=1e-12)
