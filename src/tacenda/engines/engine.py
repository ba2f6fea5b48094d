"""`Engine`: which one, and where; `Workers`: with how many processes of this machine."""

from __future__ import annotations

from dataclasses import dataclass

from tacenda import checks
from tacenda.errors import InputError

LOCAL = "loky"


@dataclass(frozen=True)
class Engine:
    """kind: "loky", "dask" or "ray"; address: host:port of a cluster, "" for none."""

    kind: str = LOCAL
    address: str = ""

    @classmethod
    def parse(cls, text: str) -> Engine:
        """From "loky", "dask://host:port", "ray://host:port" or "ray"."""
        kind, separator, address = text.partition("://")
        given = bool(separator), bool(address)
        good = {"loky": [(False, False)], "dask": [(True, True)]}
        good["ray"] = [(False, False), (True, True)]
        if given not in good.get(kind, []):
            raise InputError(
                "engine must be 'loky' (processes of this machine), 'dask://host:port', "
                f"'ray://host:port', or 'ray' (one on this machine), not {text!r}."
            )
        host, _, port = address.rpartition(":")
        if address and not (host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            usual = {"dask": 8786, "ray": 10001}[kind]
            raise InputError(
                f"engine must end with the host and the port of the cluster, as in "
                f"'{kind}://head:{usual}', not {text!r}."
            )
        return cls(kind, address)

    @property
    def is_local(self) -> bool:
        return self.kind == LOCAL

    @property
    def place(self) -> tuple[str, int]:
        """(host, port) of a cluster."""
        host, _, port = self.address.rpartition(":")
        return host.strip("[]"), int(port)

    def __str__(self) -> str:
        return f"{self.kind}://{self.address}" if self.address else self.kind


@dataclass(frozen=True)
class Workers:
    """An engine and the number of processes of this machine; a cluster uses its own workers."""

    engine: Engine = Engine()
    jobs: int = 1

    @classmethod
    def of(cls, engine: str, jobs: int) -> Workers:
        return cls(Engine.parse(engine), checks.whole("jobs", jobs, least=1))

    def here(self, calls: int) -> bool:
        """Whether so many calls are made in this process itself."""
        return self.engine.is_local and (self.jobs == 1 or calls < 2)


HERE = Workers()
