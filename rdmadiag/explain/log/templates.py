"""What a line of a log gives to the templates of explain.remedies."""

from typing import TYPE_CHECKING

from rdmadiag.facts.gid import Gid, Scope
from rdmadiag.facts.macos import subnet_of
from rdmadiag.quoting import shell_word

if TYPE_CHECKING:
    from rdmadiag.explain.log.line.fields import Fields

_PCI = ":"


def facts_of(found: "Fields") -> dict[str, str]:
    """Names come from the log: each is one word of the shell."""
    facts = {"on": "", "on_device": "", "source": "ADDRESS", "target": "PEER"}
    if found.device and _PCI not in found.device:
        port = found.port or 1
        at = f"{found.device}:{found.port}" if found.port else found.device
        folder = f"/sys/class/infiniband/{found.device}"
        facts |= {
            "on": f" --device {shell_word(at)}",
            "on_device": f" -d {shell_word(found.device)}",
            "device": shell_word(found.device),
            "port": str(port),
            "sysfs": shell_word(folder),
        }
        if found.platform == "darwin":
            netdev = found.device.removeprefix("rdma_")
            facts |= {"netdev": shell_word(netdev), "subnet": subnet_of(netdev)}
        elif found.gid_index is not None:
            facts["ndev"] = shell_word(f"{folder}/ports/{port}/gid_attrs/ndevs/{found.gid_index}")
        if found.link_layer == "ib":
            facts |= {"hca": facts["device"], "pkeys": shell_word(f"{folder}/ports/{port}/pkeys")}
    here, there = found.local_gid, found.remote_gid
    if _is_address(here) and _is_address(there):
        assert here
        assert there
        facts |= {"source": here.ipv4 or str(here), "target": there.ipv4 or str(there)}
    return facts


def _is_address(gid: Gid | None) -> bool:
    return gid is not None and (gid.is_ipv4_mapped or gid.scope in (Scope.GLOBAL, Scope.PRIVATE))
