"""A run whose members bring what they have: a certificate signed by its own key, an RSA key behind
a password with a certificate of several names, a P-384 key from a key store."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from node_stage import Crowd, small_contract
from tacenda_node.identity import certificates, contract_files
from tacenda_node.identity.contract import Contract
from tacenda_node.setup.doctor import examine

NAMES = ("m0", "Node.East.Example", "South-2")


def _self_signed(home: Path, name: str) -> certificates.Identity:
    certificates.init(home, name)
    certificates.self_sign(home, name)
    return certificates.Identity.read(home)


def _rsa_of_an_authority(home: Path, name: str, place: Path) -> certificates.Identity:
    authority = trustme.CA()
    issued = authority.issue_cert("east.example", name, key_type=trustme.KeyType.RSA)
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    assert isinstance(key, rsa.RSAPrivateKey)
    place.mkdir()
    (place / "key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.BestAvailableEncryption(b"word"),
        )
    )
    (place / "word").write_text("word\n")
    for file in ("key", "word"):
        os.chmod(place / file, 0o600)
    issued.cert_chain_pems[0].write_to_path(place / "crt")
    authority.cert_pem.write_to_path(place / "ca")
    tls = {"key": str(place / "key"), "password_file": str(place / "word")}
    return certificates.adopt(home, place / "crt", place / "ca", tls, name=name)


def _from_a_key_store(home: Path, name: str, place: Path) -> certificates.Identity:
    place.mkdir()
    key = ec.generate_private_key(ec.SECP384R1())
    (place / "tls.key").write_bytes(certificates.plain_pem(key))
    os.chmod(place / "tls.key", 0o600)
    certificates.self_sign(place, name)
    command = [sys.executable, "-c", f"print(open({str(place / 'tls.key')!r}).read())"]
    crt = place / certificates.CERTIFICATE
    return certificates.adopt(home, crt, crt, {"key_command": command})


@pytest.mark.slow
def test_members_bring_the_keys_that_they_have(tmp_path: Path) -> None:
    plain = small_contract(3, rounds=3).to_plain()
    for member, name in zip(plain["members"], NAMES, strict=True):
        member["name"] = name
    plain["edges"] = contract_files.named_edges("ring", list(NAMES))
    crowd = Crowd(tmp_path / "crowd", Contract.build(plain))
    homes = [crowd.folder(name) / "identity" for name in NAMES]
    for home in homes:
        shutil.rmtree(home)
    people = [
        _self_signed(homes[0], NAMES[0]),
        _rsa_of_an_authority(homes[1], NAMES[1], tmp_path / "rsa"),
        _from_a_key_store(homes[2], NAMES[2], tmp_path / "store"),
    ]
    staged = crowd.stage.contract.to_plain()
    staged["authorities"] = [mine.authority_pem for mine in people]
    for member, mine in zip(staged["members"], people, strict=True):
        member |= {"fingerprint": mine.fingerprint, "signing_key": mine.signing_key}
    crowd.stage.contract = Contract.build(staged)
    contract_files.write(crowd.stage.contract, crowd.stage.contract_path)
    contract_files.signatures_path(crowd.stage.contract_path).unlink()
    for mine in people:
        contract_files.sign(crowd.stage.contract_path, mine)
    crowd.start(*NAMES[:2])
    path = crowd.stage.contract_path
    for _ in range(80):
        findings = examine(path, homes[2], None, tmp_path / "s", tmp_path / "l.sqlite")
        peers = [f for f in findings if f.name == "peer"]
        if all(f.ok for f in peers):
            break
        time.sleep(0.25)
    assert [f.ok for f in peers] == [True, True], peers
    crowd.start(NAMES[2])
    models = crowd.finish()
    assert np.isfinite(models).all()
