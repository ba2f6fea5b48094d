"""nginx in front of a relay and squid in front of the members, as hospitals have them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import trustme

from node_stage import live
from tacenda_node.setup.rehearse import free_ports

SQUID_HELPERS = Path("/usr/lib/squid")
NGINX = """
daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{}}
http {{
  access_log {folder}/access.log; client_body_temp_path {folder}/body; proxy_temp_path {folder}/p;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {folder}/site.crt; ssl_certificate_key {folder}/site.key;
{location}
  }}
}}
"""
SQUID = """
http_port 127.0.0.1:{port}
pid_filename {folder}/squid.pid
cache_log {folder}/cache.log
access_log stdio:{folder}/access.log
cache deny all
coredump_dir {folder}
shutdown_lifetime 1 seconds
{login}
acl known proxy_auth REQUIRED
acl CONNECT method CONNECT
http_access allow CONNECT known
http_access deny all
"""


class Program:
    """A server as a process, which is over with the test."""

    def __init__(self, port: int, *command: str) -> None:
        self.port = port
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        end = time.monotonic() + 30
        while not self._answers():
            assert self._process.poll() is None and time.monotonic() < end, command
            time.sleep(0.05)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)


def location_of(relay: str, documented: Path, *more: str) -> str:
    """The lines for nginx as the documentation has them, for a relay at this address."""
    text = documented.read_text("utf-8")
    begin = text.index("location /tacenda-relay")
    found = text[begin : text.index("\n```", begin)]
    lines = found.replace("127.0.0.1:7444", relay).rstrip().removesuffix("}").splitlines()
    return "\n".join([*lines, *more, "}"])


def nginx(folder: Path, location: str) -> tuple[Program, Path]:
    """A web site with an ordinary certificate, and the file of who has signed that."""
    authority = trustme.CA()
    site = authority.issue_cert("localhost")
    site.private_key_pem.write_to_path(folder / "site.key")
    with open(folder / "site.crt", "wb") as chain:
        for pem in site.cert_chain_pems:
            chain.write(pem.bytes())
    authority.cert_pem.write_to_path(folder / "authorities.pem")
    (port,) = free_ports(1)
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, port=port, location=location))
    return Program(port, "nginx", "-c", str(config)), folder / "authorities.pem"


class Squid(Program):
    """A proxy that lets known users call out, by basic login or, with `ntlm`, by NTLM, where any
    password is good (squid's own test helper)."""

    def __init__(self, user: str, password: str, *, ntlm: bool = False) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="squid-"))
        salted = subprocess.run(
            ["openssl", "passwd", "-apr1", password], capture_output=True, text=True, check=True
        )
        users = self.folder / "users"
        users.write_text(f"{user}:{salted.stdout}")
        login = f"auth_param basic program {SQUID_HELPERS}/basic_ncsa_auth {users}"
        if ntlm:
            login = f"auth_param ntlm program {SQUID_HELPERS}/ntlm_fake_auth"
        (port,) = free_ports(1)
        config = self.folder / "squid.conf"
        config.write_text(SQUID.format(port=port, folder=self.folder, login=login))
        shutil.chown(self.folder, "proxy", "proxy")
        super().__init__(port, "squid", "-N", "-f", str(config))

    def stop(self) -> None:
        super().stop()
        shutil.rmtree(self.folder)

    @property
    def log(self) -> str:
        return (self.folder / "access.log").read_text()


def live_trusting(options: Any, output: str, authorities: str) -> None:
    """A member's process on a machine that trusts these."""
    os.environ["SSL_CERT_FILE"] = authorities
    live(options, output)
