"""Health and metrics: /livez, /readyz and /healthz answer 200 or 503 with the reasons in words,
/metrics in Prometheus' text form. From `NodeStatus` alone.

    /livez    the node's threads run; if not, the process should be started again
    /readyz   it listens and takes calls (so a neighbour may be sent here), whoever is away
    /healthz  nothing is wrong that an operator should look at
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tacenda_node.watch.observer import Observer
from tacenda_node.watch.status import NodeStatus
from tacenda_node.watch.web import LOOPBACK, Answer, WebServer, parse_address

OPTION = "--metrics-address"
SHOWN = (
    "Anybody who can reach this address sees, without a password, the run's title, the members' "
    "names, the "
    "rounds, the traffic, the spending and the budget; never records, models or keys."
)


class Monitor(WebServer):
    """`with Monitor(address, observer, log)`: a port of 127.0.0.1, or host:port."""

    def __init__(self, address: str, observer: Observer, log: Any) -> None:
        host, port = parse_address(address, OPTION)
        routes = {
            "/livez": _checked(observer, lambda f: f.alive),
            "/readyz": _checked(observer, lambda f: f.ready),
            "/healthz": _checked(observer, lambda f: f.in_order),
            "/metrics": lambda _: metrics_answer(observer.status),
        }
        super().__init__(host, port, OPTION, routes)
        log.info("metrics", address=host, port=self.port)
        if host not in (LOOPBACK, "localhost", "::1"):
            log.warning("metrics can be seen from other machines", message=SHOWN)


def _checked(observer: Observer, good: Callable[[NodeStatus], bool]) -> Any:
    def answer(_: Mapping[str, str]) -> Answer:
        status = observer.status()
        found = {"ok": good(status), "summary": status.summary, "problems": status.problems}
        code = 200 if found["ok"] else 503
        return Answer((json.dumps(found) + "\n").encode(), "application/json", code)

    return answer


def metrics_answer(status: Callable[[], NodeStatus]) -> Answer:
    """Everything in Prometheus' text form, collected now, so that nothing is counted twice."""
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(_Numbers(status()))
    return Answer(generate_latest(registry), CONTENT_TYPE_LATEST)


class _Numbers:
    """A node's status as families of metrics."""

    def __init__(self, status: NodeStatus) -> None:
        self._status = status

    def collect(self) -> Iterator[Any]:
        yield from _about_run(self._status)
        yield from _about_spending(self._status)
        yield from _about_peers(self._status)
        yield from _about_members(self._status)


def _gauge(name: str, help: str, value: float) -> Any:
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(f"tacenda_{name}", help, value=float(value))


def _counter(name: str, help: str, value: float) -> Any:
    from prometheus_client.core import CounterMetricFamily

    return CounterMetricFamily(f"tacenda_{name}", help, value=float(value))


def _about_run(status: NodeStatus) -> Iterator[Any]:
    from prometheus_client.core import InfoMetricFamily

    about = {"member": status.member, "title": status.title, "version": status.version}
    yield InfoMetricFamily("tacenda_node", "The member and the run", value=about)
    yield _gauge("in_order", "1 if nothing is wrong, as /healthz", status.in_order)
    yield _gauge("rounds_done", "Rounds done", status.round)
    yield _gauge("rounds", "Rounds of the run", status.rounds)
    yield _gauge("rounds_per_second", "Rate since this start", status.rounds_per_second)
    since = status.at - status.seconds_since_round
    yield _gauge("last_round_timestamp_seconds", "When the latest round was completed", since)
    yield _gauge("waiting_seconds", "How long the node has been waiting", status.waiting_seconds)
    yield _causes(status)
    limit = status.absence_limit_seconds
    yield _gauge("absence_limit_seconds", "How long a member may be away", limit)
    yield _counter("wait_seconds", "Time spent waiting for peers", status.wait_seconds_total)
    yield _counter("write_seconds", "Time spent on durable writes", status.write_seconds_total)
    yield _counter("refused_callers", "Callers refused", status.refused_callers)
    yield _gauge("disk_free_bytes", "Free on the disk of the state folder", status.disk_free_bytes)
    yield _gauge(
        "certificate_expiry_timestamp_seconds",
        "When this member's certificate expires",
        status.certificate_expires,
    )


def _causes(status: NodeStatus) -> Any:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(
        "tacenda_waiting_on_seconds",
        "For how long the member at the root of the wait is in its state",
        labels=["member", "state"],
    )
    for cause in status.causes:
        family.add_metric([cause.member, cause.state], cause.seconds)
    return family


def _about_spending(status: NodeStatus) -> Iterator[Any]:
    if status.run is not None:
        yield _gauge("run_epsilon", "Epsilon that this run has spent", status.run.epsilon)
        yield _gauge("run_epsilon_limit", "Epsilon that this run may spend", status.run.limit)
    lasting = status.lasting
    if lasting is not None:
        yield _gauge("total_epsilon", "Spent or reserved by all runs together", lasting.epsilon)
        if lasting.budget is not None:
            yield _gauge("total_epsilon_budget", "Budget of all runs together", lasting.budget)
            left = max(0.0, lasting.budget - lasting.epsilon)
            yield _gauge("total_epsilon_left", "Left of the budget of all runs", left)


def _about_peers(status: NodeStatus) -> Iterator[Any]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    gauges: dict[str, tuple[str, Callable[[Any], float | None]]] = {
        "connected": (
            "1 if the peer is connected or has finished",
            lambda p: float(p.state in ("connected", "finished")),
        ),
        "left_out": ("1 if the members continue without it", lambda p: p.state == "left out"),
        "lag_rounds": ("Rounds the peer is behind", lambda p: p.lag_rounds),
        "away_seconds": ("How long the peer has been away", lambda p: p.away_seconds),
        "certificate_expiry_timestamp_seconds": (
            "When the peer's certificate expires",
            lambda p: p.certificate_expires,
        ),
    }
    counters: dict[str, tuple[str, Callable[[Any], float]]] = {
        "sent_bytes": ("Bytes sent to the peer since this start", lambda p: p.sent_bytes),
        "received_bytes": ("Bytes received since this start", lambda p: p.received_bytes),
        "sent_again_messages": ("Messages sent again", lambda p: p.sent_again),
        "cut_offs": ("Times the peer was cut off", lambda p: p.cut_off),
    }
    for name, (help, value) in gauges.items():
        family = GaugeMetricFamily(f"tacenda_peer_{name}", help, labels=["peer"])
        for peer in status.peers:
            if (found := value(peer)) is not None:
                family.add_metric([peer.name], float(found))
        yield family
    for name, (help, count) in counters.items():
        counted = CounterMetricFamily(f"tacenda_peer_{name}", help, labels=["peer"])
        for peer in status.peers:
            counted.add_metric([peer.name], float(count(peer)))
        yield counted


def _about_members(status: NodeStatus) -> Iterator[Any]:
    """All members, also those who are no neighbours, as their signs of life tell."""
    from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily

    held = {root.member: len(root.holds_up) for root in status.roots}
    gauges: dict[str, tuple[str, Callable[[Any], float | None]]] = {
        "round": ("The member's round", lambda m: None if m.heard_seconds is None else m.round),
        "heard_seconds": ("Since the member's latest sign of life", lambda m: m.heard_seconds),
        "waits_seconds": ("How long the member waits for others", lambda m: m.waits_seconds),
        "holds_up": ("How many wait for the member in the end", lambda m: held.get(m.name, 0)),
        "clock_seconds": ("How far its clock is ahead, 0 below 300", lambda m: m.clock_seconds),
        "disk_free_bytes": ("Free on the member's disk", lambda m: m.disk_free_bytes),
        "epsilon_left": ("Left of its budget, where it says so", lambda m: m.epsilon_left),
    }
    for name, (help, value) in gauges.items():
        family = GaugeMetricFamily(f"tacenda_member_{name}", help, labels=["member"])
        for member in status.members:
            if (found := value(member)) is not None:
                family.add_metric([member.name], float(found))
        yield family
    about = InfoMetricFamily("tacenda_member", "State and version", labels=["member"])
    for member in status.members:
        about.add_metric([member.name], {"state": member.state, "version": member.version})
    yield about
