"""Why a peer cannot be reached, found by looking at it once with plain sockets: gRPC tells neither
that a port is open and silent, nor whose clock is wrong.

Nothing is sent but a TLS handshake, and nothing is believed: the answer is words for the operator.
"""

from __future__ import annotations

import datetime as dt
import os
import socket
import ssl

from cryptography import x509

from tacenda.addresses import host_and_port
from tacenda.errors import StateError
from tacenda_node.identity.certificates import CERTIFICATE, Identity
from tacenda_node.watch.status import about

PATIENCE = 5.0  # seconds for each step
ACCEPTS = "connected but silent for"
_REFUSED_BY_DATE = ("CERTIFICATE_EXPIRED", "BAD_CERTIFICATE")
CLOCK = "set the clock and turn on time synchronisation (timedatectl set-ntp true)"


def look_at(address: str, peer: str, identity: Identity, seconds: float = PATIENCE) -> str:
    """What is wrong with the way to `peer`, as far as a look shows it; otherwise "".

    identity: this member's, whose certificate is shown.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        load_chain(context, identity)
        with socket.create_connection(host_and_port(address, lowest=0), seconds) as raw:
            return _talk(context, raw, peer, seconds)
    except (OSError, ValueError, StateError):
        return ""  # not reached at all, of which gRPC itself has the words


def _talk(context: ssl.SSLContext, raw: socket.socket, peer: str, seconds: float) -> str:
    raw.settimeout(seconds)
    shown = None
    try:
        with context.wrap_socket(raw, server_hostname=peer) as tls:
            shown = tls.getpeercert(binary_form=True)
            tls.settimeout(min(1.0, seconds))  # a refusal arrives after the handshake
            tls.recv(1)
    except TimeoutError:
        if shown is None:
            return f"{ACCEPTS} {seconds:g} s: is this a Tacenda node?"
    except ssl.SSLError as refused:
        if any(mark in str(refused.reason) for mark in _REFUSED_BY_DATE):
            return (
                f"{peer} refuses this node's certificate as expired or not yet valid, which it is "
                f"not by the clock here: the clock of {peer} or of this machine is wrong; "
                f"on that one {CLOCK}"
            )
    return "" if shown is None else dates(x509.load_der_x509_certificate(shown), peer)


def load_chain(context: ssl.SSLContext, mine: Identity) -> None:
    """Python's ssl takes keys from files only: the key is in a file in memory, where the system
    has such, and never on a disk in plain text."""
    chain = os.fspath(mine.folder / CERTIFICATE)
    if not hasattr(os, "memfd_create"):
        key = mine.keys.tls.key
        context.load_cert_chain(chain, None if key is None else os.fspath(key))
        return
    with os.fdopen(os.memfd_create("tls", os.MFD_CLOEXEC), "wb") as file:
        file.write(mine.tls_pem()[0])
        file.flush()
        context.load_cert_chain(chain, f"/proc/self/fd/{file.fileno()}")


def dates(certificate: x509.Certificate, whose: str, now: dt.datetime | None = None) -> str:
    """A sentence if the certificate is not valid now by this machine's clock, otherwise ""."""
    at = now or dt.datetime.now(dt.UTC)
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if at < begin:
        return (
            f"the certificate of {whose} is valid from {begin:%Y-%m-%d %H:%M} UTC, and the clock "
            f"here says {at:%Y-%m-%d %H:%M} UTC: your clock differs by at least "
            f"{about((begin - at).total_seconds())}, or that of who signed it; {CLOCK}"
        )
    if at > end:
        return (
            f"the certificate of {whose} was valid until {end:%Y-%m-%d %H:%M} UTC, and the clock "
            f"here says {at:%Y-%m-%d %H:%M} UTC, {about((at - end).total_seconds())} later: it "
            f"needs a new one (`tacenda certs request`), or, if your clock is ahead, {CLOCK}"
        )
    return ""
