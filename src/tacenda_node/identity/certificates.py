"""Who a member is: a TLS key and a signing key made on site, a certificate that others can check,
and a public card.

    certs init      makes a folder with both private keys (mode 0600, they never leave it) and a
                    certificate request
    certs sign      any member, or an existing authority, turns a request into a certificate
    certs show      prints name, dates and fingerprint, and writes the card that goes into the
                    contract

`tacenda consortium join` does without an authority: the member signs its certificate itself, or
brings one of an existing authority with its key (`adopt`, `keys`). TLS keys that are made here are
ECDSA P-256; contracts are signed with Ed25519. The certificate's subject alternative name is the
member's name, and the contract pins the SHA-256 fingerprint of the certificate: an authority that
signs a second certificate for the same name cannot pass for the member.
"""

from __future__ import annotations

import base64
import datetime as dt
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tacenda.errors import InputError, StateError
from tacenda.formats.files import write_bytes
from tacenda_node.identity.keys import (
    SIGNING_KEY,
    TLS_KEY,
    KeySettings,
    TlsKey,
    forget_printed,
    plain_pem,
    read_key_file,
    read_key_settings,
    signed_by_command,
    signing_key_of,
    tls_key_of,
    write_key_settings,
    write_new_key,
)

REQUEST = "request.csr"
CERTIFICATE = "node.crt"
AUTHORITY = "authority.crt"
AUTHORITY_KEY, AUTHORITY_OWN = "authority.key", "authority-own.crt"
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
LONGEST_NAME = 100  # it is a part of file names
_ALLOWED_SKEW = dt.timedelta(minutes=5)
SELF_SIGNED_DAYS = 825
_PSS = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.DIGEST_LENGTH)


def check_name(name: str) -> str:
    """A member's name: what may stand in a certificate as a host name, and in a file's name."""
    labels = name.split(".") if isinstance(name, str) else [""]
    if (
        not all(_LABEL.fullmatch(label) for label in labels)
        or len(name) > LONGEST_NAME
        or (len(labels) > 1 and labels[-1].isdigit())  # TLS would read it as an IP address
    ):
        raise InputError(
            f"name must be letters a to z, digits and inner hyphens, in parts of at most 63 joined "
            f"by dots, {LONGEST_NAME} characters in all, and no IP address, not {name!r}: it "
            "stands in certificates and names files; for example 'hospital-a' or "
            "'Node.North.Example'."
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
    write_new_key(place / TLS_KEY, ec.generate_private_key(ec.SECP256R1()))
    write_new_key(place / SIGNING_KEY, ed25519.Ed25519PrivateKey.generate())
    return request(place, name)


def request(folder: str | Path, name: str, *, new_key: bool = False) -> Path:
    """Write a certificate request for the TLS key; with `new_key` for a fresh one (rotation), the
    old kept beside it."""
    place = Path(folder)
    check_name(name)
    if new_key:
        _own_key_file(place)
        os.replace(place / TLS_KEY, place / f"{TLS_KEY}.old")
        write_new_key(place / TLS_KEY, ec.generate_private_key(ec.SECP256R1()))
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


def self_sign(folder: str | Path, name: str, days: int = SELF_SIGNED_DAYS) -> x509.Certificate:
    """A certificate for the TLS key in `folder` that the member signs itself: the contract holds
    and pins it, so that no authority is needed."""
    place = Path(folder)
    key, subject = tls_key(place), _subject(check_name(name))
    builder = _member_builder(subject, subject, key.public_key(), name, days)
    builder = builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    )
    certificate = builder.sign(key, hashes.SHA256())
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    for file in (AUTHORITY, CERTIFICATE):
        write_bytes(place / file, pem)
    return certificate


def is_self_signed(folder: str | Path) -> bool:
    """Whether the certificate in `folder` is one that its member signed itself."""
    own, issuer = (Path(folder) / name for name in (CERTIFICATE, AUTHORITY))
    return own.exists() and issuer.exists() and own.read_bytes() == issuer.read_bytes()


def adopt(
    folder: str | Path,
    certificate: str | Path,
    authority: str | Path,
    tls: dict[str, object],
    signing: dict[str, object] | None = None,
    name: str | None = None,
) -> Identity:
    """An identity of what the organisation has already: its certificate (with the chain below the
    authority), the authority's certificate, and where the keys are (`keys.KeySource`).

    A signing key is made unless `signing` says where one is.
    """
    place = Path(folder)
    if (place / CERTIFICATE).exists() or (place / TLS_KEY).exists():
        raise StateError(f"{place} holds an identity already; use another folder.")
    found = read_certificate(Path(certificate))
    read_certificate(Path(authority))
    chosen = check_name(name or name_of(found))
    if not is_named(found, chosen):
        raise InputError(
            f"name {chosen!r} is not in the certificate {certificate}, which names "
            f"{', '.join(names_of(found)) or 'nobody'}; choose one of them with --name."
        )
    place.mkdir(parents=True, exist_ok=True)
    os.chmod(place, 0o700)
    if not signing:
        write_new_key(place / SIGNING_KEY, ed25519.Ed25519PrivateKey.generate())
    write_bytes(place / CERTIFICATE, Path(certificate).read_bytes())
    write_bytes(place / AUTHORITY, Path(authority).read_bytes())
    write_key_settings(place, {"name": chosen, "tls": tls, "signing": signing or {}})
    return Identity.read(place)


def make_authority(folder: str | Path, name: str, days: int = 3650) -> Path:
    """A member becomes able to sign: an authority key and its own certificate in `folder`."""
    place = Path(folder)
    check_name(name)
    if (place / AUTHORITY_KEY).exists():
        raise StateError(f"{place} holds an authority already; use it, or another folder.")
    place.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    write_new_key(place / AUTHORITY_KEY, key)
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
    issuer, key = read_certificate(place / AUTHORITY_OWN), read_key_file(place / AUTHORITY_KEY)
    csr = _read_request(csr_path)
    name = check_name(name_of(csr))
    builder = _member_builder(_subject(name), issuer.subject, _public(csr), name, days)
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
    """A member's folder, read: certificate, its issuer, and where both keys are."""

    folder: Path
    certificate: x509.Certificate
    authority_pem: str
    keys: KeySettings

    @classmethod
    def read(cls, folder: str | Path) -> Identity:
        """The identity in `folder`, if certificate and keys belong together."""
        place = Path(folder)
        certificate = read_certificate(place / CERTIFICATE)
        keys = read_key_settings(place)
        own = certificate.public_key()
        if own != tls_key_of(keys.tls).public_key():
            forget_printed()  # a key store may have a newer one
            if own != tls_key_of(keys.tls).public_key():
                raise StateError(
                    f"{place / CERTIFICATE} was not made for the key in "
                    f"{keys.tls.key or 'the key store'}; have "
                    f"{REQUEST} signed (`tacenda certs request`, or --self-signed)."
                )
        if keys.signing.sign_command is None:
            signing_key_of(keys.signing)
        read_certificate(place / AUTHORITY)
        return cls(place, certificate, (place / AUTHORITY).read_text("ascii"), keys)

    @property
    def name(self) -> str:
        """The member's name: the certificate's, or the one of several that keys.toml chooses."""
        return self.keys.name or name_of(self.certificate)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, as 64 hex digits."""
        return fingerprint(self.certificate)

    @property
    def signing_key(self) -> str:
        """The public half of the contract key, base64."""
        if self.keys.signing.public_key is not None:
            return self.keys.signing.public_key
        public = signing_key_of(self.keys.signing).public_key()
        return base64.b64encode(public.public_bytes_raw()).decode()

    def tls_pem(self) -> tuple[bytes, bytes]:
        """(private key, certificate) for the TLS library, in this process only."""
        return plain_pem(tls_key_of(self.keys.tls)), (self.folder / CERTIFICATE).read_bytes()

    def prove(self, challenge: bytes, key: bytes | None = None) -> bytes:
        """A signature of a peer's challenge by the TLS key, or by `key` (PEM)."""
        found = tls_key_of(self.keys.tls) if key is None else load_key(key)
        if isinstance(found, rsa.RSAPrivateKey):
            return found.sign(challenge, _PSS, hashes.SHA256())
        return found.sign(challenge, ec.ECDSA(hashes.SHA256()))

    def sign_text(self, text: bytes) -> str:
        """An Ed25519 signature, base64."""
        return self.signer()(text)

    def signer(self) -> Callable[[bytes], str]:
        """`sign_text` with the key read once, for who signs every message."""
        source = self.keys.signing
        if source.sign_command is not None:
            return lambda text: signed_by_command(source, text)
        key = signing_key_of(source)
        return lambda text: base64.b64encode(key.sign(text)).decode()

    def days_left(self, now: dt.datetime | None = None) -> float:
        """Days until the certificate expires; below 0 once it has."""
        at = now or dt.datetime.now(dt.UTC)
        return (self.certificate.not_valid_after_utc - at).total_seconds() / 86400


def proof_holds(certificate: x509.Certificate, challenge: bytes, proof: bytes) -> bool:
    """Whether the holder of this certificate's key signed the challenge."""
    key = certificate.public_key()
    try:
        if isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(proof, challenge, ec.ECDSA(hashes.SHA256()))
        elif isinstance(key, rsa.RSAPublicKey):
            key.verify(proof, challenge, _PSS, hashes.SHA256())
        else:
            return False
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


def expiry_of(pem: bytes) -> float:
    """When a certificate expires, in seconds since 1970."""
    return x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()


def names_of(document: x509.Certificate | x509.CertificateSigningRequest) -> list[str]:
    """The DNS names in the subject alternative name."""
    try:
        names = document.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return names.get_values_for_type(x509.DNSName)


def is_named(certificate: x509.Certificate, name: str) -> bool:
    """Whether a certificate is for this name; in host names capitals are as small letters."""
    return name.lower() in (known.lower() for known in names_of(certificate))


def name_of(document: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """The one DNS name in the subject alternative name."""
    found = names_of(document)
    if len(found) != 1:
        raise InputError(
            "a certificate must name exactly one member in its subject alternative name, "
            f"not {len(found)}; where one of several is meant, `name` in keys.toml says which."
        )
    return found[0]


def load_key(pem: bytes) -> TlsKey:
    """A TLS key that was read before."""
    key = serialization.load_pem_private_key(pem, password=None)
    assert isinstance(key, (ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey))
    return key


def spoken(fingerprint: str) -> str:
    """The first 80 bits of a fingerprint in groups, to compare by telephone."""
    return " ".join(fingerprint[k : k + 4] for k in range(0, 20, 4))


def tls_key(folder: str | Path) -> TlsKey:
    """The member's TLS key."""
    return tls_key_of(read_key_settings(Path(folder)).tls)


def _own_key_file(place: Path) -> None:
    if read_key_settings(place).tls.key != place / TLS_KEY:
        raise StateError(
            f"The TLS key of {place} is kept elsewhere (keys.toml), so it is renewed there; "
            "leave --new-key out."
        )


def _public(csr: x509.CertificateSigningRequest) -> _PublicKey:
    key = csr.public_key()
    if not isinstance(key, (ec.EllipticCurvePublicKey, rsa.RSAPublicKey)):
        raise InputError(
            "a certificate request must be for an elliptic-curve or RSA key; "
            "`tacenda certs init` makes one."
        )
    return key


_PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey


def _member_builder(
    subject: x509.Name, issuer: x509.Name, key: _PublicKey, name: str, days: int
) -> x509.CertificateBuilder:
    """What a member's certificate says, whoever signs it."""
    if days < 1 or days > 3650:
        raise InputError(f"days must be between 1 and 3650, not {days}.")
    builder = _builder(subject, issuer, key, days)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=False, path_length=None), critical=True
    )
    builder = builder.add_extension(_usage(sign_certificates=False), critical=True)
    builder = builder.add_extension(
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
        critical=False,
    )
    return builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: _PublicKey, days: int
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
    # The common name has room for 64 characters; it is the alternative name that counts
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def read_certificate(path: Path) -> x509.Certificate:
    """The first certificate of a PEM file."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except FileNotFoundError:
        raise StateError(
            f"There is no certificate at {path}; send {REQUEST} to whoever signs certificates, "
            f"and put the answer there."
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
