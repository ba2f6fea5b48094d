"""Faults of the network between real members: ports, silence, proxies, relays, names."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from chaos_members import command, nothing_charged, same_bits
from chaos_proxy import ChaosProxy
from connect_proxy import ConnectProxy
from node_stage import Crowd
from tacenda_node.setup.rehearse import free_ports

pytestmark = pytest.mark.slow


class Deaf(ChaosProxy):
    """A connection that stays open and passes nothing any more, as after a pulled cable."""

    def __init__(self, target: str) -> None:
        self.deaf = False
        super().__init__(target, 0)

    def _broken(self, data: bytes) -> bytes:
        while self.deaf:
            time.sleep(0.05)
        return data


def test_the_port_is_taken(crowd: Crowd) -> None:
    host, _, port = crowd.stage.contract.member("m1").address.rpartition(":")
    with socket.create_server((host.strip("[]"), int(port))):
        crowd.start_as("m1", command)
        assert crowd.wait(120, ["m1"]) == {"m1": 5}, crowd.output("m1")
    assert "cannot be listened on: is another program there?" in crowd.output("m1")
    nothing_charged(crowd, "m1")
    crowd.start()
    same_bits(crowd, crowd.finish())


def test_the_port_of_the_metrics_is_taken(crowd: Crowd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        crowd.options["m1"] = {"metrics_address": taken.getsockname()[1]}
        crowd.start_as("m1", command)
        (code,) = crowd.wait(120, ["m1"]).values()
    assert code == 5, crowd.output("m1")
    assert "cannot be used (Address already in use); choose another" in crowd.output("m1")
    nothing_charged(crowd, "m1")


def test_a_neighbour_that_accepts_and_says_nothing(crowd: Crowd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        crowd.addresses["m0"] = {"m1": f"127.0.0.1:{silent.getsockname()[1]}"}
        crowd.start()
        crowd.until("m0", "connected but silent for")
        crowd.kill("m0")
    crowd.addresses.clear()
    crowd.start("m0")
    same_bits(crowd, crowd.finish())


def test_a_connection_that_is_open_at_one_end_only(crowd: Crowd) -> None:
    """Nothing passes for a while, in either direction, and nobody is told that it is over."""
    deaf = Deaf(crowd.stage.contract.member("m1").address)
    crowd.addresses["m0"] = {"m1": deaf.address}
    crowd.start()
    crowd.until("m0", "round one done")
    deaf.deaf = True
    time.sleep(2.5)
    deaf.strike("drop")
    deaf.deaf = False
    models = crowd.finish()
    deaf.close()
    same_bits(crowd, models)


def test_the_proxy_is_down_and_comes_back(crowd: Crowd) -> None:
    (port,) = free_ports(1)
    crowd.options["m0"] = {"proxy": f"http://127.0.0.1:{port}"}
    crowd.start()
    crowd.until("m0", f"the proxy 127.0.0.1:{port} cannot be reached")
    crowd.kill("m0")
    proxy = ConnectProxy()
    crowd.options["m0"] = {"proxy": proxy.url}
    crowd.start("m0")
    models = crowd.finish()
    proxy.close()
    same_bits(crowd, models)


def test_the_proxy_wants_another_password(crowd: Crowd, tmp_path: Path) -> None:
    proxy = ConnectProxy("anna:right")
    login = tmp_path / "login"
    login.write_text("anna:wrong\n")
    login.chmod(0o600)
    crowd.options["m0"] = {"proxy": proxy.url, "proxy_login": login}
    crowd.start()
    crowd.until("m0", "refuses a stream to")
    assert "(407)" in crowd.log("m0")
    crowd.kill("m0")
    login.write_text("anna:right\n")
    crowd.start("m0")
    models = crowd.finish()
    proxy.close()
    same_bits(crowd, models)


def test_a_relay_that_is_not_there(crowd: Crowd, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t" * 40)
    token.chmod(0o600)
    (port,) = free_ports(1)
    crowd.options["m0"] = {"relay_token": token}
    crowd.addresses["m0"] = {"m1": f"relay://127.0.0.1:{port}"}
    crowd.start()
    crowd.until("m0", f"127.0.0.1:{port} cannot be reached")
    crowd.kill("m0")
    crowd.addresses.clear()
    crowd.start("m0")
    same_bits(crowd, crowd.finish())


@pytest.mark.skipif(os.geteuid() != 0, reason="a private /etc/hosts needs root")
def test_a_name_that_gets_another_address(crowd: Crowd, tmp_path: Path) -> None:
    """m0 knows m1 by a name; the name leads nowhere at first, then to where m1 is."""
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n127.0.0.66 node-m1.example\n")
    port = crowd.stage.contract.member("m1").address.rpartition(":")[2]
    words = [*crowd.stage.command("m0"), "--peer", f"m1=node-m1.example:{port}"]
    private = f"mount --bind {hosts} /etc/hosts && exec " + " ".join(words)
    crowd.start("m1", "m2")
    node = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", private],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        crowd.until("m0", "peer not reached")
        with open(hosts, "r+", encoding="utf-8") as file:  # the same file, with other words
            file.write("127.0.0.1 localhost\n127.0.0.1  node-m1.example\n")
            file.truncate()
        said = node.communicate(timeout=180)[0].decode()
        assert node.returncode == 0, said
        assert crowd.wait(120, ["m1", "m2"]) == {"m1": 0, "m2": 0}
    finally:
        node.kill()
    same_bits(crowd, crowd.models())
