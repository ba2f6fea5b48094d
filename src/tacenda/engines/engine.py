"""`Engine`: which one, and where; `Workers`: with how many processes of this machine."""

from __future__ import annotations

from dataclasses import dataclass

from tacenda import checks
from tacenda.addresses import host_and_port, split_address
from tacenda.errors import InputError

LOCAL = "loky"


@dataclass(frozen=True)
class Engine:
    """Where independent calls are made.

    Parameters
    ----------
    kind : {"loky", "dask", "ray"}, default="loky"
        Processes of this machine, or a cluster.
    address : str, default=""
        host:port of the cluster.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.engines.Engine.parse("dask://head:8786").place
    ('head', 8786)
    """

    kind: str = LOCAL
    address: str = ""

    @classmethod
    def parse(cls, text: str) -> Engine:
        """Read "loky", "dask://host:port", "ray://host:port" or "ray"."""
        kind, separator, address = text.partition("://")
        given = bool(separator), bool(address)
        good = {"loky": [(False, False)], "dask": [(True, True)]}
        good["ray"] = [(False, False), (True, True)]
        if given not in good.get(kind, []):
            raise InputError(
                "engine must be 'loky' (processes of this machine), 'dask://host:port', "
                f"'ray://host:port', or 'ray' (one on this machine), not {text!r}."
            )
        place = split_address(address)
        if address and (place is None or not place[1]):
            usual = {"dask": 8786, "ray": 10001}[kind]
            raise InputError(
                f"engine must end with the host and the port of the cluster, as in "
                f"'{kind}://head:{usual}', not {text!r}."
            )
        return cls(kind, address)

    @property
    def is_local(self) -> bool:
        """True for processes of this machine."""
        return self.kind == LOCAL

    @property
    def place(self) -> tuple[str, int]:
        """(host, port) of a cluster."""
        return host_and_port(self.address)

    def __str__(self) -> str:
        return f"{self.kind}://{self.address}" if self.address else self.kind


@dataclass(frozen=True)
class Workers:
    """An engine with the number of processes to use.

    Parameters
    ----------
    engine : Engine, default=Engine("loky")
        Where calls are made.
    jobs : int, default=1
        Processes of this machine; a cluster uses its own workers.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.engines.Workers.of("loky", 4).jobs
    4
    """

    engine: Engine = Engine()
    jobs: int = 1

    @classmethod
    def of(cls, engine: str, jobs: int) -> Workers:
        """Read the engine from text, with this number of processes."""
        return cls(Engine.parse(engine), checks.whole("jobs", jobs, least=1))

    def here(self, calls: int) -> bool:
        """Return whether this number of calls is made in this process itself."""
        return self.engine.is_local and (self.jobs == 1 or calls < 2)


HERE = Workers()
