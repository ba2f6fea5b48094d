"""Addresses of nodes: host:port, where an IPv6 host stands in brackets; relay://host:port where
they wait at a relay."""

from __future__ import annotations

import re

from tacenda.addresses import split_address
from tacenda.errors import InputError

RELAY = "relay://"
_HOST = re.compile(r"[A-Za-z0-9._:-]+")


def check_address(field: str, address: str) -> str:
    """The address, if it is host:port or [IPv6]:port with a port up to 65535."""
    found = split_address(address.removeprefix(RELAY))
    if found is None or not _HOST.fullmatch(found[0]):
        raise InputError(
            f"{field} must be host:port, with an IPv6 host in brackets and a port up to 65535, "
            f"not {address!r}; for example 'node.example.org:7443' or '[2001:db8::1]:7443'."
        )
    return address
