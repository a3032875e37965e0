"""Reading one small text attribute: the forms that sysfs and procfs write.

A parser takes the bytes of a file and returns its value, or a `Missing` that says
what was there instead. `attribute` joins a path and a parser.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from rdmadiag.facts import Missing, Why
from rdmadiag.host import Host
from rdmadiag.late import late

T = TypeVar("T")

PCI_ADDRESS: Final = late(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
CPU_LIST: Final = late(r"[0-9]{1,6}(-[0-9]{1,6})?(,[0-9]{1,6}(-[0-9]{1,6})?)*")

_SHOWN: Final = 60
_SHOWN_LENGTH: Final = 120
"""Characters of them, with escapes."""
_NUMBERED: Final = late(r"([0-9]{1,9})\s*:")
_NUMBER: Final = late(r"(-?[0-9]{1,20}|0[xX][0-9a-fA-F]{1,16})\b")


def malformed(raw: bytes, expected: str) -> Missing:
    """The Missing for content that is not what a parser expects."""
    shown = repr(raw[:_SHOWN].decode("ascii", "backslashreplace").strip())
    return Missing(Why.MALFORMED, f"{shown[:_SHOWN_LENGTH]} is not {expected}")


def parse_text(raw: bytes) -> str | Missing:
    """One line of printable text; an empty attribute is absent (rxe's fw_ver)."""
    try:
        text = raw.decode("utf-8").strip()
    except UnicodeDecodeError:
        return malformed(raw, "text")
    if not text:
        return Missing(Why.ABSENT, "empty")
    if not text.isprintable():
        return malformed(raw, "one line of text")
    return text


def parse_number(raw: bytes) -> int | Missing:
    """A decimal or 0x number: "0x10", "128", "-1"; text behind it is ignored."""
    match = _NUMBER.match(raw.decode("latin-1").strip())
    if not match:
        return malformed(raw, "a number")
    return int(match[1], 0 if match[1][:2].lower() == "0x" else 10)


def parse_numbered(raw: bytes) -> int | Missing:
    """The number of "4: ACTIVE"."""
    match = _NUMBERED.match(raw.decode("latin-1").strip())
    if not match:
        return malformed(raw, 'a number and a word such as "4: ACTIVE"')
    return int(match[1])


def attribute(host: Host, path: str, parse: Callable[[bytes], T | Missing]) -> T | Missing:
    """The parsed content of `path`, or the reason there is none, naming the file."""
    raw = host.read(path)
    if isinstance(raw, Missing):
        return raw
    value = parse(raw)
    if isinstance(value, Missing):
        return Missing(value.why, f"{path}: {value.detail}")
    return value
