"""`node.toml`: what belongs to one member's machine and not to the contract.

A member's folder holds this file, and `tacenda node run FOLDER` needs no flags then. Paths in it
are relative to the file, those of flags to the current folder; a flag overrides the file.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, field_validator
from pydantic.dataclasses import dataclass

from tacenda.errors import InputError
from tacenda.formats.files import require_unchanged_by_others, write_text
from tacenda.formats.text import from_toml, toml
from tacenda_node.identity.addresses import check_address
from tacenda_node.watch.web import parse_address

FILE = "node.toml"
POLICY = "policy.toml"
PATHS = (
    "contract",
    "schema",
    "data",
    "identity",
    "state",
    "ledger",
    "proxy_login",
    "relay_token",
    "policy",
)
FLAGS_ONLY = ("rehearsal", "quiet", "watch_tls")  # said anew at every start, never in the file


@dataclass(frozen=True, config=ConfigDict(extra="forbid", arbitrary_types_allowed=True))
class NodeSettings:
    """One member's local settings.

    schema, data: the agreed schema and this member's records. bind: address to listen on, by
    default the contract's port on all interfaces; `relay://host:port` waits at a relay instead.
    addresses: where neighbours are reached, if not
    as the contract says. ledger: the lasting ledger, by default one per member and machine.
    metrics_address: where health and metrics are answered, a port of 127.0.0.1 or host:port, None
    for none. dashboard: the port of the page on 127.0.0.1, 0 for any that is free, None for none.
    share_budget: tell all members what is left of the budget, in the signs of life.
    dataset: the data's name in the ledger; given once, it is remembered with the records. budget:
    epsilon that all runs on these records together may lose, kept in the ledger; no_budget: that
    they shall have no limit.
    proxy: `http://host:port` for all calls out; proxy_login: a file with its `user:password`.
    relay_token: a file with the token of the relays. policy: what this member's officer allows; by
    default policy.toml beside node.toml, if there is one.

    Of the command line only: rehearsal (seeded noise is allowed, nothing outlives the run), quiet,
    and watch_tls: log the reasons of failed handshakes, which takes over this process's standard
    error (`tls_log`).
    """

    schema: Path
    data: Any
    contract: Path = Path("contract.toml")
    identity: Path = Path("identity")
    state: Path = Path("state")
    ledger: Path | None = None
    dataset: Annotated[str, Field(min_length=1)] | None = None
    budget: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    no_budget: bool = False
    bind: str | None = None
    addresses: dict[str, str] | None = None
    proxy: str | None = None
    proxy_login: Path | None = None
    relay_token: Path | None = None
    policy: Path | None = None
    metrics_address: str | int | None = None
    dashboard: Annotated[int, Field(ge=0, le=65535)] | None = None
    share_budget: bool = False
    rehearsal: bool = False
    quiet: bool = False
    watch_tls: bool = False

    @field_validator("bind")
    @classmethod
    def _bind(cls, address: str | None) -> str | None:
        return None if address is None else check_address("bind", address)

    @field_validator("metrics_address")
    @classmethod
    def _metrics_address(cls, address: str | int | None) -> str | None:
        if address is None:
            return None
        parse_address(str(address), "metrics_address")
        return str(address)

    @field_validator("addresses")
    @classmethod
    def _addresses(cls, addresses: dict[str, str] | None) -> dict[str, str] | None:
        for name, address in (addresses or {}).items():
            check_address(f"addresses.{name}", address)
        return addresses


def read_settings(place: str | Path | None = None, **flags: Any) -> NodeSettings:
    """The settings of a member's folder (or of a node.toml), with the flags that were given.

    Without `place`, those of ./node.toml if there is one, and of the flags alone otherwise.
    """
    path = settings_file(place)
    values = {} if path is None else _from_file(path)
    given = {name: value for name, value in flags.items() if value is not None}
    return _checked({**values, **given}, path)


def settings_file(place: str | Path | None) -> Path | None:
    """The node.toml that `place` means: itself, the one in that folder, or by default the one in
    the current folder if it exists."""
    if place is None:
        return Path(FILE) if Path(FILE).exists() else None
    path = Path(place)
    path = path / FILE if path.is_dir() else path
    if not path.is_file():
        raise InputError(
            f"There is no {FILE} at {path}; `tacenda consortium join` writes one, "
            "or give --contract, --schema, --data and --identity."
        )
    return path


def write_settings(folder: str | Path, values: dict[str, Any]) -> Path:
    """node.toml in a member's folder, checked before it is written."""
    path = Path(folder) / FILE
    plain = {k: str(v) if isinstance(v, Path) else v for k, v in values.items() if v is not None}
    _checked(plain, path)
    return write_text(path, toml(plain))


def _from_file(path: Path) -> dict[str, Any]:
    require_unchanged_by_others(path)
    try:
        values = from_toml(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not valid TOML: {error}; correct it there.") from None
    for name in FLAGS_ONLY:
        if name in values:
            raise InputError(
                f"{path} field {name}: belongs to one start of the node and not into its file; "
                f"remove it, and give --{name.replace('_', '-')} where it is wanted."
            )
    values = {"contract": "contract.toml", "identity": "identity", "state": "state", **values}
    if (path.parent / POLICY).exists():
        values.setdefault("policy", POLICY)
    for name in PATHS:
        if isinstance(values.get(name), str):
            values[name] = path.parent / Path(values[name]).expanduser()
    return values


def _checked(values: dict[str, Any], path: Path | None) -> NodeSettings:
    where = "settings" if path is None else str(path)
    for name in ("schema", "data"):
        if name not in values:
            raise InputError(
                f"{where} field {name}: is missing; give --{name}, "
                f"or the member's folder with its {FILE} (`tacenda consortium join` writes it)."
            )
    try:
        return TypeAdapter(NodeSettings).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        if first["type"] == "value_error":  # a whole sentence of our own
            raise InputError(
                f"{where} field {first['msg'].removeprefix('Value error, ')}"
            ) from None
        raise InputError(
            f"{where} field {place}: {first['msg']}, not {first['input']!r}; "
            "correct it there or by its flag."
        ) from None
