"""What listings show of a host beside its ports: modules, neighbours, filters, PCI Express.

lsmod(8), ip-neighbour(8), iptables(8), nft(8), lspci(8), ethtool(8) --module-info, and rdma(8) of
network namespaces.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from rdmadiag.explain.pasted.session import Line, Part, Shown
from rdmadiag.facts.ib import ROCE_V2_PORT
from rdmadiag.late import late

_LSMOD: Final = late(r"\blsmod\b.*\bgrep\b")
MODULES: Final = {
    "peermem": ("gdr-off",),
    "nv_peer_mem": ("gdr-off",),
    "ib_uverbs": ("ib-uverbs-not-loaded",),
    "rdma_ucm": ("rdma-ucm-not-loaded",),
    "gdrdrv": ("gdrdrv-missing",),
}
"""By a part of a module's name: what it means that lsmod does not list it."""
_IB: Final = late(r"\bgrep\b.*\bib_?(?=['\"|) ]|$)")
"""What of lsmod's list was asked for: all whose names begin with ib."""
_RDMA: Final = late(r"\bgrep\b.*\brdma_?(?=['\"|) ]|$)")
_OFF: Final = late(r"\s*cmode \S+ value false\b")
_MODULE_HOT: Final = late(r"Temperature \[C\]\s*: (\d+) \[-?\d+\.\.(\d+)\]")
_NVM_OFF: Final = late(
    r"\s*support_rdma\s*[=:]\s*(?:False|disabled?|0)\s*$"
    r"|\s*(?:\*\s*)?ROCE_CONTROL\s+(?:\S+\s+)?ROCE_DISABLE\(1\)",
    re.IGNORECASE,
)
"""Of Broadcom's niccli and of mlxconfig: a setting of the adapter."""
_NO_ATS: Final = late(r"\s*ATSCtl:\s+Enable-")
_WITH_GPU: Final = late(r"/GDRDMA\b|--use_(?:cuda|rocm)\b")
_SMALL_READS: Final = late(r"\s*(?:DevCtl:\s+)?MaxPayload \d+ bytes, MaxReadReq 128 bytes\s*$")
_NO_PFC: Final = late(r"Ethernet\S+\s+Auto\s+Off\s+\d+\s+\d+\s*$")
"""Of NX-OS, `show interface priority-flow-control`: nothing was negotiated by DCBX."""
_LNET: Final = late(r"\s*(?:- )?nid: \S+@o2ib\d*\s*$")
_LNET_DOWN: Final = late(r"\s*status: down\s*$")
_NOT_DETECTED: Final = late(r"\s*Link detected: no\s*$")
_NEIGHBOUR: Final = late(r"\s*(?:\d+\.){3}\d+ (?:dev \S+ )?(?:used \S+ )?(?:FAILED|INCOMPLETE)\b")
_DROPS: Final = late(
    r"\s*(?:\d+\s+)?(\d+[KMG]?)\s+\d+[KMG]?\s+(?:DROP|REJECT)\s+(?:udp|17)\s+.*?(dpt:4791|dpts:\d+:\d+)?\s*$"
)
_NFT: Final = late(r"\s*udp dport (?:\{[^}]*)?\b4791\b.*\b(?:drop|reject)\b")
_UFW: Final = late(r"Status: active\s*$")
_UFW_PASSES: Final = late(r"Default: allow \(incoming\)")
_UFW_ROW: Final = late(r"(\S.*?) {2,}(ALLOW|LIMIT|DENY|REJECT)(?: IN)? {2,}\S")
_UFW_PORTS: Final = late(r"(\d+(?::\d+)?(?:,\d+(?::\d+)?)*)(?:/(tcp|udp))?(?: \(v6\))?$")
_SOFT_ROCE: Final = late(r"\brxe\w*\d\b")
"""Its packets pass the filters of the kernel; those of an adapter do not."""
_ADAPTER: Final = late(r"\b(?:mlx[45]|bnxt_re|irdma|roce|rocep|qedr|hns|efa|erdma)_?\d")
_DENIES: Final = late(
    r"\s*\d+ deny (?:udp .*\b(4791)\b|(?:ip|udp) any any)(?:.*[\[(](?:match=|hits )?(\d+))?"
)
"""Of an access list of a switch or router, with how often it was met."""
_BANDWIDTH: Final = late(
    r".*\bmlx5_core .*: (\d{1,6}(?:\.\d{1,6})?) Gb/s available PCIe bandwidth"
    r"(?:, limited by [\d.]+ GT/s(?: PCIe)? "
    r"(x\d+) link at .*\(capable of (\d{1,6}(?:\.\d{1,6})?) Gb/s with "
    r"[\d.]+ GT/s(?: PCIe)? (x\d+) link"
    r"| \([\d.]+ GT/s(?: PCIe)? x\d+ link)"
)
"""Of the kernel's __pcie_print_link_status; "PCIe" stands there since 5.6."""
_DOWNGRADED: Final = late(r"\s*LnkSta:.*\(downgraded\)")
_OTHER_CARD: Final = late(r"[0-9a-f:.]{7,12} (?!Ethernet|Infiniband|Network)\w[\w/ ]+: ")
_REDIRECTS: Final = late(r"\s*ACSCtl:.*\bReqRedir\+")
_HOT: Final = late(r"\s*Module temperature high alarm\s*: On\s*$")
_DARK: Final = late(
    r"\s*(?:Laser (?:rx|tx|output|bias|receiver)?.*|Rcvr signal avg optical power.*|Rx power.*)"
    r"low alarm.*: On\s*$",
)
_LINES: Final = (
    (_HOT, ("too-hot", "cable-or-module"), True),
    (_DARK, ("cable-or-module", "link-lost"), True),
    (_NEIGHBOUR, ("peer-unreachable", "no-path"), False),
    (_REDIRECTS, ("acs-or-iommu", "slow-path"), False),
    (_SMALL_READS, ("slow-path", "pcie-error"), False),
    (_NO_PFC, ("traffic-not-lossless", "slow-path"), False),
    (_NOT_DETECTED, ("port-down", "link-lost", "cable-or-module"), False),
)
"""What a line by itself shows: the causes, and whether it is certain."""
_EXCLUSIVE: Final = late(r"\s*netns exclusive\b")
_NO_DEVICES: Final = late(r"\s*No (?:IB|RDMA) devices? found")
_NODE: Final = late(r"\buverbs\d+\b")
"""Of a container that has the node of a device, whose device is of another namespace."""
_IN_ANOTHER: Final = late(r"\bip netns exec \S+ rdma (?:dev|link)\b")
_PKEY: Final = late(r"\s*0x([0-9a-f]{4})\s*$")
_CHILD: Final = late(r"\s*(?:\d+: )?\w+\.([0-9a-f]{4})@\w+:? ")
_PARENT_UP: Final = late(r"(ib\w*)\s+UP\s")
_JOIN_FAILED: Final = late(r"\bmulticast join failed for ")
_CHILD_DOWN: Final = late(r"\w+\.[0-9a-f]{4}@(ib\w*)\s+DOWN\s+\d")
"""Of ip(8) -brief: one with an address, so that somebody wants it up."""
HALF: Final = 0.5  # of the bandwidth that the adapter is capable of
QUARTER: Final = 0.26  # two generations
MEMBERSHIP: Final = 0x7FFF  # of a P_Key without the bit of full membership


def of_host(several: Sequence[Part]) -> Iterator[Shown]:
    """What they show, the surest first."""
    yield from _of_filters(several)
    yield from _of_namespaces(several)
    yield from _of_partitions(several)
    yield from _of_lnet(several)
    for part in several:
        yield from _of_lines(part)
    yield from _of_slots(several)
    yield from _of_nodes(several)
    yield from _of_mappings(several)
    yield from _of_modules(several)
    yield from _of_translation(several)
    yield from _of_port_mappers(several)


def _of_port_mappers(several: Sequence[Part]) -> Iterator[Shown]:
    """iwpmd(8) runs at one of two hosts, and over iWARP a connection is refused: the port that it
    maps there is not asked for.
    """
    texts = [line.text for part in several for line in part.lines]
    if not any(map(_OF_IWARP.search, texts)) or not any(map(_REFUSED.search, texts)):
        return
    found = {
        part.host: line
        for part in several
        if part.host and _ASKS_FOR_IWPMD.search(part.command)
        for line in part.lines
        if line.text.strip() in ("active", "inactive", "failed")
    }
    without = [line for line in found.values() if line.text.strip() != "active"]
    if without and len(without) < len(found):
        yield Shown(("helper-service-down",), without[0])


_OF_IWARP: Final = late(r"(?i:\biwarp\b)|\biw_?cxgb4\b|\bcxgb4_\d|\bsiw_?\d|\biwpm_")
_REFUSED: Final = late(r"\bRDMA_CM_EVENT_REJECTED\b")
_ASKS_FOR_IWPMD: Final = late(r"\bsystemctl is-active iwpmd(?:\.service)?\s*$")


def _of_translation(several: Sequence[Part]) -> Iterator[Shown]:
    """A NIC without address translation of its own, on a host whose GPU memory it reads."""
    lines = [line for part in several for line in part.lines]
    if any(_WITH_GPU.search(line.text) for line in lines):
        for line in lines:
            if _NO_ATS.match(line.text):
                yield Shown(("acs-or-iommu", "slow-path"), line, False)


def _of_lines(part: Part) -> Iterator[Shown]:
    is_network = True
    for line in part.lines:
        if _OTHER_CARD.match(line.text):
            is_network = False
        elif line.text[:1].isalnum() and " controller" in line.text:
            is_network = True
        if is_network and _DOWNGRADED.match(line.text):
            yield Shown(("pcie-link-narrow", "slow-path", "pcie-error"), line, False)
        elif ("enable_roce" in part.command and _OFF.match(line.text)) or _NVM_OFF.match(line.text):
            yield Shown(("rdma-off-on-device", "no-rdma-device"), line)
        elif (found := _MODULE_HOT.match(line.text)) and int(found[1]) > int(found[2]):
            yield Shown(("too-hot", "cable-or-module"), line)
        yield from (
            Shown(causes, line, sure) for each, causes, sure in _LINES if each.match(line.text)
        )


def _of_slots(several: Sequence[Part]) -> Iterator[Shown]:
    """An adapter in a slot of fewer lanes, or far slower, or as no other of its kind beside it.

    An older host gives each of them half of what it is capable of, by its generation.
    """
    lines = [line for part in several for line in part.lines]
    found = [(line, row) for line in lines if (row := _BANDWIDTH.match(line.text))]
    whole = {float(row[1]) for _, row in found if not row[2]}
    for line, row in found:
        if row[2]:
            narrow = row[2] != row[4] and float(row[1]) < HALF * float(row[3])
            if narrow or float(row[1]) < QUARTER * float(row[3]) or float(row[3]) in whole:
                yield Shown(("pcie-link-narrow", "slow-path", "pcie-error"), line, False)


def _of_nodes(several: Sequence[Part]) -> Iterator[Shown]:
    """Device nodes that root alone may open, where a user's program had no context of one."""
    lines = [line for part in several for line in part.lines]
    nodes = [line for line in lines if _ROOTS_NODE.match(line.text)]
    texts = [line.text for line in lines]
    if nodes and any(map(_NO_CONTEXT.search, texts)) and any(map(_NOT_ALLOWED.search, texts)):
        yield Shown(("uverbs-node-not-openable",), nodes[0])


def _of_mappings(several: Sequence[Part]) -> Iterator[Shown]:
    """/proc/driver/nvidia/params without what NVSHMEM's IBGDA needs, which has failed."""
    lines = [line for part in several for line in part.lines]
    if any(_IBGDA.search(line.text) for line in lines):
        for line in lines:
            if _NO_STREAM.match(line.text):
                yield Shown(("gpu-peer-mapping-off", "gdr-off"), line)


_IBGDA: Final = late(r"\binit failed for transport: IBGDA\b")
_NO_STREAM: Final = late(r"\s*EnableStreamMemOPs: 0\s*$")
_ROOTS_NODE: Final = late(r"\s*crw-------\S? +\d+ root +root .*\buverbs\d+\s*$")
_NO_CONTEXT: Final = late(r"\(struct ibv_context \*\) (?:0x0|NULL)\b")
"""What gdb prints of it."""
_NOT_ALLOWED: Final = late(r"^\$\d+ = 13$|\bEACCES\b|\bPermission denied\b")


_MLX: Final = late(r"\bgrep\b.*\bmlx5?_?(?=['\"|) ]|$)")
_EMPTY: Final = late(r"\s*-{6,}\s+-{6,}\s*$|\s*No (?:IB|RDMA) devices? found")
"""ibv_devices and ibv_devinfo, without any."""
_NO_CHANNEL: Final = late(r"\brdma_create_event_channel\b.*\bNo such (?:device|file)")


def _of_modules(several: Sequence[Part]) -> Iterator[Shown]:
    has_none = any(_EMPTY.match(part.lines[-1].text) for part in several if part.lines)
    no_channel = any(_NO_CHANNEL.search(line.text) for part in several for line in part.lines)
    for part in several:
        if not _LSMOD.search(part.command):
            continue
        names = {line.text.split()[0] for line in part.lines if line.text.split()}
        core = next((line for line in part.lines if line.text.startswith("ib_core ")), None)
        driver = next((line for line in part.lines if line.text.startswith("mlx5_core ")), None)
        if core and _IB.search(part.command) and "ib_uverbs" not in names:
            yield Shown(("ib-uverbs-not-loaded", "uverbs-node-missing"), core)
        elif core and _RDMA.search(part.command) and not _lists(part, "rdma_ucm"):
            yield Shown(("rdma-ucm-not-loaded",), core, no_channel)
        elif driver and _MLX.search(part.command) and not _lists(part, "mlx5_ib"):
            yield Shown(("kernel-module-missing", "no-rdma-device"), driver, has_none)
        for module, causes in MODULES.items():
            if module in part.command and not any(module in name for name in names):
                number = part.lines[0].number - 1 if part.lines else 1
                yield Shown(causes, Line(number, part.command), False)


def _lists(part: Part, module: str) -> bool:
    return any(module in line.text for line in part.lines)


def _of_filters(several: Sequence[Part]) -> Iterator[Shown]:
    """A rule that drops RoCE, and one of all UDP whose packets have become more."""
    yield from _of_ufw(several)
    yield from _of_firewalld(several)
    yield from _of_prohibited(several)
    seen: dict[str, str] = {}
    for part in several:
        for line in part.lines:
            found = _DROPS.match(line.text)
            denies = _DENIES.match(line.text)
            if denies and denies[1] and denies[2] != "0":  # it may not be in use
                yield Shown(("roce-port-dropped", "firewall"), line)
            elif denies and denies[2]:
                rule = line.text.split("[")[0].split("(")[0]
                if seen.setdefault(rule, denies[2]) != denies[2]:
                    yield Shown(("roce-port-dropped", "firewall"), line)
            if _NFT.match(line.text) or (found and found[2] == "dpt:4791" and found[1] != "0"):
                yield Shown(("firewall", "roce-port-dropped"), line)
            elif found and not found[2]:
                rule = line.text.split(None, 2)[2]
                if seen.setdefault(rule, found[1]) != found[1]:
                    yield Shown(("firewall", "roce-port-dropped"), line)


def _of_ufw(several: Sequence[Part]) -> Iterator[Shown]:
    """ufw(8), which lets in only what its list allows, on hosts of soft RoCE alone."""
    texts = [text for part in several for text in (part.command, *(e.text for e in part.lines))]
    if not any(map(_SOFT_ROCE.search, texts)) or any(map(_ADAPTER.search, texts)):
        return
    for part in several:
        status = next((line for line in part.lines if _UFW.match(line.text)), None)
        rows = [found for line in part.lines if (found := _UFW_ROW.match(line.text))]
        if status is None or any(_UFW_PASSES.match(line.text) for line in part.lines):
            continue
        allowed = [row[1] for row in rows if row[2] in ("ALLOW", "LIMIT")]
        # A list of what is denied alone is that of a host which lets in all else.
        if allowed and not any(map(_may_be_of_roce, allowed)):
            yield Shown(("roce-port-dropped", "firewall"), status, False, if_unanswered=True)


def _of_firewalld(several: Sequence[Part]) -> Iterator[Shown]:
    """firewall-cmd(1) --list-all, of a zone that lets in neither UDP 4791 nor all, on hosts of soft
    RoCE alone.
    """
    texts = [text for part in several for text in (part.command, *(e.text for e in part.lines))]
    if not any(map(_SOFT_ROCE.search, texts)) or any(map(_ADAPTER.search, texts)):
        return
    for part in several:
        rows = {found[1]: found[2] for e in part.lines if (found := _OF_A_ZONE.match(e.text))}
        zone = next((line for line in part.lines if _ZONE.match(line.text)), None)
        if zone is None or rows.get("target") not in ("default", "%%REJECT%%", "DROP"):
            continue
        ports = [each.replace("-", ":") for each in rows.get("ports", "").split()]
        others = rows.get("protocols", ""), rows.get("rich rules", "")
        if "ports" in rows and not any((*map(_may_be_of_roce, ports), *others)):
            yield Shown(("roce-port-dropped", "firewall"), zone, False, if_unanswered=True)


_ZONE: Final = late(r"\w[\w-]* \((?:default, )?active(?:, default)?\)\s*$")
_OF_A_ZONE: Final = late(r"  (target|ports|protocols|rich rules): ?(.*?)\s*$")


def _of_prohibited(several: Sequence[Part]) -> Iterator[Shown]:
    """tcpdump(8): a host answers packets of RoCE with an ICMP that a filter forbids them."""
    lines = [line for part in several for line in part.lines]
    to = {found[1] for line in lines if (found := _TO_ROCE.search(line.text))}
    for line in lines:
        found = _PROHIBITED.search(line.text)
        if found and (found[1] or found[2]) in to:
            yield Shown(("roce-port-dropped", "firewall-rejects"), line)
            return


_TO_ROCE: Final = late(rf" > ((?:\d+\.){{3}}\d+)\.{ROCE_V2_PORT}: UDP\b")
_PROHIBITED: Final = late(
    r"\bIP ((?:\d+\.){3}\d+) > \S+: ICMP (?:host|net) \S+ unreachable - admin prohibited"
    r"|\bIP ((?:\d+\.){3}\d+) > \S+: ICMP \S+ udp port 4791 unreachable"
)


def _may_be_of_roce(to: str) -> bool:
    """Whether a row of ufw may let in UDP of port 4791: one without ports is of all, or a name."""
    found = _UFW_PORTS.match(to)
    if found is None:
        return True
    for each in found[1].split(","):
        first, _, last = each.partition(":")
        if int(first) <= ROCE_V2_PORT <= int(last or first):
            return found[2] != "tcp"
    return False


def _of_namespaces(several: Sequence[Part]) -> Iterator[Shown]:
    lines = [line for part in several for line in part.lines]
    rows = [line for line in lines if _EXCLUSIVE.match(line.text)]
    in_another = any(_IN_ANOTHER.search(part.command) and part.lines for part in several)
    has_none = any(_NO_DEVICES.match(line.text) for line in lines)
    if rows and (in_another or (has_none and any(_NODE.search(line.text) for line in lines))):
        yield Shown(("device-in-other-netns", "device-absent"), rows[0])


def _of_partitions(several: Sequence[Part]) -> Iterator[Shown]:
    """A child of IPoIB whose partition the host's port is no member of."""
    of: dict[str, set[int]] = {}
    for part in several:
        for line in part.lines:
            if "pkey" in part.command and (found := _PKEY.match(line.text)):
                of.setdefault(part.host, set()).add(int(found[1], 16) & MEMBERSHIP)
    for part in several:
        for line in part.lines:
            found = _CHILD.match(line.text)
            keys = of.get(part.host)
            if found and keys and int(found[1], 16) & MEMBERSHIP not in keys:
                yield Shown(("pkey-index", "multicast-refused"), line)
    yield from _of_children(several)


def _of_children(several: Sequence[Part]) -> Iterator[Shown]:
    """A child of IPoIB that is down where its parent is up."""
    if any(_JOIN_FAILED.search(line.text) for part in several for line in part.lines):
        return  # which says more
    for part in several:
        up = {found[1] for line in part.lines if (found := _PARENT_UP.match(line.text))}
        for line in part.lines:
            found = _CHILD_DOWN.match(line.text)
            if found and found[1] in up:
                yield Shown(("pkey-index", "multicast-refused"), line)


def _of_lnet(several: Sequence[Part]) -> Iterator[Shown]:
    """lnetctl net show, of a network interface of o2ib."""
    for part in several:
        for line, below in pairwise(part.lines):
            if _LNET.match(line.text) and _LNET_DOWN.match(below.text):
                yield Shown(("interface-down", "port-down", "link-lost"), below)
