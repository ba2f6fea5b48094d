"""One parser of host:port for clusters, members, relays, proxies and pages."""

from __future__ import annotations

import pytest

from tacenda.addresses import host_and_port, split_address
from tacenda.errors import InputError


def test_an_address_is_a_host_and_a_port() -> None:
    assert split_address("node.example:7443") == ("node.example", 7443)
    assert split_address("[2001:db8::1]:1") == ("2001:db8::1", 1)
    assert split_address("[fe80::1%eth0]:65535") == ("fe80::1%eth0", 65535)
    assert split_address("127.0.0.1:0") == ("127.0.0.1", 0)


WRONG = """
host|host:|:1|:|host:65536|host:123456|host:1x|host:-1|::1:80|[host]:1|[::1]|a b:1|user@host:1
|http://host:1|host:\u0661
"""


@pytest.mark.parametrize("wrong", ["", *WRONG.strip().replace("\n", "").split("|"), "host:1\n"])
def test_anything_else_is_none(wrong: str) -> None:
    assert split_address(wrong) is None
    with pytest.raises(InputError, match="--x must be host:port"):
        host_and_port(wrong, "--x")


def test_the_port_zero_is_for_whoever_listens() -> None:
    assert host_and_port("localhost:0", lowest=0) == ("localhost", 0)
    with pytest.raises(InputError, match="address must be host:port"):
        host_and_port("localhost:0")
