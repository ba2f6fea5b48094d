"""What a look at a peer finds, over real sockets: silence, and certificates that are not valid by a
wrong clock."""

from __future__ import annotations

import datetime as dt
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from node_stage import anywhere, handshake_of, made_identity, signed_contract, small_contract
from tacenda.errors import InputError
from tacenda_node.identity import certificates
from tacenda_node.identity.certificates import Identity
from tacenda_node.identity.contract import Contract
from tacenda_node.peer.run import check_identity
from tacenda_node.protocol import frames
from tacenda_node.state.database import NodeState
from tacenda_node.wire import endpoint as endpoints
from tacenda_node.wire import routes
from tacenda_node.wire.mailbox import Mailbox
from tacenda_node.wire.probe import dates, look_at


@contextmanager
def _listener() -> Iterator[socket.socket]:
    """A port that is open, and at which nobody says anything."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server


def _address(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def _tls(who: Identity, authority: Path | None = None) -> Iterator[str]:
    """A TLS server with this certificate; with `authority` it asks for the caller's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(who.folder / "node.crt", who.folder / "tls.key")
    if authority is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority)

    def serve(server: socket.socket) -> None:
        raw, _ = server.accept()
        try:
            with context.wrap_socket(raw, server_side=True) as tls:
                tls.recv(1)
        except OSError:
            raw.close()

    with _listener() as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        yield _address(server)
        thread.join(5)


def _from_now_on(monkeypatch: pytest.MonkeyPatch, folder: Path, days: float) -> Identity:
    """A member whose certificate is valid from so many days from now on."""
    with monkeypatch.context() as patch:
        patch.setattr(certificates, "_ALLOWED_SKEW", dt.timedelta(days=-days))
        return made_identity(folder / "late", "late", folder / "ca", days=10)


def test_an_open_port_that_says_nothing(tmp_path: Path) -> None:
    me = made_identity(tmp_path / "me", "me", tmp_path / "ca")
    with _listener() as server:
        address = _address(server)
        found = look_at(address, "m1", me, 0.3)
    assert found == "connected but silent for 0.3 s: is this a Tacenda node?"
    assert look_at(address, "m1", me, 0.3) == ""  # nobody there any more


def test_a_certificate_of_the_future_means_a_clock_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = _from_now_on(monkeypatch, tmp_path, 3)
    me = made_identity(tmp_path / "me", "me", tmp_path / "ca")
    with _tls(late) as address:
        found = look_at(address, "late", me)
    assert "the certificate of late is valid from" in found
    assert "your clock differs by at least 3 days" in found
    with _tls(me) as address:
        assert look_at(address, "me", me, 0.5) == ""
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=12)
    assert "10 days later: it needs a new one" in dates(me.certificate, "me", later)
    # the member itself is told before it calls anybody
    plain = small_contract(3).to_plain()
    plain["members"][0] |= {
        "name": "late",
        "fingerprint": late.fingerprint,
        "signing_key": late.signing_key,
    }
    plain["edges"] = [["late", "m1"], ["m1", "m2"]]
    with pytest.raises(InputError, match="your clock differs by at least 3 days"):
        check_identity([Contract.build(plain)], late)


def test_a_peer_whose_clock_refuses_this_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server finds the caller's certificate not yet valid, as one with a clock behind does."""
    late = _from_now_on(monkeypatch, tmp_path, 3)
    peer = made_identity(tmp_path / "peer", "peer", tmp_path / "ca")
    with _tls(peer, tmp_path / "ca" / certificates.AUTHORITY_OWN) as address:
        found = look_at(address, "peer", late)
    assert "peer refuses this node's certificate as expired or not yet valid" in found


def test_a_node_says_that_its_peer_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "HELLO_SECONDS", 0.3)
    monkeypatch.setattr(routes, "LOOK_SECONDS", 0.3)
    said: list[dict[str, Any]] = []
    told = threading.Event()

    class Log:
        def info(self, event: str, **facts: Any) -> None:
            """Only warnings count."""

        def warning(self, event: str, **facts: Any) -> None:
            said.append(facts)
            told.set()

    contract, people = signed_contract(small_contract(2, graph="path"), tmp_path / "keys")
    contract = contract.model_copy(update={"authorities": [people["m0"].authority_pem]})
    state = NodeState(tmp_path / "state")
    with _listener() as server:
        endpoint = endpoints.Endpoint(
            handshake_of(contract, people["m0"], state),
            Mailbox(["m1"], anywhere(4), 1e9),
            frames.frame_limit(32),
            Log(),
            bind=None,
            addresses={"m1": _address(server)},
        )
        endpoint.start()
        try:
            assert told.wait(20)
            words = "connected but silent for 0.3 s: is this a Tacenda node?"
            assert said[0] == {"peer": "m1", "reason": words}
            assert endpoint.links["m1"].reason == words
        finally:
            endpoint.stop()
            state.close()
