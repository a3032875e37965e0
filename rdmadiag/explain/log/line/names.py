"""Devices, ports, GIDs and peers that a line names."""

import re
from typing import Final

from rdmadiag.facts.gid import Gid
from rdmadiag.late import late

_NAME: Final = (
    r"(?:mlx[45]_(?:bond_|ib|vf|roce)?\d+|bnxt_re(?:_bond)?\d+|irdma\d+|ionic_\d+|qedr\d+"
    r"|hns_\d+|erdma_\d+|mana_\d+|hfi1_\d+|cxgb4_\d+|i40iw\d+|siw\d+|rxe\d+|rxe_\w+|efa_\d+"
    r"|usnic_\d+|ocrdma\d+|qib\d+|vmw_pvrdma\d+|rdma_en\d+"
    r"|(?:rocep|ibp|rdmap|roceo|ibo|roceP|ibP)\d\w*)"
)
_DEVICE: Final = late(
    rf"(?<![\w.-])({_NAME})(?:[:/](\d{{1,3}})\b|\b[^\w]{{0,2}}[ ,]*port[ =:]+(\d+))?"
)
_NAMED: Final = late(
    r"(?:\b(?:hca|IB device|RDMA device|ibdev|Local device|Local adapter)[: =]+|\bon dev )"
    r"['\"]?([A-Za-z]\w*)(?::(\d+))?"
)
_BELOW: Final = late(r"(?:\s*Local host:.*\n)?\s*Local (?:device|adapter):\s+(\w+)()")
_PCI: Final = late(
    r"\b(?:mlx[45]_core|bnxt_en|irdma|ice|ionic|hns3) ([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d)"
)
_NOT_NAMES: Final = frozenset({"not", "found", "error", "failed", "is", "no", "for", "with", "was"})
_NO_NAMES: Final = frozenset(
    {"spec", "list", "name", "names", "attributes", "context", "and", "or"}
)


def device_of(text: str, after: str) -> tuple[str | None, int | None]:
    """Name, or PCI address, and port."""
    if found := _DEVICE.search(text):
        port = found[2] or found[3]
        return found[1], int(port) if port else None
    if found := _PCI.search(text):
        return found[1], None
    found = _NAMED.search(text) or _BELOW.match(after)
    if found and found[1].lower() not in _NOT_NAMES | _NO_NAMES:
        return found[1], int(found[2]) if found[2] else None
    return None, None


def devices_of(text: str) -> frozenset[str]:
    """All names of devices in it: this end's, and the peer's where the tool prints it."""
    return frozenset(found[1] for found in _DEVICE.finditer(text))


_GID_INDEX: Final = late(
    r"\bs?gid[ _]?(?:index|idx)[ _=:]*(\d{1,4})\b|\bGID (\d{1,4})\b|\bgid\[(\d{1,4})\]",
    re.IGNORECASE,
)
_ADDRESS: Final = r"([0-9a-fA-F:]{2,39}(?:\.\d{1,3}){0,3})"
_LOCAL_GID: Final = late(rf"\b(?:local|source|src)[ _-]?s?gids?[ =:]*{_ADDRESS}", re.IGNORECASE)
_REMOTE_GID: Final = late(
    rf"\b(?:remote|peer|dest|dst|d)[ _-]?gids?[ =:]*?{_ADDRESS}", re.IGNORECASE
)
_PEER: Final = late(
    r"\b(?:peer|from|to|with|remote)[ =:]+\[?([A-Za-z0-9][\w.:%-]*?)\]?<\d+>"
    r"|\bpeer(?: |=|: )((?:\d{1,3}\.){3}\d{1,3})"
)
_INFINIBAND_ALONE: Final = late(r"\bbtl_openib|\bib\d+: |\b(?:mthca|qib|ipath|hfi1_)\d")
_LINK_LAYER: Final = late(r"\d/(IB|RoCE)\b", re.IGNORECASE)


def gid_index_of(text: str) -> int | None:
    """The row of the GID table that was used."""
    found = _GID_INDEX.search(text)
    return int(next(each for each in found.groups() if each)) if found else None


def asks_for_row(text: str) -> bool:
    """Whether a program of libibverbs, or perftest, was started with a row that is not 0."""
    return _ROW_ASKED_FOR.search(text) is not None


_ROW_ASKED_FOR: Final = late(
    r"\bib(?:_|v_)\w+ [^|;\n]{0,200}(?:-g|-x|--gid-(?:idx|index))[ =]?[1-9]"
)


def local_gid_of(text: str) -> Gid | None:
    """The GID that was sent from."""
    return _gid(_LOCAL_GID, text)


def remote_gid_of(text: str) -> Gid | None:
    """The GID that was sent to."""
    return _gid(_REMOTE_GID, text)


def peer_of(text: str) -> str | None:
    """The other end's address or name, as the tool gives it."""
    found = _PEER.search(text)
    return found[1] if found else None


def link_layer_of(text: str) -> str | None:
    """ib or roce, where the line says so, or its program or device is of one of them alone."""
    found = _LINK_LAYER.search(text)
    if found:
        return found[1].lower()
    return "ib" if _INFINIBAND_ALONE.search(text) else None


def _gid(pattern: "re.Pattern[str]", text: str) -> Gid | None:
    found = pattern.search(text)
    if not found:
        return None
    address = found[1]
    # "remoteGids::ffff:192.0.2.1": the colon that belongs to the address was not taken.
    for candidate in (address, f"::{address}", f":{address}", address.rstrip(":")):
        try:
            return Gid.parse(candidate)
        except ValueError:
            continue
    return None


_ENDS: Final = late(
    r"(?P<which>local|remote) address: (?:[^\n]{0,120}?|[^\n]{0,120}\n[^\n]{0,80}?)"
    r"\bGID:? (?P<gid>[0-9a-fA-F:.]{2,64})"
)
"""
  local address:  LID 0x0000, QPN 0x000011, PSN 0x8bb31a, GID ::
 local address: LID 0000 QPN 0x0117 PSN 0x32a1c2 RKey 0x1ff000 VAddr 0x007f5522a00000
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:198:51:100:60
"""
_GID_BYTES: Final = 16


def printed_ends(above: str) -> bool:
    """Whether perftest or a pingpong of rdma-core printed an end of its connection."""
    return _ENDS.search(above) is not None


def printed_gid(above: str, end: str) -> Gid | None:
    """The last GID that perftest or a pingpong of rdma-core printed of this end."""
    found = [each for each in _ENDS.finditer(above) if each["which"] == end]
    if not found:
        return None
    address = found[-1]["gid"]
    parts = address.split(":")
    try:
        if len(parts) == _GID_BYTES:  # perftest prints each byte, in decimal
            return Gid(bytes(map(int, parts)))
        return Gid.parse(address)
    except ValueError:
        return None
