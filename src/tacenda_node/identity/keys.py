"""Where a member's private keys are: in files of the identity folder, or, by its `keys.toml`, in
files elsewhere, behind a password, or in a key store that a command asks.

    name = "Node.North.Example"                      # where the certificate names several

    [tls]
    key = "/etc/pki/north.key"                       # or key_command = ["vault", "kv", "get", ...]
    password_file = "/run/secrets/north"             # or password_command = ["pass", "north"]

    [signing]
    sign_command = ["sign-with-token", "ed25519"]    # text on its input, the signature on its
    public_key = "base64 of 32 bytes"                # output: a key that never leaves its device

A password or a key is never on a command line. What a command prints stays in memory.
"""

from __future__ import annotations

import base64
import os
import stat
import subprocess
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tacenda.errors import InputError, StateError
from tacenda.formats.files import require_unchanged_by_others, write_bytes
from tacenda.formats.text import from_toml, toml

TLS_KEY = "tls.key"
SIGNING_KEY = "signing.key"
FILE = "keys.toml"
CURVES = ("secp256r1", "secp384r1")
LEAST_RSA_BITS = 2048
SECONDS = 60.0  # for a command: a person may have to touch a token

Command = Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]
TlsKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class KeySource(BaseModel):
    """One private key: `key` a PEM file, or `key_command` that prints one; where it is encrypted,
    `password_file` or `password_command`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    key: Path | None = None
    key_command: Command | None = None
    password_file: Path | None = None
    password_command: Command | None = None

    @model_validator(mode="after")
    def _one_way(self) -> KeySource:
        for one, other in (("key", "key_command"), ("password_file", "password_command")):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise ValueError(f"{one} and {other} must not both be given; remove one of them")
        return self


class SigningSource(KeySource):
    """The Ed25519 key of contracts and messages; sign_command signs what is on its input with a
    key that never leaves its device, whose public half is public_key (base64)."""

    sign_command: Command | None = None
    public_key: Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]{43}=$")] | None = None

    @model_validator(mode="after")
    def _with_public_half(self) -> SigningSource:
        if (self.sign_command is None) != (self.public_key is None):
            raise ValueError("sign_command and public_key belong together; give both or none")
        if self.sign_command is not None and (self.key or self.key_command):
            raise ValueError("sign_command takes the place of key and key_command; remove them")
        return self


class KeySettings(BaseModel):
    """keys.toml as a whole."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str | None = None
    tls: KeySource = KeySource()
    signing: SigningSource = SigningSource()

    @property
    def has_commands(self) -> bool:
        """Whether a command is asked for a key, a password or a signature."""
        sources = (self.tls, self.signing)
        asked = [c for s in sources for c in (s.key_command, s.password_command)]
        return any(command is not None for command in (*asked, self.signing.sign_command))


def read_key_settings(folder: Path) -> KeySettings:
    """keys.toml of an identity folder with its paths made absolute; without one the keys are the
    folder's own files."""
    path, values = folder / FILE, dict[str, Any]()
    if path.exists():
        try:
            values = from_toml(path.read_text("utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{path} is not valid TOML: {error}; correct it there.") from None
    for table in ("tls", "signing"):
        for field in ("key", "password_file"):
            if isinstance(values.get(table), dict) and isinstance(values[table].get(field), str):
                values[table][field] = folder / Path(values[table][field]).expanduser()
    try:
        found = KeySettings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        rule = first["msg"].removeprefix("Value error, ")
        raise InputError(f"{path} field {place}: {rule}; correct it there.") from None
    # Whoever may change its commands can let this process run anything
    require_unchanged_by_others(path, group=found.has_commands)
    own_files = {"tls": TLS_KEY, "signing": SIGNING_KEY}
    changed = {}
    for table, name in own_files.items():
        source = getattr(found, table)
        if source.key is None and source.key_command is None:
            changed[table] = source.model_copy(update={"key": folder / name})
    return found.model_copy(update=changed)


def write_key_settings(folder: Path, values: dict[str, Any]) -> Path:
    """keys.toml in an identity folder, checked."""
    path = write_bytes(folder / FILE, toml(values).encode(), private=True)
    read_key_settings(folder)
    return path


def tls_key_of(source: KeySource) -> TlsKey:
    """The TLS key: elliptic (P-256, P-384) or RSA of at least 2048 bits."""
    key, where = _private_key(source), _where(source)
    if isinstance(key, ec.EllipticCurvePrivateKey):
        if key.curve.name not in CURVES:
            raise StateError(
                f"The TLS key {where} is on the curve {key.curve.name}, which the TLS library "
                f"does not support; use P-256 or P-384, or RSA."
            )
        return key
    if isinstance(key, rsa.RSAPrivateKey):
        if key.key_size < LEAST_RSA_BITS:
            raise StateError(
                f"The TLS key {where} is RSA with {key.key_size} bits and must have at least "
                f"{LEAST_RSA_BITS}; make a new one."
            )
        return key
    raise StateError(
        f"The TLS key {where} must be an elliptic-curve (P-256, P-384) or RSA key, not "
        f"{type(key).__name__.lstrip('_')}; make one with `tacenda certs init`."
    )


def signing_key_of(source: SigningSource) -> ed25519.Ed25519PrivateKey:
    """The Ed25519 key of contracts and messages."""
    key = _private_key(source)
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise StateError(
            f"{_where(source)} must be an Ed25519 key, which signs contracts and messages; "
            "`tacenda certs init` makes one in a new folder."
        )
    return key


def signed_by_command(source: SigningSource, text: bytes) -> str:
    """The signature (base64) that sign_command makes: 64 bytes as they are, or in base64."""
    assert source.sign_command is not None
    made = printed_by(tuple(source.sign_command), text)
    if len(made) != 64:
        try:
            made = base64.b64decode(made.strip(), validate=True)
        except ValueError:
            made = b""
    if len(made) != 64:
        raise StateError(
            f"sign_command {source.sign_command[0]!r} must print an Ed25519 signature, 64 bytes "
            "or their base64, and printed something else; try it by hand."
        )
    return base64.b64encode(made).decode()


def plain_pem(key: Any) -> bytes:
    """A private key as PEM without a password, for the TLS library in this process only."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def write_new_key(path: Path, key: Any) -> None:
    """A new private key; the file may be read by nobody else from its first byte: a later chmod
    would leave a gap."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(plain_pem(key))


def forget_printed() -> None:
    """Ask the commands again, for instance after a key was rotated in the key store."""
    _remembered.cache_clear()
    _loaded.cache_clear()


def guarded(path: Path) -> bytes:
    """A secret file's bytes, if nobody but its owner may touch the file."""
    try:
        with open(path, "rb") as file:  # rights and contents of the same file
            info, data = os.fstat(file.fileno()), file.read()
    except FileNotFoundError:
        raise StateError(
            f"There is no key at {path}; make one with `tacenda certs init`."
        ) from None
    except PermissionError:
        raise StateError(
            f"{path} cannot be read by this user; `chown` it to the user who runs the node."
        ) from None
    mode = stat.S_IMODE(info.st_mode)
    # A secret that is mounted into a container belongs to root and can be read
    # by the process's own group only.
    if mode & (0o077 if info.st_uid == os.geteuid() else 0o037):
        raise StateError(
            f"{path} may be read or written by others than its owner (mode {mode:04o}); "
            "if it may have been read, make new keys in a new folder, "
            f"otherwise `chmod 600 {path}`."
        )
    return data


def read_key_file(path: Path) -> Any:
    """A private key that is stored in a file without a password."""
    return _private_key(KeySource(key=path))


def printed_by(command: tuple[str, ...], text: bytes | None = None) -> bytes:
    """What a command prints; its words and output never get into a message."""
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, timeout=SECONDS, check=False
        )
    except OSError as failed:
        raise StateError(
            f"The command {command[0]!r} of {FILE} cannot be started: {failed.strerror}; "
            "install it, or correct its path."
        ) from None
    except subprocess.TimeoutExpired:
        raise StateError(
            f"The command {command[0]!r} of {FILE} did not end within {SECONDS:g} s; "
            "is the key store reachable?"
        ) from None
    if done.returncode or not done.stdout:
        raise StateError(
            f"The command {command[0]!r} of {FILE} ended with code {done.returncode} and "
            f"{len(done.stdout)} bytes of output; try it by hand."
        )
    return done.stdout


@lru_cache(maxsize=16)
def _loaded(data: bytes, password: bytes | None) -> Any:
    """A password is made slow to try on purpose; connections must not wait for it each time."""
    return serialization.load_pem_private_key(data, password=password)


@lru_cache(maxsize=16)
def _remembered(command: tuple[str, ...]) -> bytes:
    return printed_by(command)


def _private_key(source: KeySource) -> Any:
    if source.key_command is not None:
        data = _remembered(tuple(source.key_command))
    else:
        assert source.key is not None
        data = guarded(source.key)
    password = _password(source)
    where = _where(source)
    try:
        return _loaded(data, password)
    except TypeError:  # a password is missing, or given without need
        raise StateError(
            f"The private key {where} has "
            + (
                f"a password; say where it is: password_file or password_command in {FILE}."
                if password is None
                else f"no password, and {FILE} names one; remove it there."
            )
        ) from None
    except ValueError:
        wrong = "is the password right?" if password is not None else "restore it from your backup."
        raise StateError(f"{where} is not a readable private key (PEM); {wrong}") from None


def _password(source: KeySource) -> bytes | None:
    if source.password_command is not None:
        return _remembered(tuple(source.password_command)).rstrip(b"\r\n")
    if source.password_file is not None:
        return guarded(source.password_file).rstrip(b"\r\n")
    return None


def _where(source: KeySource) -> str:
    if source.key_command is not None:
        return f"of the command {source.key_command[0]!r}"
    return str(source.key)
