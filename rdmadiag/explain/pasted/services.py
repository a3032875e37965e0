"""What else of a host, or of a cluster, shows that RDMA is not there: units, pods, paths, mounts.

systemctl(1), devlink-health(8), kubectl, nvme-list-subsys(1), mount(8), ibping(8), ss(8).
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from rdmadiag.explain.pasted.session import Part, Shown
from rdmadiag.late import late

_UNIT: Final = late(
    r"\W{0,3}(openibd|mlnx-en\.d|rdma|opensmd?|opafm|ibacm|iwpmd|rdma-ndd|srp_daemon)"
    r"(?:@\w+)?(?:\.service)? - "
)
_OTHER_UNIT: Final = late(r"\W{0,3}\S+\.(?:service|socket|timer|target|mount|device|path|slice)\b")
_ACTIVE: Final = late(r"\s*Active: ")
_FAILED: Final = late(r"\s*Active: failed\b")
UNITS: Final = {
    **dict.fromkeys(("openibd", "mlnx-en.d", "rdma"), ("kernel-module-missing", "driver-refused")),
    **dict.fromkeys(("opensm", "opensmd", "opafm"), ("no-subnet-manager",)),
    **dict.fromkeys(("ibacm", "iwpmd", "rdma-ndd", "srp_daemon"), ("helper-service-down",)),
}
"""What it means that one of these has failed."""
_REPORTER: Final = late(r"\s*reporter (fw|fw_fatal)\s*$")
_ERROR: Final = late(r"\s*state error\b")
_ALLOCATABLE: Final = late(r"Allocatable:\s*$")
_NONE_OF_IT: Final = late(r"\s+(?:rdma/\S+|\S*/\S*(?:rdma|hca|mlnx|roce|infiniband)\S*):\s+0\s*$")
_POD: Final = late(
    r"(?:\S+\s+)?(rdma-shared-dp\S*|mofed-\S+|(?:ib-)?sriov-(?:network-)?device-plugin\S*"
    r"|rdma-cni\S*|doca-driver-\S+)\s+0/\d+\s+"
    r"(?:Init:)?(?:CrashLoopBackOff|Error|CreateContainerConfigError)\b"
)
_PATH: Final = late(r"\s*\+- nvme\d+ rdma traddr=\S+ (?:connecting|deleting)\b")
_MOUNTS: Final = late(r"(?:sudo )?mount\b.*\s-o\s*(?:\S*,)?(?:proto=)?rdma(?:,\S*)?\s.*?(/\S*)\s*$")
_MOUNTED: Final = late(r"\S+ (?:on )?(/\S*) (?:type )?nfs4? .*\bproto=tcp\b")
_OF_IBPING: Final = late(r"--- .*\bibping statistics ---\s*$")
_NO_ANSWER: Final = late(r"\s*\d+ packets transmitted, 0 received, 100% packet loss")
_LISTENS: Final = late(r"(?:tcp\s+)?LISTEN\s+\d+\s+\d+\s+(?:0\.0\.0\.0|\*|\[::\])[:.](\d+)\s")
_NO_CONNECTION: Final = late(r"\s*Couldn't connect to \S+:(\d+)\s*$")


def of_services(several: Sequence[Part]) -> Iterator[Shown]:
    """What they show, the surest first."""
    for part in several:
        yield from _of_units(part)
        yield from _of_resources(part)
        for line, below in pairwise((*part.lines, *part.lines[-1:])):
            if _REPORTER.match(line.text) and _ERROR.match(below.text):
                yield Shown(("firmware-failed", "device-resetting"), below)
            elif found := _POD.match(line.text):
                is_driver = found[1].startswith(("mofed", "doca"))
                first = ("kernel-module-missing",) if is_driver else ()
                yield Shown((*first, "resource-not-advertised"), line, False)
            elif _PATH.match(line.text):
                yield Shown(("peer-unreachable", "peer-gone", "no-path"), line, False)
            elif _OF_IBPING.match(line.text) and _NO_ANSWER.match(below.text):
                yield Shown(("mad-unanswered", "peer-host-down", "no-path"), below)
    yield from _of_mounts(several)
    yield from _of_listeners(several)


def _of_units(part: Part) -> Iterator[Shown]:
    unit = ""
    for line in part.lines:
        if found := _UNIT.match(line.text):
            unit = found[1]
        elif _OTHER_UNIT.match(line.text):
            unit = ""
        elif unit and _ACTIVE.match(line.text):
            if _FAILED.match(line.text):
                yield Shown(UNITS[unit], line)
            unit = ""


def _of_resources(part: Part) -> Iterator[Shown]:
    """kubectl describe node."""
    is_allocatable = False
    for line in part.lines:
        if _ALLOCATABLE.match(line.text):
            is_allocatable = True
        elif not line.text.startswith(" "):
            is_allocatable = False
        elif is_allocatable and _NONE_OF_IT.match(line.text):
            yield Shown(("resource-not-advertised", "container-without-device"), line)


def _of_mounts(several: Sequence[Part]) -> Iterator[Shown]:
    """NFS that was mounted with RDMA, and goes over TCP."""
    asked = {found[1] for part in several if (found := _MOUNTS.match(part.command))}
    for line in (line for part in several for line in part.lines):
        if (found := _MOUNTED.match(line.text)) and found[1] in asked:
            yield Shown(("transport-unusable", "feature-not-built"), line, False)


def _of_listeners(several: Sequence[Part]) -> Iterator[Shown]:
    """A port that a host listens at, and that another one does not reach."""
    listens = {
        found[1] for part in several for line in part.lines if (found := _LISTENS.match(line.text))
    }
    for line in (line for part in several for line in part.lines):
        if (found := _NO_CONNECTION.match(line.text)) and found[1] in listens:
            yield Shown(("firewall", "firewall-rejects", "no-route"), line)
            return
