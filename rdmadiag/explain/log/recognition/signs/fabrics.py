"""Lines of transports that say themselves what does not fit: a setting, an ability, a limit.

From the strings of UCX src/uct/ib (ib_device.c, ib_iface.c, ib_md.c, rc_iface.c, mlx5/), of
libfabric prov/verbs and prov/efa, and of PSM3's hal_verbs.
"""

from typing import Final

from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.recognition.signs.sign import Errno, sign
from rdmadiag.explain.remedies import DEVICES, DMESG_OF_RDMA, LIBRARIES
from rdmadiag.facts.attempt import Stage

_OF_TRANSPORT: Final = r"\bucx\b|libfabric|psm3|mlx[45]_\d|\buct_"

SIGNS: Final = (
    # --- settings --------------------------------------------------------------------------
    sign(
        "setting-refused",
        Kind.FAILURE,
        Stage.OPEN,
        r"both \w+ and \w+ are specified, please|\binvalid parameter for [a-z]+_\w+:"
        r"|\bsubnet filter '[^']{1,60}' is invalid|\brequested pkey 0x[0-9a-f]+ is invalid"
        r"|<warn> invalid value of \w+|\binvalid info->domain_attr->name"
        r"|\bpsm3_addr_fmt=\d+ specified, but|\binvalid value of tm_mp_num_strides",
        ("argument-refused",),
        only=_OF_TRANSPORT,
    ),
    sign(
        "settings-differ",
        Kind.FAILURE,
        Stage.CONNECT,
        r"\bmismatched psm3_rdma config",
        ("arguments-differ",),
    ),
    sign(
        "protocols-differ",
        Kind.FAILURE,
        Stage.CONNECT,
        r"\b(?:xrc msg ep|reciprocal) connection protocol mismatch",
        ("other-program",),
    ),
    # --- what the device, its driver or its library has not ---------------------------------
    sign(
        "device-lacks",
        Kind.FAILURE,
        Stage.OPEN,
        r"\bdevx requested but not supported|strong-order memory keys are not supported"
        r"|\bar=\w+ was requested for sl=|\bcannot set ar_enable="
        r"|\bnone of the provided srq topology"
        r"|since the device does not support ece"
        r"|\bdoes(?: not|n't) support (?:cq interrupts|> \d+ iov)"
        r"|external memory cq requested but not"
        r"|\bibv_open_xrcd: operation not supported"
        r"|\breserved qpn is not supported",
        ("device-lacks-capability", "provider-release"),
        only=_OF_TRANSPORT + r"|\befa\b",
        errno=Errno.LAST,
    ),
    sign(
        "library-lacks",
        Kind.FAILURE,
        Stage.OPEN,
        r"relaxed-only memory keys, but ibv_access",
        ("provider-release", "device-lacks-capability"),
        LIBRARIES,
    ),
    sign(
        "no-such-port",
        Kind.FAILURE,
        Stage.OPEN,
        r"\b\w+:\d+: failed to find port\b",
        ("no-such-port", "device-absent"),
        (DEVICES,),
    ),
    sign(
        "kernel-module-missing",
        Kind.FAILURE,
        Stage.OPEN,
        r"\bunable to open (?:rv|rendezvous module) for port \d",
        ("kernel-module-missing", "uverbs-node-not-openable"),
        ("lsmod | grep -w rv   # PSM3's rendezvous module", "ls -l /dev/rv"),
    ),
    sign(
        "no-address-at-port",
        Kind.FAILURE,
        Stage.OPEN,
        r"\bunable to get subnet for port \d",
        ("no-usable-gid", "interface-down", "port-down"),
        errno=Errno.LAST,
    ),
    sign(
        "port-not-active",
        Kind.FAILURE,
        Stage.OPEN,
        r"\blink layer on port \d+ of [^ ]{1,40} is unknown",
        ("port-down",),
        (DEVICES,),
    ),
    # --- limits ----------------------------------------------------------------------------
    sign(
        "completion-channel",
        Kind.FAILURE,
        Stage.CREATE_CQ,
        r"\bunable to create (?:recv cq )?completion channel",
        ("open-files-limit", "no-memory"),
        errno=Errno.FIRST,
    ),
    sign(
        "qp-too-large",
        Kind.FAILURE,
        Stage.CREATE_QP,
        r"\brequested (?:qp|srq) size might be too big|\binsufficient (?:send|recv) sges on"
        r"|\brc qp send q too small: limited",
        ("qp-too-large",),
    ),
    sign(
        "fork-unsafe",
        Kind.FAILURE,
        Stage.REG_MR,
        r"\blibibverbs fork support and huge pages",
        ("fork-unsafe",),
    ),
    # UCX' warning of each process that starts another one: jobs go on after it
    sign(
        "fork-unsafe",
        Kind.NOTE,
        Stage.REG_MR,
        r"\byet a fork\(\) has been issued"
        r"|\bdata corruption might occur when using registered memory",
        ("fork-unsafe",),
    ),
    # --- commands of mlx5 by DevX: errno 121 says that the firmware has refused one ------------
    sign(
        "driver-refused",
        Kind.FAILURE,
        None,
        r"\bmlx5dv_devx_(?:obj|qp)_(?:modify|query)\([^)]{1,40}\) failed, syndrome 0x0*[1-9a-f]",
        ("driver-refused", "device-lacks-capability"),
        (DMESG_OF_RDMA, DEVICES),
    ),
    sign(
        "firmware-silent",
        Kind.FAILURE,
        Stage.REG_MR,
        r"\bibv_poll_cq\(umr cq\b.{0,80}timed out",
        ("firmware-silent", "firmware-failed"),
        (DMESG_OF_RDMA,),
    ),
    # --- the peer --------------------------------------------------------------------------
    sign(
        "peer-lost",
        Kind.FAILURE,
        Stage.DATA,
        r"\bunresponsive remote \(was previously responsive"
        r"|\bunresponsive receiver \(connection previously established",
        ("peer-gone", "link-lost", "no-path", "security-group"),
    ),
    # enum ib_cm_rej_reason: 8 no listener, 10 a connection that the peer still has
    sign(
        "rejected",
        Kind.FAILURE,
        Stage.CONNECT,
        r"<warn> .{0,40}\bcm reject 8\b",
        ("peer-not-listening", "peer-not-started"),
        errno=Errno.LAST,
    ),
    sign(
        "rejected",
        Kind.FAILURE,
        Stage.CONNECT,
        r"<warn> .{0,40}\bcm reject 10\b",
        ("connection-stale",),
        errno=Errno.LAST,
    ),
    sign(
        "address-handle",
        Kind.FAILURE,
        Stage.CONNECT,
        r"\bibv_create_ah failed with einval.{0,200}different availability zone",
        ("no-path", "peer-address-unusable", "gid-not-an-address"),
        errno=Errno.LAST,
    ),
    sign(
        "interrupted",
        Kind.FAILURE,
        None,
        r"\b(?:rdma_get_cm_event|ibv_get_cq_event|ibv_get_async_event)\b.{0,30}"
        r"interrupted system call",
        ("interrupted",),
        errno=Errno.LAST,
    ),
)
