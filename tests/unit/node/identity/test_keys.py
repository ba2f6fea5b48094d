"""Keys where an organisation has them: RSA, passwords, key stores behind a command, devices."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from node_stage import made_identity
from tacenda.errors import InputError, StateError
from tacenda_node.identity import certificates as identity
from tacenda_node.identity import keys

PASSWORD = b"correct horse"


@pytest.fixture(scope="module")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def _write(path: Path, key: object, password: bytes | None = None) -> Path:
    how = (
        serialization.NoEncryption()
        if password is None
        else serialization.BestAvailableEncryption(password)
    )
    form = serialization.PrivateFormat.PKCS8
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, how))
    os.chmod(path, 0o600)
    return path


def _certificate(folder: Path, key: object, name: str = "Node.North.Example") -> Path:
    """A certificate as another authority would have made it, for a key kept elsewhere."""
    folder.mkdir()
    _write(folder / identity.TLS_KEY, key)
    identity.self_sign(folder, name)
    return folder / identity.CERTIFICATE


def _echo(path: Path) -> list[str]:
    return [sys.executable, "-c", f"print(open({str(path)!r}).read(), end='')"]


def test_an_rsa_key_with_a_password_is_adopted_and_stays_where_it_is(
    tmp_path: Path, rsa_key: rsa.RSAPrivateKey
) -> None:
    certificate = _certificate(tmp_path / "pki", rsa_key)
    stored = _write(tmp_path / "north.key", rsa_key, PASSWORD)
    (tmp_path / "word").write_bytes(PASSWORD + b"\n")
    os.chmod(tmp_path / "word", 0o600)
    tls = {"key": str(stored), "password_file": str(tmp_path / "word")}
    mine = identity.adopt(tmp_path / "id", certificate, certificate, tls)
    assert mine.name == "Node.North.Example"
    assert not (tmp_path / "id" / identity.TLS_KEY).exists()
    pem, _ = mine.tls_pem()
    loaded = serialization.load_pem_private_key(pem, None)
    assert loaded.public_key() == rsa_key.public_key()
    proof = mine.prove(b"challenge")
    assert identity.proof_holds(mine.certificate, b"challenge", proof)
    assert not identity.proof_holds(mine.certificate, b"other", proof)
    os.chmod(tmp_path / "word", 0o644)
    with pytest.raises(StateError, match="word.*mode 0644"):
        identity.Identity.read(tmp_path / "id")


def test_a_missing_wrong_or_needless_password_is_said(
    tmp_path: Path, rsa_key: rsa.RSAPrivateKey
) -> None:
    stored = _write(tmp_path / "a.key", rsa_key, PASSWORD)
    with pytest.raises(StateError, match="has a password; say where it is: password_file"):
        keys.tls_key_of(keys.KeySource(key=stored))
    wrong = [sys.executable, "-c", "print('wrong')"]
    with pytest.raises(StateError, match="is the password right"):
        keys.tls_key_of(keys.KeySource(key=stored, password_command=wrong))
    plain = _write(tmp_path / "b.key", rsa_key)
    with pytest.raises(StateError, match="has no password, and keys.toml names one"):
        keys.tls_key_of(keys.KeySource(key=plain, password_command=wrong))


def test_a_key_store_is_asked_by_a_command_and_asked_again_after_a_rotation(tmp_path: Path) -> None:
    old, new = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    store = _write(tmp_path / "store", old)
    certificate = _certificate(tmp_path / "pki", old)
    tls = {"key_command": _echo(store)}
    mine = identity.adopt(tmp_path / "id", certificate, certificate, tls)
    assert identity.proof_holds(mine.certificate, b"x", mine.prove(b"x"))
    _write(store, new)
    renewed = _certificate(tmp_path / "renewed", new)
    for file in (identity.CERTIFICATE, identity.AUTHORITY):
        (tmp_path / "id" / file).write_bytes(renewed.read_bytes())
    again = identity.Identity.read(tmp_path / "id")
    assert identity.proof_holds(again.certificate, b"x", again.prove(b"x"))


def test_a_device_signs_by_a_command(tmp_path: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    device = _write(tmp_path / "device", key)
    script = (
        "import sys; from cryptography.hazmat.primitives.serialization import "
        f"load_pem_private_key as load; key = load(open({str(device)!r}, 'rb').read(), None); "
        "sys.stdout.buffer.write(key.sign(sys.stdin.buffer.read()))"
    )
    public = base64.b64encode(key.public_key().public_bytes_raw()).decode()
    made_identity(tmp_path / "id", "a", tmp_path / "ca")
    os.remove(tmp_path / "id" / identity.SIGNING_KEY)
    signing = {"sign_command": [sys.executable, "-c", script], "public_key": public}
    keys.write_key_settings(tmp_path / "id", {"signing": signing})
    mine = identity.Identity.read(tmp_path / "id")
    assert identity.text_signed(mine.signing_key, b"text", mine.sign_text(b"text"))


SOFT_TOKEN = "/usr/lib/softhsm/libsofthsm2.so"


@pytest.mark.skipif(
    not (os.path.exists(SOFT_TOKEN) and shutil.which("pkcs11-tool")),
    reason="softhsm2 and opensc are not on this machine",
)
def test_a_pkcs11_token_signs_with_a_key_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tokens").mkdir()
    (tmp_path / "conf").write_text(f"directories.tokendir = {tmp_path}/tokens\n")
    monkeypatch.setenv("SOFTHSM2_CONF", str(tmp_path / "conf"))
    monkeypatch.setenv("TOKEN_PIN", "123456")
    make = ["softhsm2-util", "--init-token", "--free", "--label", "north"]
    subprocess.run([*make, "--so-pin", "123456", "--pin", "123456"], check=True)
    token = ["pkcs11-tool", "--module", SOFT_TOKEN, "--token-label", "north"]
    login = [*token, "--login", "--pin", "env:TOKEN_PIN", "--id", "01"]
    pair = ["--keypairgen", "--key-type", "EC:edwards25519"]
    subprocess.run([*login, *pair], check=True, capture_output=True)
    pem = tmp_path / "public.pem"
    read = [*token, "--read-object", "--type", "pubkey", "--id", "01", "--output-file", str(pem)]
    subprocess.run(read, check=True, capture_output=True)
    public = serialization.load_pem_public_key(pem.read_bytes())
    assert isinstance(public, ed25519.Ed25519PublicKey)
    made_identity(tmp_path / "id", "a", tmp_path / "ca")
    os.remove(tmp_path / "id" / identity.SIGNING_KEY)
    signing = {
        "sign_command": [*login, "--sign", "--mechanism", "EDDSA"],
        "public_key": base64.b64encode(public.public_bytes_raw()).decode(),
    }
    keys.write_key_settings(tmp_path / "id", {"signing": signing})
    mine = identity.Identity.read(tmp_path / "id")
    first = mine.sign_text(b"text")
    assert identity.text_signed(mine.signing_key, b"text", first)
    assert mine.sign_text(b"text") == first  # one text, one signature: a restart sends the same


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["/no/such/program"], "cannot be started"),
        ([sys.executable, "-c", "print('secret'); raise SystemExit(3)"], "ended with code 3"),
        ([sys.executable, "-c", "print('secret')"], "not a readable private key"),
    ],
)
def test_a_command_that_fails_is_named_and_its_output_is_not_shown(
    command: list[str], words: str
) -> None:
    keys.forget_printed()
    with pytest.raises(StateError, match=words) as found:
        keys.tls_key_of(keys.KeySource(key_command=command))
    assert "secret" not in str(found.value)


def test_keys_that_the_tls_library_does_not_take(tmp_path: Path) -> None:
    for key, words in (
        (ed25519.Ed25519PrivateKey.generate(), "elliptic-curve .* or RSA key"),
        (ec.generate_private_key(ec.SECP521R1()), "curve secp521r1"),
        (rsa.generate_private_key(65537, 1024), "1024 bits"),
    ):
        path = _write(tmp_path / "key", key)
        with pytest.raises(StateError, match=words):
            keys.tls_key_of(keys.KeySource(key=path))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[tls]\nkey = "a"\nkey_command = ["b"]', "key and key_command must not both"),
        ('[signing]\nsign_command = ["b"]', "sign_command and public_key belong together"),
        ("[tls]\nkey_command = []", "tls.key_command"),
        ("[tls]\npassword = 'x'", "tls.password"),
        ("[tls", "not valid TOML"),
    ],
)
def test_a_wrong_keys_file_is_named_with_its_field(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / keys.FILE).write_text(text)
    with pytest.raises(InputError, match=words):
        keys.read_key_settings(tmp_path)


def test_a_certificate_with_several_names_needs_a_choice(tmp_path: Path) -> None:
    import trustme

    authority = trustme.CA()
    issued = authority.issue_cert("north.example", "Node.North.Example", "mail.example")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "crt")
    authority.cert_pem.write_to_path(tmp_path / "ca")
    issued.private_key_pem.write_to_path(tmp_path / "key")
    os.chmod(tmp_path / "key", 0o600)
    tls = {"key": str(tmp_path / "key")}
    with pytest.raises(InputError, match="exactly one member"):
        identity.adopt(tmp_path / "id", tmp_path / "crt", tmp_path / "ca", tls)
    with pytest.raises(InputError, match="is not in the certificate"):
        identity.adopt(tmp_path / "id", tmp_path / "crt", tmp_path / "ca", tls, name="south")
    chosen = "Node.North.Example"
    mine = identity.adopt(tmp_path / "id", tmp_path / "crt", tmp_path / "ca", tls, name=chosen)
    assert mine.name == chosen


@pytest.mark.parametrize("mode", [0o602, 0o620, 0o666])
def test_commands_that_others_may_change_are_not_run(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "keys.toml"
    path.write_text('[tls]\npassword_command = ["touch", "/nowhere"]\n', "utf-8")
    path.chmod(mode)
    with pytest.raises(InputError, match="may be changed by other users"):
        keys.read_key_settings(tmp_path)
    path.chmod(0o644)
    assert keys.read_key_settings(tmp_path).has_commands
