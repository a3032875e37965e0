"""ADDRESS[:PORT] on the command line."""

import ipaddress
import socket
from contextlib import suppress

from rdmadiag.cli.exits import Refused


def host_and_port(text: str, default: int) -> tuple[str, int]:
    """Of "192.0.2.1", "192.0.2.1:4711", "2001:db8::1", "[fe80::1%en5]:4711" or a name."""
    host, port = text, ""
    if text.startswith("["):
        host, closed, port = text[1:].partition("]")
        if not closed or (port and not port.startswith(":")):
            raise Refused(f"{text!r} is not [ADDRESS]:PORT")
        port = port[1:] if port else ""
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    if not host or (port and not _is_port(port)):
        raise Refused(f"{text!r} is not ADDRESS or ADDRESS:PORT")
    return host, int(port or default)


def _is_port(text: str) -> bool:
    few = len(text) <= 5 and text.isascii() and text.isdigit()
    return few and 0 < int(text) < 1 << 16


def source_towards(host: str) -> str | None:
    """The address that this host would use towards a numeric one; no packet is sent."""
    with suppress(ValueError, OSError):
        version = ipaddress.ip_address(host).version
        family = socket.AF_INET if version == 4 else socket.AF_INET6
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 9))
            return str(probe.getsockname()[0])
    return None


def is_unspecified(host: str) -> bool:
    """Whether it stands for every address of this host."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_unspecified
    return False
