"""Keys and certificates: made on site, signed by request, refused when they do not fit."""

from __future__ import annotations

import datetime as dt
import os
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from typer.testing import CliRunner

from node_stage import made_identity
from tacenda.errors import InputError, StateError
from tacenda_node.commands.certs import certs_app
from tacenda_node.identity import certificates as identity


def test_keys_are_made_on_site_and_unreadable_for_others(tmp_path: Path) -> None:
    request = identity.init(tmp_path / "a", "hospital-a")
    for name in (identity.TLS_KEY, identity.SIGNING_KEY):
        assert stat.S_IMODE(os.stat(tmp_path / "a" / name).st_mode) == 0o600
    assert b"PRIVATE" not in request.read_bytes()
    with pytest.raises(StateError, match="holds keys already"):
        identity.init(tmp_path / "a", "hospital-a")


@pytest.mark.parametrize("name", [identity.TLS_KEY, identity.SIGNING_KEY])
@pytest.mark.parametrize("mode", [0o602, 0o620, 0o604, 0o640, 0o666, 0o601])
def test_a_key_that_others_may_touch_is_refused(tmp_path: Path, name: str, mode: int) -> None:
    mine = made_identity(tmp_path / "a", "hospital-a", tmp_path / "ca")
    os.chmod(tmp_path / "a" / name, mode)
    with pytest.raises(StateError, match=f"{name}.*mode 0{mode:o}.*chmod 600"):
        mine.tls_pem() if name == identity.TLS_KEY else mine.signer()
    with pytest.raises(StateError, match=name):
        identity.Identity.read(tmp_path / "a")


def test_a_signed_request_names_the_member_and_has_its_fingerprint(tmp_path: Path) -> None:
    mine = made_identity(tmp_path / "a", "hospital-a", tmp_path / "ca", days=30)
    assert mine.name == "hospital-a"
    assert mine.fingerprint == mine.certificate.fingerprint(hashes.SHA256()).hex()
    assert 29.9 < mine.days_left() < 30.1
    assert mine.days_left(dt.datetime.now(dt.UTC) + dt.timedelta(days=31)) < 0
    issuer = x509.load_pem_x509_certificate(mine.authority_pem.encode())
    mine.certificate.verify_directly_issued_by(issuer)
    usage = mine.certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert not usage.ca


def test_proofs_hold_for_the_right_key_and_challenge_only(tmp_path: Path) -> None:
    a, b = (made_identity(tmp_path / n, n, tmp_path / "ca") for n in ("a", "b"))
    proof = a.prove(b"challenge")
    assert identity.proof_holds(a.certificate, b"challenge", proof)
    assert not identity.proof_holds(a.certificate, b"another", proof)
    assert not identity.proof_holds(b.certificate, b"challenge", proof)
    signature = a.sign_text(b"text")
    assert identity.text_signed(a.signing_key, b"text", signature)
    assert not identity.text_signed(b.signing_key, b"text", signature)
    assert not identity.text_signed(a.signing_key, b"text", "not base64!")


def test_rotation_makes_a_new_key_and_keeps_the_old(tmp_path: Path) -> None:
    before = made_identity(tmp_path / "a", "a", tmp_path / "ca")
    old = (tmp_path / "a" / identity.TLS_KEY).read_bytes()
    request = identity.request(tmp_path / "a", "a", new_key=True)
    assert (tmp_path / "a" / f"{identity.TLS_KEY}.old").read_bytes() == old
    with pytest.raises(StateError, match="was not made for the key"):
        identity.Identity.read(tmp_path / "a")
    identity.sign(tmp_path / "ca", request, tmp_path / "a")
    after = identity.Identity.read(tmp_path / "a")
    assert after.fingerprint != before.fingerprint
    assert after.signing_key == before.signing_key


def test_a_request_is_signed_as_the_present_certificate_was(tmp_path: Path) -> None:
    """A member that signed its own certificate needs no flag to renew it."""
    alone, other = tmp_path / "alone", tmp_path / "other"
    identity.init(alone, "a")
    assert not identity.is_self_signed(alone)
    identity.self_sign(alone, "a")
    before = identity.Identity.read(alone)
    signed = made_identity(other, "b", tmp_path / "ca")
    renew = ["--new-key", "--identity"]
    said = CliRunner().invoke(certs_app, ["request", "a", *renew, str(alone)])
    assert said.exit_code == 0 and "certs show" in said.output
    after = identity.Identity.read(alone)
    assert after.fingerprint != before.fingerprint and after.signing_key == before.signing_key
    asked = CliRunner().invoke(certs_app, ["request", "b", "-i", str(other)])
    assert "whoever signs" in asked.output
    assert identity.Identity.read(other).fingerprint == signed.fingerprint


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a_b",
        "-a",
        "a-",
        "a" * 64,
        "a b",
        "ä",
        "a..b",
        ".a",
        "a.",
        "../a",
        "a/b",
        "10.0.0.1",
        "node.7",
        ".".join(["abcdefghi"] * 11),
    ],
)
def test_names_that_cannot_stand_in_a_certificate(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="name must be"):
        identity.init(tmp_path / "a", name)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    made_identity(tmp_path / "a", "a", tmp_path / "ca")
    (tmp_path / "a" / identity.CERTIFICATE).write_text("nonsense")
    with pytest.raises(StateError, match="not a readable PEM"):
        identity.Identity.read(tmp_path / "a")
    (tmp_path / "bad.csr").write_text("nonsense")
    with pytest.raises(InputError, match="not a readable certificate request"):
        identity.sign(tmp_path / "ca", tmp_path / "bad.csr", tmp_path / "out")
    with pytest.raises(InputError, match="no certificate request"):
        identity.sign(tmp_path / "ca", tmp_path / "none.csr", tmp_path / "out")


@pytest.mark.parametrize("name", ["a", "7", "Hospital", "Node.North.Example", "x--1.org"])
def test_names_of_existing_certificates_are_taken(tmp_path: Path, name: str) -> None:
    identity.init(tmp_path / "a", name)
    identity.self_sign(tmp_path / "a", name, days=2)
    mine = identity.Identity.read(tmp_path / "a")
    assert mine.name == name
    assert mine.authority_pem.encode() == (tmp_path / "a" / identity.CERTIFICATE).read_bytes()
    assert len(identity.spoken(mine.fingerprint)) == 24
