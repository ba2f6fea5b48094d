"""The files of a relay: its token, and its certificate."""

from __future__ import annotations

import datetime as dt
import secrets
import ssl
from collections.abc import Callable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tacenda.errors import InputError
from tacenda.formats.files import write_bytes
from tacenda_node.wire.proxy import read_secret
from tacenda_node.wire.rooms import LEAST_TOKEN, Token

YEARS = 20  # of a certificate that members know by its fingerprint


class RelayFiles:
    """token: the token file. certificate, key: an ordinary certificate with its chain, and its key;
    without them the relay makes its own beside the token file."""

    def __init__(
        self, token: Path, certificate: Path | None = None, key: Path | None = None
    ) -> None:
        if (certificate is None) != (key is None):
            raise InputError("--certificate and --key belong together; give both, or neither.")
        self.token = token
        self._ordinary = certificate is not None
        self._certificate = certificate or token.with_suffix(".crt")
        self._key = key or token.with_suffix(".key")
        self._dates: tuple[float, float] = (0.0, 0.0)

    def ready(
        self, tell: Callable[[str], None], *, plain: bool
    ) -> tuple[Token, ssl.SSLContext | None]:
        """The token, made where there is none, and TLS; None behind a web server (plain)."""
        pin = ""
        if not plain and not self._ordinary:
            if not (self._certificate.exists() and self._key.exists()):
                make_certificate(self._certificate, self._key)
            pem = x509.load_pem_x509_certificate(self._certificate.read_bytes())
            pin = pem.fingerprint(hashes.SHA256()).hex()
        token = token_of(self.token, pin, tell)
        if plain:
            return token, None
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._dates = self._changed()
        self._load(tls)
        return token, tls

    def renew(self, tls: ssl.SSLContext, tell: Callable[[str], None]) -> None:
        """Take up a renewed certificate; new callers see it."""
        try:
            dates = self._changed()
            if dates != self._dates:
                self._load(tls)
                self._dates = dates
                tell("the renewed certificate is in use.")
        except (InputError, OSError) as wrong:
            tell(f"the new certificate cannot be used, the former one stays: {wrong}")

    def _changed(self) -> tuple[float, float]:
        try:
            return self._certificate.stat().st_mtime, self._key.stat().st_mtime
        except OSError as failed:
            raise InputError(
                f"{failed.filename} (--certificate, --key) cannot be read: {failed.strerror}; "
                "name the files of the relay's certificate."
            ) from None

    def _load(self, tls: ssl.SSLContext) -> None:
        try:
            tls.load_cert_chain(self._certificate, self._key)
        except (OSError, ssl.SSLError) as failed:
            raise InputError(
                f"{self._certificate} and {self._key} (--certificate, --key) are no certificate "
                f"and its key in PEM: {failed}."
            ) from None


def token_of(path: Path, pin: str = "", tell: Callable[[str], None] = lambda _: None) -> Token:
    """The token in a file; a new one, readable by its owner only, if there is no file. pin: what
    the file says of the certificate, written anew where that has changed."""
    if not path.exists():
        write_bytes(path, f"{Token(secrets.token_urlsafe(32), pin)}\n".encode(), private=True)
    token = Token.read(read_secret(path, "--token-file"))
    if len(token.secret) < LEAST_TOKEN:
        raise InputError(
            f"the token in {path} (--token-file) has {len(token.secret)} characters and needs at "
            f"least {LEAST_TOKEN}; remove the file, and the relay makes a new one."
        )
    if token.pin != pin:
        token = Token(token.secret, pin)
        write_bytes(path, f"{token}\n".encode(), private=True)
        tell(f"{path} was rewritten for another certificate: give it to all members again.")
    return token


def make_certificate(certificate: Path, key: Path) -> None:
    """A certificate that signs itself, for members who know its fingerprint."""
    own = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tacenda relay")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(own.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=365 * YEARS))
        .sign(own, hashes.SHA256())
    )
    pem = own.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_bytes(key, pem, private=True)
    write_bytes(certificate, made.public_bytes(serialization.Encoding.PEM))
