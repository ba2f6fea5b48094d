"""Who a member is: a TLS key and a signing key made on site, a certificate that others can check,
and a public card.

    certs init      makes a folder with both private keys (mode 0600, they never leave it) and a
                    certificate request
    certs sign      any member, or an existing authority, turns a request into a certificate
    certs show      prints name, dates and fingerprint, and writes the card that goes into the
                    contract

TLS keys are ECDSA P-256 (what every TLS library takes); contracts are signed with Ed25519. The
certificate's subject alternative name is the member's name, and the contract pins the SHA-256
fingerprint of the certificate: an authority that signs a second certificate for the same name
cannot pass for the member.
"""

from __future__ import annotations

import base64
import datetime as dt
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tacenda.errors import InputError, StateError
from tacenda.formats.files import write_bytes

TLS_KEY = "tls.key"
SIGNING_KEY = "signing.key"
REQUEST = "request.csr"
CERTIFICATE = "node.crt"
AUTHORITY = "authority.crt"
AUTHORITY_KEY, AUTHORITY_OWN = "authority.key", "authority-own.crt"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_ALLOWED_SKEW = dt.timedelta(minutes=5)


def check_name(name: str) -> str:
    """A member's name: what may stand in a certificate as a host name."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(
            f"name must be 1 to 63 lower-case letters, digits and inner hyphens, not {name!r}; "
            "for example 'hospital-a'."
        )
    return name


def init(folder: str | Path, name: str) -> Path:
    """Make both keys and a certificate request in `folder`;
    keys that exist are never overwritten."""
    place = Path(folder)
    check_name(name)
    if (place / TLS_KEY).exists():
        raise StateError(
            f"{place} holds keys already; use another folder, "
            "or `certs request` to renew the certificate."
        )
    place.mkdir(parents=True, exist_ok=True)
    os.chmod(place, 0o700)
    _write_key(place / TLS_KEY, ec.generate_private_key(ec.SECP256R1()))
    _write_key(place / SIGNING_KEY, ed25519.Ed25519PrivateKey.generate())
    return request(place, name)


def request(folder: str | Path, name: str, *, new_key: bool = False) -> Path:
    """Write a certificate request for the TLS key; with `new_key` for a fresh one (rotation), the
    old kept beside it."""
    place = Path(folder)
    check_name(name)
    if new_key:
        os.replace(place / TLS_KEY, place / f"{TLS_KEY}.old")
        _write_key(place / TLS_KEY, ec.generate_private_key(ec.SECP256R1()))
    key = tls_key(place)
    csr = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(_subject(name))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    target = place / REQUEST
    write_bytes(target, csr.public_bytes(serialization.Encoding.PEM))
    return target


def make_authority(folder: str | Path, name: str, days: int = 3650) -> Path:
    """A member becomes able to sign: an authority key and its own certificate in `folder`."""
    place = Path(folder)
    check_name(name)
    if (place / AUTHORITY_KEY).exists():
        raise StateError(f"{place} holds an authority already; use it, or another folder.")
    place.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    _write_key(place / AUTHORITY_KEY, key)
    subject = _subject(f"{name}-authority")
    builder = _builder(subject, subject, key.public_key(), days)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(sign_certificates=True), critical=True)
    builder = builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    )
    write_bytes(
        place / AUTHORITY_OWN,
        builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM),
    )
    return place / AUTHORITY_OWN


def sign(
    authority: str | Path, csr_path: str | Path, out: str | Path, days: int = 365
) -> x509.Certificate:
    """Turn a request into a certificate;
    the request's own signature proves that the sender holds its key."""
    place = Path(authority)
    issuer, key = _read_certificate(place / AUTHORITY_OWN), _elliptic(place / AUTHORITY_KEY)
    csr = _read_request(csr_path)
    name = check_name(name_of(csr))
    if days < 1 or days > 3650:
        raise InputError(f"days must be between 1 and 3650, not {days}.")
    builder = _builder(_subject(name), issuer.subject, _public(csr), days)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=False, path_length=None), critical=True
    )
    builder = builder.add_extension(_usage(sign_certificates=False), critical=True)
    builder = builder.add_extension(
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
        critical=False,
    )
    builder = builder.add_extension(
        x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False
    )
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False
    )
    certificate = builder.sign(key, hashes.SHA256())
    target = Path(out)
    target.mkdir(parents=True, exist_ok=True)
    write_bytes(target / CERTIFICATE, certificate.public_bytes(serialization.Encoding.PEM))
    write_bytes(target / AUTHORITY, issuer.public_bytes(serialization.Encoding.PEM))
    return certificate


@dataclass(frozen=True)
class Identity:
    """A member's folder, read: certificate, its issuer, and both keys."""

    folder: Path
    certificate: x509.Certificate
    authority_pem: str

    @classmethod
    def read(cls, folder: str | Path) -> Identity:
        place = Path(folder)
        certificate = _read_certificate(place / CERTIFICATE)
        own, key = certificate.public_key(), tls_key(place)
        _guarded(place / SIGNING_KEY)
        if own != key.public_key():
            raise StateError(
                f"{place / CERTIFICATE} was not made for the key in {place / TLS_KEY}; "
                "request a new certificate."
            )
        _read_certificate(place / AUTHORITY)
        return cls(place, certificate, (place / AUTHORITY).read_text("ascii"))

    @property
    def name(self) -> str:
        return name_of(self.certificate)

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.certificate)

    @property
    def signing_key(self) -> str:
        """The public half of the contract key, base64."""
        return base64.b64encode(self._contract_key().public_key().public_bytes_raw()).decode()

    def tls_pem(self) -> tuple[bytes, bytes]:
        """(private key, certificate) for the TLS library, in this process only."""
        return _guarded(self.folder / TLS_KEY), (self.folder / CERTIFICATE).read_bytes()

    def prove(self, challenge: bytes, key: bytes | None = None) -> bytes:
        """A signature of a peer's challenge by the TLS key in the folder, or by `key` (PEM)."""
        found = tls_key(self.folder) if key is None else load_key(key)
        return found.sign(challenge, ec.ECDSA(hashes.SHA256()))

    def sign_text(self, text: bytes) -> str:
        """An Ed25519 signature, base64."""
        return self.signer()(text)

    def signer(self) -> Callable[[bytes], str]:
        """`sign_text` with the key read once, for who signs every message."""
        key = self._contract_key()
        return lambda text: base64.b64encode(key.sign(text)).decode()

    def _contract_key(self) -> ed25519.Ed25519PrivateKey:
        key = _read_key(self.folder / SIGNING_KEY)
        if not isinstance(key, ed25519.Ed25519PrivateKey):
            raise StateError(
                f"{self.folder / SIGNING_KEY} must be an Ed25519 key; "
                "make a new folder with `certs init`."
            )
        return key

    def days_left(self, now: dt.datetime | None = None) -> float:
        """Days until the certificate expires; below 0 once it has."""
        at = now or dt.datetime.now(dt.UTC)
        return (self.certificate.not_valid_after_utc - at).total_seconds() / 86400


def proof_holds(certificate: x509.Certificate, challenge: bytes, proof: bytes) -> bool:
    """Whether the holder of this certificate's key signed the challenge."""
    key = certificate.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        return False
    try:
        key.verify(proof, challenge, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def text_signed(signing_key: str, text: bytes, signature: str) -> bool:
    """Whether an Ed25519 signature (base64) of `text` is by this public key (base64)."""
    try:
        _public_key(signing_key).verify(base64.b64decode(signature, validate=True), text)
    except (InvalidSignature, ValueError):
        return False
    return True


@lru_cache(maxsize=1024)
def _public_key(signing_key: str) -> ed25519.Ed25519PublicKey:
    return ed25519.Ed25519PublicKey.from_public_bytes(base64.b64decode(signing_key, validate=True))


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of the certificate, as 64 hex digits."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def name_of(document: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """The one DNS name in the subject alternative name."""
    try:
        names = document.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = None
    found = [] if names is None else names.get_values_for_type(x509.DNSName)
    if len(found) != 1:
        raise InputError(
            "a certificate must name exactly one member in its subject alternative name, "
            f"not {len(found)}."
        )
    return found[0]


def load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """A TLS key that was read before."""
    key = serialization.load_pem_private_key(pem, password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def tls_key(folder: str | Path) -> ec.EllipticCurvePrivateKey:
    """The member's TLS key."""
    return _elliptic(Path(folder) / TLS_KEY)


def _elliptic(path: Path) -> ec.EllipticCurvePrivateKey:
    key = _read_key(path)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise StateError(
            f"{path} must be an elliptic-curve key; make a new folder with `certs init`."
        )
    return key


def _public(csr: x509.CertificateSigningRequest) -> ec.EllipticCurvePublicKey:
    key = csr.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise InputError(
            "a certificate request must be for an elliptic-curve key; "
            "`tacenda certs init` makes one."
        )
    return key


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - _ALLOWED_SKEW).not_valid_after(
        now + dt.timedelta(days=days)
    )


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> None:
    data = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    # Created unreadable for others from the first byte: a later chmod would leave a gap.
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)


def _guarded(path: Path) -> bytes:
    """A private key's bytes, if nobody but its owner may touch the file."""
    try:
        with open(path, "rb") as file:  # rights and contents of the same file
            facts, data = os.fstat(file.fileno()), file.read()
    except FileNotFoundError:
        raise StateError(
            f"There is no key at {path}; make one with `tacenda certs init`."
        ) from None
    mode = stat.S_IMODE(facts.st_mode)
    # A secret that is mounted into a container belongs to root and can be read
    # by the process's own group only.
    if mode & (0o077 if facts.st_uid == os.geteuid() else 0o037):
        raise StateError(
            f"{path} may be read or written by others than its owner (mode {mode:04o}); "
            "if it may have been read, make new keys in a new folder, "
            f"otherwise `chmod 600 {path}`."
        )
    return data


def _read_key(path: Path) -> object:
    try:
        return serialization.load_pem_private_key(_guarded(path), password=None)
    except (ValueError, TypeError):
        raise StateError(
            f"{path} is not a readable private key without a password; restore it from your backup."
        ) from None


def _read_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except FileNotFoundError:
        raise StateError(
            f"There is no certificate at {path}; send {REQUEST} to who signs, "
            "and put the answer there."
        ) from None
    except ValueError:
        raise StateError(
            f"{path} is not a readable PEM certificate; ask its signer to send it again."
        ) from None


def _read_request(path: str | Path) -> x509.CertificateSigningRequest:
    try:
        csr = x509.load_pem_x509_csr(Path(path).read_bytes())
    except FileNotFoundError:
        raise InputError(
            f"There is no certificate request at {path}; `tacenda certs init` writes one."
        ) from None
    except ValueError:
        raise InputError(
            f"{path} is not a readable certificate request (PEM); ask for it again."
        ) from None
    if not csr.is_signature_valid:
        raise InputError(f"{path} is not signed by the key that it names; ask for it again.")
    return csr
