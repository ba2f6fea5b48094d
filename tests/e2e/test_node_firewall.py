"""Out of a hospital: through its proxy, by HTTPS, to a relay behind an ordinary web server."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from node_stage import Crowd, simulated
from relay_stage import RelayProcess, behind_firewalls
from tacenda.errors import NetworkError
from tacenda_node.wire import rooms
from tacenda_node.wire.proxy import Proxy, read_secret
from tacenda_node.wire.rooms import CALLS, WAITS, Token, enter
from web_stage import Squid, live_trusting, location_of, nginx

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]
needs_squid = pytest.mark.skipif(
    shutil.which("squid") is None or os.geteuid() != 0, reason="squid is not installed, or no root"
)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "node-network.md"


class Site:
    """A relay behind nginx, whose certificate this process and its children trust."""

    def __init__(self, folder: Path, trust: pytest.MonkeyPatch, *more: str) -> None:
        self.relay = RelayProcess(folder, "--plain", plain=True)
        self.nginx, self._authorities = nginx(folder, location_of(self.relay.address, PAGE, *more))
        trust.setenv("SSL_CERT_FILE", str(self._authorities))
        rooms._context.cache_clear()
        self.address = f"localhost:{self.nginx.port}"
        while "relay on" not in self.relay.said:
            time.sleep(0.05)
        self.token = Token.read(read_secret(self.relay.token, "--relay-token"))

    def start(self, crowd: Crowd) -> None:
        for name in crowd.names:
            crowd.start_as(name, live_trusting, str(self._authorities))

    def close(self) -> None:
        rooms._context.cache_clear()
        for program in (self.nginx, self.relay):
            program.stop()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    found = Site(tmp_path, monkeypatch)
    yield found
    found.close()


def test_a_relay_behind_nginx(tmp_path: Path, site: Site) -> None:
    """With the lines of the documentation, and an authority that the machine trusts."""
    crowd = behind_firewalls(tmp_path, site.address, site.relay.token, 3, 20)
    site.start(crowd)
    models = crowd.finish()
    np.testing.assert_allclose(models, simulated(crowd.stage, seed=3), rtol=0, atol=1e-12)


@needs_squid
@pytest.mark.parametrize("ntlm", [False, True], ids=["basic", "ntlm"])
def test_out_through_squid_and_in_through_nginx(tmp_path: Path, site: Site, ntlm: bool) -> None:
    squid = Squid("anna", "secret", ntlm=ntlm)
    login = tmp_path / "login"
    login.write_text("anna:secret" if not ntlm else "HOSPITAL\\anna:secret")
    login.chmod(0o600)
    try:
        crowd = behind_firewalls(tmp_path, site.address, site.relay.token, 3, 20)
        for name in crowd.names:
            crowd.options[name] |= {"proxy": f"http://127.0.0.1:{squid.port}", "proxy_login": login}
        site.start(crowd)
        models = crowd.finish()
        log = squid.log
    finally:
        squid.stop()
    np.testing.assert_allclose(models, simulated(crowd.stage, seed=3), rtol=0, atol=1e-12)
    assert log.count("TCP_TUNNEL/200") >= 6  # two ends of three edges
    asked = [line for line in log.splitlines() if "CONNECT" in line]
    assert all(f"CONNECT {site.address} " in line for line in asked)  # nothing but the web site


@needs_squid
def test_squid_refuses_in_words(tmp_path: Path, site: Site) -> None:
    squid = Squid("anna", "secret")
    try:
        for login, words in (("", "wants a name"), ("anna:other", "does not take this name")):
            proxy = Proxy("127.0.0.1", squid.port, login)
            with pytest.raises(NetworkError, match=f"407.*{words}"):
                asyncio.run(enter(site.address, site.token, CALLS, bytes(32), proxy, 10.0))
    finally:
        squid.stop()


def test_a_relay_that_is_down_behind_nginx_is_named(site: Site) -> None:
    site.relay.stop()
    assert "does not reach its relay" in rooms.greeted(site.address, site.token, None)
    site.relay.start()


def test_a_silent_pair_outlives_the_web_servers_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nginx ends what is silent for 25 s; the pings come every 20, and the pair says nothing for
    a minute, first in the room and then joined."""
    site = Site(tmp_path, monkeypatch, "proxy_read_timeout 25s; proxy_send_timeout 25s;")

    async def play() -> None:
        waiting = asyncio.ensure_future(
            enter(site.address, site.token, WAITS, bytes(32), None, 35.0)
        )
        await asyncio.sleep(30)
        caller = await enter(site.address, site.token, CALLS, bytes(32), None, 35.0)
        waiter = await waiting
        await asyncio.sleep(60)
        for one, other in ((caller, waiter), (waiter, caller)):
            await one.write(b"still here")
            assert await other.read() == b"still here"
        await caller.close()
        await waiter.close()

    try:
        asyncio.run(play())
    finally:
        site.close()
