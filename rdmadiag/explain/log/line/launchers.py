"""How a launcher has marked the lines of a text, and whose each of them is.

clush, pdsh, Ansible, srun -l and kubectl put a label before each line, or a heading above those of
a host: `clush -b`, `clubak -b`, `dshbak -c`, and Ansible's ad-hoc commands.
"""

import re
from collections.abc import Iterator
from typing import Final

from rdmadiag.fleet.lines import Label, Mark, split

_SAMPLE_LINES: Final = 200
_MOST_OF: Final = 0.8
_NOT_HOSTS: Final = re.compile(
    rb"^(?:warn(?:ing)?|error|info|debug|note|fatal|trace|notice|file|traceback|\w*error"
    # calls and programs, which perror and fprintf put before what they say
    rb"|(?:rdma|ibv|fi|ethernet|setup)_\w+|r(?:bind|connect|listen|accept|poll|send|recv)"
    rb"|libibverbs|libfabric|udaddy|u?cmatose|mckey|rping|rdmadiag|\w+_pingpong|perftest|ib_\w+_(?:bw|lat))$",
    re.IGNORECASE,
)


def marking(sample: bytes) -> Mark:
    """How a launcher has marked the lines of a text, from its beginning.

    A word and a colon stand before many lines that no launcher has marked: nearly all must have
    one, and the same few.
    """
    lines = [each.removesuffix(b"\r") for each in sample.split(b"\n") if each.strip()]
    lines = lines[:_SAMPLE_LINES]
    found: dict[Mark, list[str]] = {}
    for line in lines:
        label, rest = split(line)
        # NCCL's own lines begin with a host, too: "node1:4242:4243 [0] NCCL INFO".
        is_own = label.mark is Mark.NODE and rest and not line.endswith(b": " + rest)
        name = label.text.encode()
        if label.mark is not Mark.NONE and not is_own and not _NOT_HOSTS.match(name):
            found.setdefault(label.mark, []).append(label.text)
    for mark in (Mark.POD, Mark.TASK, Mark.NODE):
        texts = found.get(mark, ())
        if len(texts) >= _MOST_OF * len(lines) and texts:
            if mark is Mark.NODE and len(set(texts)) > max(1, len(texts) // 2):
                continue
            return mark
    return Mark.NONE


def unmarked(line: bytes, mark: Mark) -> tuple[Label | None, bytes]:
    """The label, where the text is marked so, and what stands behind it."""
    if mark is Mark.NONE:
        return None, line
    label, rest = split(line)
    return (label, rest) if label.mark is mark else (None, line)


_RULE: Final = re.compile(rb"-{10,200}\r?")
_NAME: Final = re.compile(rb"([A-Za-z0-9][A-Za-z0-9.,_\[\]-]{0,252})(?: \(\d+\))?\r?")
_OF_ANSIBLE: Final = re.compile(
    rb"([A-Za-z0-9][\w.-]{0,252}) \| (?:CHANGED|SUCCESS|FAILED!?) \| rc=\d+ >>\r?"
)


MOST_HOSTS: Final = 32
"""Of a text: each is read by itself."""


def by_host(text: bytes) -> dict[str, bytes]:
    """What each host, task or pod has printed, without labels; nothing where lines have none, or
    where there are more than MOST_HOSTS.

    In place of the lines of others there are empty ones: a line keeps its number.
    """
    lines, mark = text.split(b"\n"), marking(text)
    of = list(_below_headings(lines) if mark is Mark.NONE else _labelled(lines, mark))
    hosts = dict.fromkeys(host for host, _ in of if host)
    if len(hosts) > MOST_HOSTS:
        return {}
    found = {each: [b""] * len(lines) for each in hosts}
    for number, (host, line) in enumerate(of):
        if host:
            found[host][number] = line
    return {each: b"\n".join(rows) for each, rows in found.items()}


def _labelled(lines: list[bytes], mark: Mark) -> Iterator[tuple[str, bytes]]:
    for line in lines:
        label, rest = unmarked(line, mark)
        yield (label.text if label else ""), rest


def _below_headings(lines: list[bytes]) -> Iterator[tuple[str, bytes]]:
    host = ""
    for at, line in enumerate(lines):
        around = lines[at - 1 : at] + lines[at + 1 : at + 2]
        is_between = len(around) == 2 and all(map(_RULE.fullmatch, around))
        # A host of a cluster has a number; the title of a report mostly has none.
        is_host = is_between and any(each in b"0123456789" for each in line)
        heading = _OF_ANSIBLE.fullmatch(line) or (is_host and _NAME.fullmatch(line))
        if heading:
            host = heading[1].decode()
        is_line = not heading and not _RULE.fullmatch(line)
        yield (host, line) if is_line else ("", b"")
