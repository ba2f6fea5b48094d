"""From an invitation to a signed contract: what was agreed is what is signed, and whatever was
changed on the way is refused by name."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import trustme

from node_stage import small_schema
from tacenda.data.random_records import write_random_records
from tacenda.data.schema import Schema
from tacenda.errors import InputError, PrivacyError, StateError
from tacenda.formats.text import toml
from tacenda_node.identity import contract_files
from tacenda_node.identity.contract import Contract
from tacenda_node.membership.amendments import next_run
from tacenda_node.operate.policy import PolicyFile
from tacenda_node.operate.settings import read_settings
from tacenda_node.setup import consortium, drafting
from tacenda_node.setup import kit as kits
from tacenda_node.setup.consortium import Site
from tacenda_node.setup.kit import write_kit
from tacenda_node.state.accounts import default_ledger

SIZES = {"north": 300, "Node.East": 200, "south": 250}
TERMS = {"title": "A study: 2", "privacy": {"epsilon": 2.0, "delta": 1e-6}, "algorithm": "auto"}


def _site(home: Path, name: str, schema: Schema, **changes: Any) -> Site:
    home.mkdir(parents=True, exist_ok=True)
    data = write_random_records(schema, SIZES[name], 1, home / "records.csv")
    port = 17000 + SIZES[name]
    values = {"data": data, "address": f"localhost:{port}", "settings": {"budget": 3.0}}
    return Site(**{**values, **changes})


class Office:
    """Three organisations, each with its folder."""

    def __init__(self, place: Path, terms: dict[str, Any] | None = None) -> None:
        self.homes = {name: place / name for name in SIZES}
        self.schema = small_schema()
        self.terms = terms or TERMS
        home = self.homes["north"]
        self.invitation = consortium.new(
            home, "north", ["Node.East", "south"], self.terms, self.schema, self.site("north")
        )

    def site(self, name: str, **changes: Any) -> Site:
        return _site(self.homes[name], name, self.schema, **changes)

    def join(self, name: str, **changes: Any) -> Path:
        return consortium.join(self.invitation, self.homes[name], name, self.site(name, **changes))

    def draft(self, *cards: Path) -> Path:
        consortium.draft(self.homes["north"], list(cards))
        return self.homes["north"] / "contract.toml"


@pytest.fixture(scope="module")
def drafted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Office, Path]:
    office = Office(tmp_path_factory.mktemp("office"))
    return office, office.draft(office.join("south", listens=False), office.join("Node.East"))


def test_two_exchanges_lead_to_a_contract_that_all_have_signed(
    drafted: tuple[Office, Path], tmp_path: Path
) -> None:
    office, path = drafted
    contract = contract_files.read(path)
    assert contract.names == list(SIZES)  # in the invitation's order, whatever the cards' order
    assert [m.size for m in contract.members] == list(SIZES.values())
    assert len(contract.authorities) == 3  # each member's own certificate
    assert not contract.member("south").listens
    assert contract.algorithm.name == "treegd"
    assert contract_files.missing_signatures(path) == ["Node.East", "south"]
    sent = tmp_path / "sent.toml"
    shutil.copy(path, sent)
    lines = contract_files.signatures_path(path).read_text().splitlines()
    for name in ("Node.East", "south"):
        own = consortium.accept(office.homes[name], sent)
        lines += contract_files.signatures_path(own).read_text().splitlines()
        settings = read_settings(office.homes[name])
        assert settings.contract == own
        assert settings.budget == 3.0
        assert settings.data == office.homes[name] / "records.csv"
    contract_files.signatures_path(path).write_text("\n".join(lines) + "\n")
    assert contract_files.missing_signatures(path) == []


def test_a_member_that_was_not_invited_comes_in_by_the_next_run(
    drafted: tuple[Office, Path], tmp_path: Path
) -> None:
    office, path = drafted
    home = tmp_path / "west"
    data = write_random_records(office.schema, 220, 4, tmp_path / "west.csv")
    site = Site(data, "localhost:17004", settings={"budget": 3.0})
    with pytest.raises(InputError, match="'west' is not one of .* With --later"):
        consortium.join(office.invitation, home, "west", site)
    with pytest.raises(InputError, match="'south' is one of"):
        consortium.join(office.invitation, home, "south", site, later=True)
    card = drafting.read_card(consortium.join(office.invitation, home, "west", site, later=True))
    assert consortium.trial_contract(home).names[-1] == "west"
    base, other = contract_files.read(path), {**card, "fingerprint": "0" * 64}
    for title, given, words in (("false", other, "your own card"), ("A study: 3", card, "")):
        text = next_run(base, title, [given], [])
        sent = contract_files.write(text, tmp_path / f"{title}.toml")
        if words:
            with pytest.raises(PrivacyError, match=words):
                consortium.accept(home, sent)
        else:
            own = consortium.accept(home, sent)
            assert contract_files.missing_signatures(own) == list(SIZES)
    schema = text.to_plain() | {"schema_hash": "0" * 64}
    with pytest.raises(PrivacyError, match="schema_hash is not that of the invitation"):
        consortium.review(home, Contract.build(schema))


def _changed(path: Path, target: Path, change: Any) -> Path:
    values = contract_files.read(path).to_plain()
    change(values)
    return contract_files.write(Contract.build(values), target)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda v: v["privacy"].update(epsilon=4.0), r"differs in privacy\.epsilon"),
        (lambda v: v["privacy"].update(coalition=0), r"differs in privacy\.coalition"),
        (lambda v: v.update(title="Other"), "differs in title"),
        (lambda v: v.update(schema_hash="0" * 64), "differs in schema_hash"),
        (lambda v: v["members"][1].update(size=7), r"members\.Node\.East\.size.*your own card"),
        (lambda v: v["members"][0].update(fingerprint="0" * 64), "organiser's card"),
        (lambda v: v["absence"].update(policy="continue"), r"absence\.policy"),
        (lambda v: v["edges"].pop(), "differs in edges"),
    ],
)
def test_a_contract_that_is_not_what_was_invited_to_is_refused(
    drafted: tuple[Office, Path], tmp_path: Path, change: Any, words: str
) -> None:
    office, path = drafted
    other = _changed(path, tmp_path / "other.toml", change)
    with pytest.raises(PrivacyError, match=words):
        consortium.review(office.homes["Node.East"], contract_files.read(other))


def test_a_member_who_was_not_invited_is_seen(drafted: tuple[Office, Path], tmp_path: Path) -> None:
    office, path = drafted

    def stranger(values: dict[str, Any]) -> None:
        values["members"][2]["name"] = "mallory"
        values["edges"] = [["north", "Node.East"], ["Node.East", "mallory"]]

    other = _changed(path, tmp_path / "other.toml", stranger)
    with pytest.raises(PrivacyError, match="mallory were not in the invitation"):
        consortium.review(office.homes["Node.East"], contract_files.read(other))


def test_an_invitation_that_was_changed_on_its_way_is_refused(
    drafted: tuple[Office, Path], tmp_path: Path
) -> None:
    office, _ = drafted
    values = tomllib.loads(office.invitation.read_text())
    values["terms"]["privacy"]["epsilon"] = 9.0
    (tmp_path / "x.invite").write_text(toml(values))
    with pytest.raises(InputError, match="was changed after the organiser signed"):
        consortium.read_invitation(tmp_path / "x.invite")
    (tmp_path / "y.invite").write_text("format = 1")
    with pytest.raises(InputError, match="not an invitation"):
        consortium.read_invitation(tmp_path / "y.invite")
    good = tomllib.loads(office.invitation.read_text())
    for part, value in (
        ("members", [1, 2]),
        ("members", ["../up", "north"]),
        ("organiser", {"name": "north"}),
        ("schema", 3),
        ("schema", "[[["),
        ("terms", 3),
    ):
        (tmp_path / "z.invite").write_text(toml({**good, part: value}))
        with pytest.raises(InputError):
            consortium.read_invitation(tmp_path / "z.invite")


def test_cards_that_do_not_belong_are_named(drafted: tuple[Office, Path], tmp_path: Path) -> None:
    office, _ = drafted
    home = tmp_path / "north"
    shutil.copytree(office.homes["north"], home)
    east = office.homes["Node.East"] / "Node.East.card"
    with pytest.raises(StateError, match="exists"):
        consortium.draft(home, [east])
    (home / "contract.toml").unlink()
    with pytest.raises(InputError, match="cards of south are missing"):
        consortium.draft(home, [east])
    card = drafting.read_card(east)
    for changes, words in (
        ({"name": "mallory"}, "'mallory', who is not invited"),
        ({"invitation": "0" * 64}, "answers another invitation"),
        ({"name": "north"}, "two different cards of north"),
    ):
        (tmp_path / "card").write_text(toml({**card, **changes}))
        with pytest.raises(InputError, match=words):
            consortium.draft(home, [tmp_path / "card"])


def test_nothing_is_left_behind_where_records_do_not_fit(
    drafted: tuple[Office, Path], tmp_path: Path
) -> None:
    office, _ = drafted
    data = tmp_path / "records.csv"
    data.write_text("x0,x1,y\n0.1,0.2,no\n")
    site = Site(data, "localhost:17001")
    with pytest.raises(InputError, match="x2"):
        consortium.join(office.invitation, tmp_path / "home", "south", site)
    assert not (tmp_path / "home").exists()
    good = office.site("south", size=7)
    with pytest.raises(InputError, match="--size is 7"):
        consortium.join(office.invitation, tmp_path / "home", "south", good)
    for name, words in (("west", "not one of the invited"), ("north", "has joined already")):
        with pytest.raises(InputError, match=words):
            consortium.join(office.invitation, tmp_path / "home", name, good)
    with pytest.raises(StateError, match="holds a member's node.toml already"):
        office.join("south")


def test_terms_that_no_node_would_run_are_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    schema, home = small_schema(), tmp_path / "north"
    site = _site(home, "north", schema)
    terms = {**TERMS, "algorithm": {"name": "dvp"}, "rounds": 5}
    with pytest.raises(PrivacyError, match="floating_point_noise"):
        consortium.new(home, "north", ["east", "south"], terms, schema, site)
    assert [path.name for path in home.iterdir()] == ["records.csv"]
    with pytest.raises(InputError, match="at least one other"):
        consortium.new(home, "north", ["north"], TERMS, schema, site)


def test_an_organisation_brings_its_own_certificate_or_identity(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("north", "www.north.example")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "crt")
    authority.cert_pem.write_to_path(tmp_path / "ca")
    issued.private_key_pem.write_to_path(tmp_path / "key")
    (tmp_path / "key").chmod(0o600)
    brought = {
        "certificate": tmp_path / "crt",
        "authority": tmp_path / "ca",
        "tls": {"key": str(tmp_path / "key")},
    }
    schema, home = small_schema(), tmp_path / "home"
    site = _site(home, "north", schema, brought=brought)
    consortium.new(home, "north", ["south"], TERMS, schema, site)
    mine = consortium.identity_of(home)
    assert mine.authority_pem.encode() == authority.cert_pem.bytes()
    assert not (home / "identity" / "tls.key").exists()  # it stays where the organisation has it
    card = drafting.read_card(home / "north.card")
    assert card["fingerprint"] == mine.fingerprint
    second = tmp_path / "second"
    again = _site(second, "north", schema, identity=home / "identity")
    consortium.new(second, "north", ["south"], TERMS, schema, again)
    assert consortium.identity_of(second).fingerprint == mine.fingerprint
    assert read_settings(second).identity == home / "identity"
    wrong = _site(tmp_path / "third", "south", schema, identity=home / "identity")
    with pytest.raises(InputError, match="is of north, not of south"):
        consortium.new(tmp_path / "third", "south", ["north"], TERMS, schema, wrong)


def test_a_secret_number_of_records_is_never_counted(tmp_path: Path) -> None:
    privacy = {"epsilon": 2.0, "delta": 1e-6, "adjacency": "add-remove"}
    home, schema = tmp_path / "north", small_schema()
    site = _site(home, "north", schema)
    with pytest.raises(InputError, match="--size must be given under add-remove"):
        consortium.new(home, "north", ["east"], {**TERMS, "privacy": privacy}, schema, site)


def test_the_kit_names_paths_ports_and_neighbours(drafted: tuple[Office, Path]) -> None:
    office, _ = drafted
    home = office.homes["north"]
    kit = write_kit(home)
    unit = (kit / "tacenda-north.service").read_text()
    assert f'-m tacenda node serve "{home.resolve()}"' in unit
    assert "NUMBA_CACHE_DIR" in unit
    assert "User=root" not in unit
    user_unit = (kit / "tacenda-north.user.service").read_text()
    assert f'-m tacenda node serve "{home.resolve()}"' in user_unit
    readme = (kit / "README.md").read_text()
    assert "let TCP port 17300 in from" in readme
    assert "Node.East at localhost port 17200" in readme
    assert "tcp dport 17300" in (kit / "firewall.nft").read_text()
    assert "ok   contract" in (kit / "doctor.txt").read_text()
    south = write_kit(office.homes["south"])
    assert "no incoming port is needed" in (south / "README.md").read_text()
    assert "ports:" not in (south / "compose.yaml").read_text()
    for file in (*kit.iterdir(), *south.iterdir()):
        assert "PRIVATE KEY" not in file.read_text()


@pytest.mark.parametrize("place", ["/srv/ledger", "/home/anna/ledger", "/root/ledger"])
def test_the_unit_reaches_what_lies_in_a_home(
    drafted: tuple[Office, Path], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it lies: the ledger's folder is often in the home of who made the kit."""
    monkeypatch.setattr(kits, "default_ledger", lambda name: Path(place) / f"{name}.sqlite")
    monkeypatch.setattr(kits, "_make", lambda *folders: None)  # not in this machine's homes
    monkeypatch.setattr(kits.sys, "prefix", "/opt/tacenda")
    unit = (write_kit(drafted[0].homes["north"]) / "tacenda-north.service").read_text()
    at_home = place != "/srv/ledger"
    assert f"ProtectHome={'read-only' if at_home else 'yes'}\n" in unit
    assert f'"{place}"' in unit.partition("ReadWritePaths=")[2].partition("\n")[0]
    told = f"{place} is root's own" in unit
    assert told == (place == "/root/ledger" and os.geteuid() == 0)


def test_units_and_containers_find_the_ledger_of_who_made_the_kit(
    drafted: tuple[Office, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Run by another user, a node would otherwise begin a second ledger, with a budget unspent."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    kit = write_kit(drafted[0].homes["north"])
    for name in ("tacenda-north.service", "tacenda-north.user.service", "compose.yaml"):
        found = re.search(r"XDG_DATA_HOME[=:] ?\"?([^\"}\n]+)", (kit / name).read_text())
        assert found is not None, name
        monkeypatch.setenv("XDG_DATA_HOME", found[1])
        assert default_ledger("north") == tmp_path / "share" / "tacenda/ledgers/north.sqlite"
    unit = (kit / "tacenda-north.service").read_text()
    for line in re.findall(r"^Read(?:Write|Only)Paths=(.*)$", unit, re.M):
        assert all(Path(place).exists() for place in shlex.split(line)), "systemd would not start"


def test_the_units_close_what_a_node_does_not_need_and_do_not_give_up(
    drafted: tuple[Office, Path],
) -> None:
    kit = write_kit(drafted[0].homes["north"])
    unit = set((kit / "tacenda-north.service").read_text().splitlines())
    user = set((kit / "tacenda-north.user.service").read_text().splitlines())
    both = {"NoNewPrivileges=yes", "UMask=0077", "StartLimitIntervalSec=0", "Restart=on-failure"}
    both |= {"RestartPreventExitStatus=2 3 4", "SuccessExitStatus=130"}
    assert both <= unit and both <= user
    closed = {"ProtectSystem=strict", "PrivateTmp=yes", "PrivateDevices=yes", "PrivateUsers=yes"}
    closed |= {"CapabilityBoundingSet=", "SystemCallFilter=~@privileged @resources"}
    assert closed <= unit
    assert "CacheDirectory=tacenda-north" in unit  # kernels need a writable place


@pytest.mark.parametrize(
    ("program", "words", "file"),
    [
        ("systemd-analyze", ["verify"], "tacenda-north.service"),
        ("systemd-analyze", ["verify", "--user"], "tacenda-north.user.service"),
        ("nft", ["--check", "--file"], "firewall.nft"),
    ],
)
def test_the_systems_own_programs_understand_the_kit(
    drafted: tuple[Office, Path],
    program: str,
    words: list[str],
    file: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # without it systemd cannot look at all
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not on this machine")
    kit = write_kit(drafted[0].homes["north"])
    done = subprocess.run(
        [program, *words, str(kit / file)], capture_output=True, text=True, check=False
    )
    said = [line for line in done.stderr.splitlines() if "tacenda-north" in line or "nft" in line]
    if program == "nft" and "Operation not permitted" in done.stderr:
        pytest.skip("nft needs more rights here")
    assert not said and not done.returncode, done.stderr


BOMBS = {
    "deep arrays": "x = " + "[" * 5000 + "]" * 5000,
    "deep tables": "x = " + "{a=" * 3000 + "1" + "}" * 3000,
    "dotted": "a." * 1000 + "b = 1",
    "long number": "x = " + "9" * 5000,
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_hostile_files_end_in_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file.toml"
    path.write_text(text, "utf-8")
    for read in (
        consortium.read_invitation,
        drafting.read_card,
        contract_files.read,
        PolicyFile.read,
        read_settings,
        Schema.read,
    ):
        with pytest.raises(InputError):
            read(path)


def test_no_invitation_can_rewrite_the_readers_terminal(tmp_path: Path) -> None:
    office = Office(tmp_path)
    values = tomllib.loads(office.invitation.read_text("utf-8"))
    values["title"] += "\x1b[2K"
    office.invitation.write_text(toml(values), "utf-8")
    with pytest.raises(InputError, match="field title: it must have printable"):
        consortium.read_invitation(office.invitation)
    values["title"] = "fine"
    values["organiser"]["name"] = "north\x1b[2K"
    office.invitation.write_text(toml(values), "utf-8")
    with pytest.raises(InputError, match="field name: name must be letters"):
        consortium.read_invitation(office.invitation)
