"""The page's server: three fixed files, and /status as JSON for whoever shows the token.

The page is opened with the token behind a # (`http://127.0.0.1:PORT/#TOKEN`), a part of an address
that browsers send to nobody, and keeps it in the tab's own storage. It is shown in a header rather
than in a cookie, because cookies go to every port of this machine. A request must name this machine
as its host, so that another site's name that is made to point here (DNS rebinding) gets nothing.
"""

from __future__ import annotations

import hmac
import json
import secrets
import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from tacenda.addresses import split_address
from tacenda.formats.files import write_bytes
from tacenda.formats.text import strict
from tacenda_node.watch.observer import Observer
from tacenda_node.watch.web import LOOPBACK, Answer, WebServer

OPTION = "--dashboard"
TOKEN_FILE = "dashboard.token"
HERE = ("127.0.0.1", "localhost", "::1")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
PAGE, SCRIPT, STYLE = "page.html", "script.js", "style.css"


class Dashboard(WebServer):
    """`with Dashboard(port, observer, folder, log)`: the page, and how to open it on the terminal.

    The token is in the state folder, readable by its owner only, and new at every start; it is
    printed only where a person reads, never into a log.
    """

    def __init__(
        self, port: int, observer: Observer, folder: Path, log: Any, *, quiet: bool
    ) -> None:
        self._observer, self._log = observer, log
        self.token = new_token(folder)
        routes = {
            "/": lambda _: _file(PAGE, "text/html"),
            "/script.js": lambda _: _file(SCRIPT, "text/javascript"),
            "/style.css": lambda _: _style(),
            "/status": self._status,
        }
        super().__init__(LOOPBACK, port, OPTION, routes, _check_host)
        log.info("dashboard", address=LOOPBACK, port=self.port)
        if not quiet:
            print(self._how_to_open(folder), file=sys.stderr, flush=True)

    def _how_to_open(self, folder: Path) -> str:
        if sys.stderr.isatty():
            return f"Watch this node at http://{LOOPBACK}:{self.port}/#{self.token}"
        return (
            f"Watch this node at http://{LOOPBACK}:{self.port}/ with the token in "
            f"{folder / TOKEN_FILE}"
        )

    def _status(self, headers: Mapping[str, str]) -> Answer:
        kind, _, shown = headers.get("authorization", "").partition(" ")
        same = hmac.compare_digest(shown.encode("utf-8", "replace"), self.token.encode())
        if kind != "Bearer" or not same:
            if shown:
                self._log.warning("dashboard refused", reason="another token than this node's")
            words = json.dumps({"error": "the token is not this node's"}).encode()
            return Answer(words, "application/json", 401, HEADERS)
        status = json.dumps(strict(self._observer.status().to_plain())).encode()
        return Answer(status, "application/json", 200, HEADERS)


def new_token(folder: Path) -> str:
    """The token of the page, made anew at every start: who takes the port of a node that has ended
    gets nothing that opens the next page from a tab that was left open."""
    token = secrets.token_urlsafe(32)
    write_bytes(folder / TOKEN_FILE, token.encode(), private=True)
    return token


def _check_host(headers: Mapping[str, str]) -> Answer | None:
    """A refusal, unless the request was made to this machine by its own name; any port, because
    an SSH tunnel may end at another."""
    host = headers.get("host", "")
    name, _ = split_address(host) or (host.strip("[]"), 0)
    if name.lower() in HERE:
        return None
    return Answer(b"open this page as 127.0.0.1 or localhost\n", code=421, headers=HEADERS)


def _file(name: str, kind: str) -> Answer:
    body = (files(__package__) / name).read_bytes()
    return Answer(body, f"{kind}; charset=utf-8", headers=HEADERS)


def _style() -> Answer:
    """The report's own style, and what this page has beside it."""
    report = (files("tacenda.report") / "template" / "style.css").read_text("utf-8")
    own = (files(__package__) / STYLE).read_text("utf-8")
    return Answer((report + own).encode(), "text/css; charset=utf-8", headers=HEADERS)
