"""What an officer allows: each line forbids what it says and nothing else, exceptions hold for one
text and one line, and hours are those of the clock."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node_stage import made_identity, small_contract
from tacenda.errors import InputError, PrivacyError
from tacenda_node.identity import certificates
from tacenda_node.operate.policy import Hours, PolicyFile, approvals_folder, approve, require

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)  # a Monday


def _policy(folder: Path, text: str) -> PolicyFile:
    path = folder / "policy.toml"
    path.write_text(text, "utf-8")
    return PolicyFile.read(path)


LINES: list[tuple[str, dict[str, Any], str]] = [
    ("epsilon = 4.9", {}, "epsilon of a run may be at most 4.9, and it is 5"),
    ("delta = 1e-6", {}, "delta of a run may be at most 1e-06, and it is 1e-05"),
    ("rounds = 4", {}, "the number of rounds may be at most 4, and it is 5"),
    ('adjacency = ["add-remove"]', {}, "the contract has replace-one"),
    ('algorithms = ["treegd"]', {}, "must be among treegd, and the contract has ipadmm"),
    ("preparations = []", {"prepare": {"name": "whitening"}}, "must be among none"),
    (f'schemas = ["{"0" * 64}"]', {}, "the schema's hash must be among"),
    ('members = ["m0", "m1"]', {}, "the contract has m2"),
    (
        "coalition = 2",
        {"privacy": {"epsilon": 5.0, "delta": 1e-5, "coalition": 1}},
        "2 curious members or more, and the contract's holds against 1",
    ),
    (
        'coalition = "everybody"',
        {"privacy": {"epsilon": 5.0, "delta": 1e-5, "coalition": 7}},
        "all other members together",
    ),
    (
        "floating_point_noise = false",
        {"privacy": {"epsilon": 5.0, "delta": 1e-5, "floating_point_noise": True}},
        "the contract accepts it",
    ),
]
ALLOWED = (
    *("epsilon = 5.0", "delta = 1e-5", "rounds = 5", 'adjacency = ["replace-one"]'),
    *('algorithms = ["IP-ADMM", "treegd"]', "preparations = []", "coalition = 3"),
    *('coalition = "everybody"', "floating_point_noise = false", 'members = ["m2", "m1", "m0"]'),
    *("", 'officer = "A"', "total_epsilon = 0.1"),
)


@pytest.mark.parametrize(("line", "changes", "words"), LINES)
def test_each_line_forbids_what_it_says_and_names_itself(
    tmp_path: Path, line: str, changes: dict[str, Any], words: str
) -> None:
    policy = _policy(tmp_path, f"# a comment\n\n{line}   # why\n")
    contract = small_contract(**changes)
    [found] = policy.forbids(contract)
    assert (found.line, found.text) == (3, line)
    with pytest.raises(PrivacyError) as refused:
        require(policy, contract, "key")
    assert words in str(refused.value)
    assert f"{policy.path}, line 3" in str(refused.value)
    assert f"tacenda node approve {tmp_path} --by" in str(refused.value)
    with pytest.raises(PrivacyError, match=r"approve .* --contract sent\.toml --by"):
        require(policy, contract, "key", at=Path("sent.toml"))


@pytest.mark.parametrize("line", ALLOWED)
def test_what_lies_inside_is_allowed(tmp_path: Path, line: str) -> None:
    assert require(_policy(tmp_path, line + "\n"), small_contract(), "key") == []


@pytest.mark.parametrize(
    ("budget", "fits"), [(None, False), (3.1, False), (3.0, True), (1.0, True)]
)
def test_the_account_has_a_budget_within_the_total(
    tmp_path: Path, budget: float | None, fits: bool
) -> None:
    policy = _policy(tmp_path, "total_epsilon = 3.0\n")
    assert (policy.forbids_budget(budget) == []) is fits
    assert _policy(tmp_path, "epsilon = 1.0\n").forbids_budget(None) == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("epsilon = -1.0", "epsilon"),
        ("epsilon = nan", "epsilon"),
        ("epsilom = 1.0", "epsilom"),
        ('hours = ["Mon 7-9"]', "Mon-Fri 07:00-19:00"),
        ('hours = ["Mon 07:00-25:00"]', "does not exist"),
        ('timezone = "Mars/Olympus"', "time zone"),
        ('algorithms = ["tredg"]', "is no algorithm"),
        ("coalition = -1", "coalition"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        _policy(tmp_path, f"officer = 'A'\n{line}\n")
    assert words in str(refused.value)
    assert "line 2" in str(refused.value)


@pytest.fixture
def officer(tmp_path: Path) -> certificates.Identity:
    authority = certificates.make_authority(tmp_path / "authority", "a").parent
    return made_identity(tmp_path / "officer", "officer", authority)


def _approve(policy: PolicyFile, contract: Any, who: certificates.Identity) -> Path:
    found = policy.forbids(contract)
    return approve(policy, contract, found, by="A. Example", reason="why", signer=who, at=NOW)


def test_an_exception_holds_for_one_text_and_one_line(
    tmp_path: Path, officer: certificates.Identity
) -> None:
    policy, key = _policy(tmp_path, "epsilon = 1.0\n"), officer.signing_key
    contract = small_contract()
    path = _approve(policy, contract, officer)
    [used] = require(policy, contract, key)
    assert (used.by, used.reason, used.lines) == ("A. Example", "why", ["epsilon = 1.0: it is 5"])
    with pytest.raises(PrivacyError):  # another contract
        require(policy, small_contract(rounds=6), key)
    with pytest.raises(PrivacyError, match="line 1"):  # the officer has changed the line since
        require(_policy(tmp_path, "epsilon = 0.9\n"), contract, key)
    with pytest.raises(PrivacyError, match="line 2"):  # another line
        require(_policy(tmp_path, "epsilon = 1.0\nrounds = 2\n"), contract, key)
    policy = _policy(tmp_path, "epsilon = 1.0\n")
    with pytest.raises(PrivacyError):  # another member's
        require(policy, contract, "A" * 43 + "=")
    values = json.loads(path.read_text("utf-8"))
    for field, value in values.items():
        changed = [*value, "rounds = 2"] if isinstance(value, list) else f"A{value[1:]}x"
        path.write_text(json.dumps({**values, field: changed}), "utf-8")
        with pytest.raises(PrivacyError):
            require(policy, contract, key)
    path.write_text("{", "utf-8")
    with pytest.raises(InputError, match="cannot be read"):
        require(policy, contract, key)


def test_only_the_holder_of_the_officers_key_approves(
    tmp_path: Path, officer: certificates.Identity
) -> None:
    authority = tmp_path / "authority"
    member = made_identity(tmp_path / "member", "member", authority)
    policy = _policy(tmp_path, f'epsilon = 1.0\nofficer_key = "{officer.signing_key}"\n')
    contract = small_contract()
    with pytest.raises(PrivacyError, match="line 2.*only the holder"):
        _approve(policy, contract, member)
    _approve(policy, contract, officer)
    assert require(policy, contract, member.signing_key)
    bare = _policy(tmp_path, "epsilon = 1.0\n")
    [path] = approvals_folder(bare).iterdir()
    path.unlink()
    _approve(bare, contract, member)
    with pytest.raises(PrivacyError):  # the member's own word does not replace the officer's
        require(
            _policy(tmp_path, f'epsilon = 1.0\nofficer_key = "{officer.signing_key}"\n'),
            contract,
            member.signing_key,
        )


def test_nothing_to_approve_and_nameless_approvals_are_refused(
    tmp_path: Path, officer: certificates.Identity
) -> None:
    policy = _policy(tmp_path, "epsilon = 9.0\n")
    with pytest.raises(InputError, match="nothing to approve"):
        _approve(policy, small_contract(), officer)
    policy = _policy(tmp_path, "epsilon = 1.0\n")
    found = policy.forbids(small_contract())
    with pytest.raises(InputError, match="--by and --reason"):
        approve(policy, small_contract(), found, by="A", reason=" ", signer=officer, at=NOW)


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("Mon-Fri 07:00-19:00", ["0 07:00", "4 18:59"], ["0 06:59", "4 19:00", "5 12:00"]),
        ("Sat 00:00-24:00", ["5 00:00", "5 23:59"], ["4 23:59", "6 00:00"]),
        (
            "Fri-Mon 22:00-06:00",
            ["4 22:00", "0 23:00", "1 05:59"],
            ["1 06:00", "1 22:00", "4 05:00"],
        ),
        ("Sun-Sun 01:00-02:00", ["6 01:30"], ["0 01:30"]),
    ],
)
def test_hours_are_those_of_the_clock(text: str, inside: list[str], outside: list[str]) -> None:
    hours = Hours.read(text)
    for wanted, moments in ((True, inside), (False, outside)):
        for moment in moments:
            day, clock = moment.split()
            at = datetime(2026, 5, 4 + int(day), int(clock[:2]), int(clock[3:]), tzinfo=UTC)
            assert hours.hold(at) is wanted, moment


@given(
    minutes=st.integers(0, 7 * 24 * 60 - 1),
    seconds=st.integers(0, 59),
    hours=st.sampled_from(["Mon-Fri 07:00-19:00", "Wed 23:00-01:00", "Sun 00:00-24:00"]),
)
def test_a_pause_ends_with_the_first_minute_that_is_allowed(
    tmp_path_factory: pytest.TempPathFactory, minutes: int, seconds: int, hours: str
) -> None:
    policy = _policy(
        tmp_path_factory.mktemp("policy"), f'timezone = "Asia/Kolkata"\nhours = ["{hours}"]\n'
    )
    moment = NOW + timedelta(minutes=minutes, seconds=seconds)
    pause = policy.pause(moment)
    if pause is None:
        return
    end = moment + pause[0]
    assert pause[0] > timedelta() and end.second == 0
    assert policy.pause(end) is None
    assert policy.pause(end - timedelta(seconds=1)) is not None
    assert "line 2" in pause[1]


def test_without_hours_there_is_no_pause(tmp_path: Path) -> None:
    assert _policy(tmp_path, "epsilon = 1.0\n").pause(NOW) is None


def test_the_example_of_the_kit_is_a_policy() -> None:
    from importlib.resources import files

    with_all = files("tacenda_node") / "templates" / "policy.toml"
    policy = PolicyFile.read(Path(str(with_all)))
    assert policy.policy.epsilon == 2.0 and policy.policy.hours is None


def test_an_approved_budget_is_not_another_one(
    tmp_path: Path, officer: certificates.Identity
) -> None:
    """The officer has approved epsilon 6 for all runs; the operator cannot make it 1000 later."""
    policy, contract = _policy(tmp_path, '"total_epsilon" = 5.0\n'), small_contract()
    found = policy.forbids_budget(6.0)
    approve(policy, contract, found, by="A", reason="why", signer=officer, at=NOW)
    assert require(policy, contract, officer.signing_key, found)
    for other in (1000.0, None):
        with pytest.raises(PrivacyError, match="line 1"):
            require(policy, contract, officer.signing_key, policy.forbids_budget(other))


def test_a_policy_that_everybody_may_change_is_refused(tmp_path: Path) -> None:
    policy = _policy(tmp_path, "epsilon = 1.0\n")
    policy.path.chmod(0o666)
    with pytest.raises(InputError, match="may be changed by other users"):
        PolicyFile.read(policy.path)


def test_the_example_in_the_docs_is_a_policy(tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs" / "node-policy.md").read_text("utf-8")
    (example,) = re.findall(r"```toml\n(# policy\.toml.*?)```", page, re.S)
    found = _policy(tmp_path, example)
    assert set(found.lines) == set(type(found.policy).model_fields)
