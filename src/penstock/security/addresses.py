"""Addresses of clients, each in one spelling: ACLs, policies, quotas and limits compare them as texts."""

from __future__ import annotations

import ipaddress


def parse_address(text: str) -> str | None:
    """None if the text is no address. An IPv4 address that arrived on an IPv6 socket becomes that IPv4 address, and
    Java's `0:0:0:0:0:0:0:1` becomes `::1`.
    """
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def canonical_host(host: str) -> str:
    """The same; `*`, and any other text that is no address, stays as it is."""
    return parse_address(host) or host
