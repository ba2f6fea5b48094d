"""Addresses on a network: `host:port`, where an IPv6 host stands in brackets."""

from __future__ import annotations

import re

from tacenda.errors import InputError

_ADDRESS = re.compile(
    r"(?:\[(?P<six>[0-9a-fA-F:.]+(?:%\w+)?)\]|(?P<name>[^\s:\[\]/@]+)):(?P<port>[0-9]{1,5})"
)


def split_address(address: str) -> tuple[str, int] | None:
    """(host without brackets, port up to 65535), or None if the text is no address."""
    found = _ADDRESS.fullmatch(address)
    if found is None or int(found["port"]) > 65535:
        return None
    return found["six"] or found["name"], int(found["port"])


def host_and_port(address: str, field: str = "address", lowest: int = 1) -> tuple[str, int]:
    """`split_address`, or InputError in the name of `field`; lowest: the port 0 lets the system
    choose."""
    found = split_address(address)
    if found is None or found[1] < lowest:
        raise InputError(
            f"{field} must be host:port, with brackets for IPv6 as in [::1]:7443, "
            f"not {address!r}; write it so."
        )
    return found
