"""`policy.toml`: what this member's data-protection officer allows, and the officer's exceptions.

A contract is held against it before anything is signed, read or charged. What lies outside is
refused with the line that forbids it. `tacenda node approve` writes an exception: bound to this
very contract and to these very lines, and signed. The file is the member's own; nobody else sees
it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from tacenda.algorithms.registry import all_algorithms
from tacenda.errors import InputError, PrivacyError
from tacenda.formats.files import require_unchanged_by_others, write_text
from tacenda.formats.text import canonical_json, from_toml
from tacenda_node.identity.certificates import Identity, text_signed
from tacenda_node.identity.contract import Contract

APPROVALS = "approvals"
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
HOURS = re.compile(rf"({'|'.join(DAYS)})(?:-({'|'.join(DAYS)}))? (\d\d):(\d\d)-(\d\d):(\d\d)")
EVERYBODY = "everybody"
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class Hours:
    """From one time of the day to another on some days of the week (0 is Monday); across midnight
    where the end is not after the beginning."""

    days: frozenset[int]
    begin: time
    end: time

    @classmethod
    def read(cls, text: str) -> Hours:
        """`Mon-Fri 07:00-19:00`, `Sat 00:00-24:00`."""
        found = HOURS.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is not of the form 'Mon-Fri 07:00-19:00'")
        first, last = DAYS.index(found[1]), DAYS.index(found[2] or found[1])
        days = frozenset((first + k) % 7 for k in range((last - first) % 7 + 1))
        return cls(days, _clock(found[3], found[4], text), _clock(found[5], found[6], text))

    def hold(self, moment: datetime) -> bool:
        """Whether a moment (in the policy's time zone) lies within them."""
        now, today = moment.time(), moment.weekday()
        if self.begin < self.end:
            return today in self.days and self.begin <= now < self.end
        if self.begin == self.end:  # the whole day
            return today in self.days
        return (today in self.days and now >= self.begin) or (
            (today - 1) % 7 in self.days and now < self.end
        )


def _method(name: str) -> str:
    """An algorithm's one name; contracts may write it as DP-ADMM."""
    return name.lower().replace("-", "")


def _clock(hour: str, minute: str, text: str) -> time:
    if (hour, minute) == ("24", "00"):
        return time(0, 0)
    try:
        return time(int(hour), int(minute))
    except ValueError:
        raise ValueError(f"{text!r} names a time that does not exist") from None


class Policy(BaseModel):
    """The file's fields; None says nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    officer: Annotated[str, Field(min_length=1)] | None = None
    officer_key: Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]{43}=$")] | None = None
    epsilon: Positive | None = None
    delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    total_epsilon: Positive | None = None
    rounds: Annotated[int, Field(ge=1)] | None = None
    adjacency: list[Literal["replace-one", "add-remove"]] | None = None
    algorithms: list[str] | None = None
    preparations: list[str] | None = None
    coalition: Annotated[int, Field(ge=0)] | Literal["everybody"] | None = None
    floating_point_noise: bool | None = None
    schemas: list[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]] | None = None
    members: list[str] | None = None
    hours: list[str] | None = None
    proposals: list[Literal["next", "with", "without", "stop"]] | None = None
    timezone: str = "UTC"

    @field_validator("proposals")
    @classmethod
    def _proposals(cls, kinds: list[str] | None, info: ValidationInfo) -> list[str] | None:
        bounded = all(info.data.get(name) is not None for name in ("epsilon", "delta"))
        if {"next", "with"} & set(kinds or ()) and not bounded:
            raise ValueError("runs are accepted only with lines for epsilon and delta")
        return kinds

    @field_validator("hours")
    @classmethod
    def _hours(cls, texts: list[str] | None) -> list[str] | None:
        for text in texts or ():
            Hours.read(text)
        return texts

    @field_validator("algorithms")
    @classmethod
    def _algorithms(cls, names: list[str] | None) -> list[str] | None:
        known = sorted(all_algorithms())
        for name in names or ():
            if _method(name) not in known:
                raise ValueError(f"{name!r} is no algorithm; there are {', '.join(known)}")
        return names if names is None else [_method(name) for name in names]

    @field_validator("timezone")
    @classmethod
    def _timezone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError):
            raise ValueError(
                f"{name!r} is not the name of a time zone, as 'Europe/Berlin'"
            ) from None
        return name


@dataclass(frozen=True)
class Forbidden:
    """One line of the policy that a contract does not keep."""

    field: str
    line: int
    text: str  # the line as it stands in the file
    rule: str
    found: str

    @property
    def subject(self) -> str:
        """What an exception is bound to: the line, and what was found to lie outside of it."""
        return f"{self.text}: {self.found}"

    def sentence(self, path: Path) -> str:
        return f"{path}, line {self.line} (`{self.text}`): {self.rule}, and {self.found}"


@dataclass(frozen=True)
class PolicyFile:
    """A policy with the place that it was read from."""

    path: Path
    policy: Policy
    lines: dict[str, tuple[int, str]]

    @classmethod
    def read(cls, path: str | Path) -> PolicyFile:
        """The policy in a TOML file without tables."""
        path = Path(path)
        require_unchanged_by_others(path)
        try:
            text = path.read_text("utf-8")
            values = from_toml(text)
        except FileNotFoundError:
            raise InputError(
                f"There is no policy at {path}; correct `policy` in node.toml, or write the file."
            ) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"The policy {path} is not valid TOML: {error}.") from None
        lines = {
            found[1]: (number, line.split("#")[0].strip())
            for number, line in enumerate(text.splitlines(), 1)
            if (found := re.match(r"\s*[\"']?([A-Za-z_]+)[\"']?\s*=", line))
        }
        try:
            policy = Policy.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            field = str(first["loc"][0]) if first["loc"] else ""
            number = lines.get(field, (0, ""))[0]
            said = first["msg"].removeprefix("Value error, ")
            raise InputError(
                f"The policy {path}, line {number}, field {field}: {said}, not "
                f"{first['input']!r}; correct it there."
            ) from None
        lines = {**{field: (0, f"{field} = ...") for field in policy.model_fields_set}, **lines}
        return cls(path, policy, lines)

    def forbids(self, contract: Contract) -> list[Forbidden]:
        """What in the contract lies outside of the policy."""
        policy, privacy, found = self.policy, contract.privacy, []

        def most(field: str, value: float, what: str) -> None:
            limit = getattr(policy, field)
            if limit is not None and not value <= limit:
                found.append((field, f"{what} may be at most {limit:g}", f"it is {value:g}"))

        def among(field: str, values: list[str], what: str) -> None:
            allowed = getattr(policy, field)
            outside = [] if allowed is None else [v for v in values if v not in allowed]
            if outside:
                rule = f"{what} must be among {', '.join(allowed) or 'none'}"
                found.append((field, rule, f"the contract has {', '.join(outside)}"))

        most("epsilon", privacy.epsilon, "epsilon of a run")
        most("delta", privacy.delta, "delta of a run")
        if contract.evaluation is not None:
            most("epsilon", contract.evaluation.epsilon or 0.0, "epsilon of an evaluation")
            most("delta", contract.evaluation.delta or 0.0, "delta of an evaluation")
        most("rounds", contract.rounds, "the number of rounds")
        among("adjacency", [privacy.adjacency], "the relation")
        among("algorithms", [_method(contract.algorithm.name)], "the algorithm")
        among("preparations", [contract.prepare.name] if contract.prepare else [], "preparation")
        among("schemas", [contract.schema_hash], "the schema's hash")
        among("members", list(contract.names), "members")
        wanted, offered = policy.coalition, privacy.coalition  # None: against all others together
        if wanted is not None and offered is not None:
            if wanted == EVERYBODY:
                rule = "the protection must hold against all other members together"
                found.append(("coalition", rule, f"the contract's holds against {offered}"))
            elif isinstance(wanted, int) and offered < wanted:
                rule = f"the protection must hold against {wanted} curious members or more"
                found.append(("coalition", rule, f"the contract's holds against {offered}"))
        if policy.floating_point_noise is False and privacy.floating_point_noise:
            rule = "noise drawn as floating-point numbers is not allowed"
            found.append(("floating_point_noise", rule, "the contract accepts it"))
        return [Forbidden(field, *self.lines[field], rule, said) for field, rule, said in found]

    def forbids_budget(self, epsilon: float | None) -> list[Forbidden]:
        """What in the account's budget lies outside of the policy; None: the account has none."""
        limit = self.policy.total_epsilon
        if limit is None or (epsilon is not None and epsilon <= limit):
            return []
        rule = f"the account's budget may be at most epsilon {limit:g}"
        said = "the account has none" if epsilon is None else f"it is {epsilon:g}"
        return [Forbidden("total_epsilon", *self.lines["total_epsilon"], rule, said)]

    def pause(self, moment: datetime) -> tuple[timedelta, str] | None:
        """How long the node must wait before it may compute and send, and why in words; None if it
        may. At most a week is looked ahead, minute by minute."""
        if self.policy.hours is None:
            return None
        zone = ZoneInfo(self.policy.timezone)
        allowed = [Hours.read(text) for text in self.policy.hours]
        here = moment.astimezone(zone)
        if any(hours.hold(here) for hours in allowed):
            return None
        number, text = self.lines["hours"]
        why = f"outside the hours of {self.path}, line {number} (`{text}`)"
        begin = moment.replace(second=0, microsecond=0)
        for minutes in range(1, 7 * 24 * 60 + 1):
            then = begin + timedelta(minutes=minutes)
            if any(hours.hold(then.astimezone(zone)) for hours in allowed):
                return then - moment, f"{why}; goes on at {then.astimezone(zone):%a %H:%M %Z}"
        return timedelta(days=7), f"{why}; there are none within a week"


@dataclass(frozen=True)
class Approval:
    """An officer's exception: for one contract, or one account's budget, and for lines of the
    policy as they stood."""

    contract: str
    lines: list[str]
    by: str
    reason: str
    at: str
    key: str  # whose signature it is: the officer's or the member's signing key
    signature: str

    def text(self) -> bytes:
        said = {k: v for k, v in self.__dict__.items() if k not in ("key", "signature")}
        return f"tacenda approval\n{canonical_json(said)}".encode()


def approvals_folder(policy: PolicyFile) -> Path:
    """Where exceptions lie: beside the policy."""
    return policy.path.parent / APPROVALS


def approve(
    policy: PolicyFile,
    contract: Contract,
    found: list[Forbidden],
    *,
    by: str,
    reason: str,
    signer: Identity | Any,
    at: datetime,
) -> Path:
    """Write the exception for these lines and this contract.

    signer: what signs it, with `signing_key` and `sign_text`: the officer's key where the policy
    names one.
    """
    if not found:
        raise InputError("The policy allows this contract; there is nothing to approve.")
    if not by.strip() or not reason.strip():
        raise InputError("An approval needs --by and --reason, in words: both are kept with it.")
    key = policy.policy.officer_key
    if key is not None and signer.signing_key != key:
        raise PrivacyError(
            f"{policy.path}, line {policy.lines['officer_key'][0]}: only the holder of officer_key "
            "may approve; give the officer's key by --key."
        )
    bare = Approval(
        contract.hash(),
        sorted(one.subject for one in found),
        by,
        reason,
        at.isoformat(timespec="seconds"),
        signer.signing_key,
        "",
    )
    whole = Approval(**{**bare.__dict__, "signature": signer.sign_text(bare.text())})
    place = approvals_folder(policy)
    place.mkdir(exist_ok=True)
    return write_text(
        place / f"{contract.hash()[:16]}-{at:%Y%m%dT%H%M%S}.json",
        json.dumps(whole.__dict__, indent=2, ensure_ascii=False) + "\n",
    )


def approvals(policy: PolicyFile, contract: Contract, member_key: str) -> list[Approval]:
    """The valid exceptions for this contract: signed by the officer's key, or by the member's where
    the policy names none."""
    key, found = policy.policy.officer_key or member_key, []
    for path in sorted(approvals_folder(policy).glob("*.json")):
        try:
            one = Approval(**json.loads(path.read_text("utf-8")))
        except (ValueError, TypeError):
            raise InputError(
                f"The approval {path} cannot be read; remove it, and approve again."
            ) from None
        if (
            one.contract == contract.hash()
            and one.key == key
            and text_signed(key, one.text(), one.signature)
        ):
            found.append(one)
    return found


def require(
    policy: PolicyFile,
    contract: Contract,
    member_key: str,
    more: Sequence[Forbidden] = (),
    at: Path | None = None,
) -> list[Approval]:
    """Refuse what the policy forbids and nobody approved; the exceptions that were used.

    more: what else was found, as the account's budget, which is known only later. at: where the
    contract lies, if not in the member's folder yet.
    """
    found = [*policy.forbids(contract), *more]
    given = approvals(policy, contract, member_key)
    used = [one for one in given if any(each.subject in one.lines for each in found)]
    left = [each for each in found if not any(each.subject in one.lines for one in used)]
    if left:
        told = "; ".join(each.sentence(policy.path) for each in left)
        where = f"{policy.path.parent}" if at is None else f"{policy.path.parent} --contract {at}"
        raise PrivacyError(
            f"The policy of this member forbids this run: {told}. Ask for another contract, or let "
            f"the officer approve it: tacenda node approve {where} --by NAME --reason WORDS."
        )
    return used
