"""Causes in adapters, cables and fabrics that the kernel's log and fabric tools name."""

from typing import Final

from rdmadiag.explain.causes.cause import Cause
from rdmadiag.explain.remedies import DEVICES, DMESG_OF_RDMA

ROWS: Final = (
    Cause(
        "cable-or-module",
        "the cable or transceiver is missing, faulty, or not accepted by the device",
        linux=(
            "rdmadiag preflight --modules",
            "sudo dmesg | grep -iE 'module event|SFP|cable' | tail -20",
        ),
    ),
    Cause(
        "pause-storm",
        "perhaps pause frames (PFC or flow control) stop transmission: the peer or the switch does "
        "not drain",
        linux=(
            "ethtool -S {netdev} | grep -iE 'pause|storm'",
            "rdmadiag lossless{on}",
        ),
    ),
    Cause(
        "too-hot",
        "the device or its transceiver is too hot",
        linux=("sensors; ipmitool sdr type Fan", "ethtool -m {netdev} | grep -i temp"),
    ),
    Cause(
        "firmware-old",
        "firmware, or its file in /lib/firmware, and driver are of releases that do not fit",
        linux=(
            DEVICES,
            "mlxfwmanager --query   # NVIDIA",
            "# files of ice, qed and cxgb4: the package linux-firmware",
        ),
    ),
    Cause(
        "rdma-off-on-device",
        "RDMA is switched off for this device or function, or its configuration leaves no room",
        linux=(
            "devlink dev param show | grep -A3 -E 'enable_roce|enable_rdma'",
            "sudo dmesg | grep -iE 'ddp package|safe mode'   # Intel E800: no RDMA in safe mode",
        ),
    ),
    Cause(
        "pf-unready",
        "the driver of the physical function is not ready, was reloaded, or refuses what the "
        "virtual function asks",
        linux=("# on the host of the physical function", DMESG_OF_RDMA, "ip link show"),
    ),
    Cause(
        "sriov-off",
        "SR-IOV is off in firmware or BIOS, or there is too little room for virtual functions",
        linux=(
            "grep -H . /sys/class/infiniband/*/device/sriov_totalvfs",
            "# BIOS: SR-IOV, Above 4G decoding and ARI on; or the kernel's pci=realloc",
        ),
    ),
    Cause(
        "port-type-other",
        "the port is set to the other link type, InfiniBand or Ethernet",
        linux=(
            "grep -H . /sys/class/infiniband/*/ports/*/link_layer",
            "mlxconfig -d PCI_ADDRESS q LINK_TYPE_P1   # 1: InfiniBand, 2: Ethernet",
        ),
    ),
    Cause(
        "flow-steering-off",
        "the device's flow steering is not enabled (ConnectX-3: log_num_mgm_entry_size)",
        linux=("cat /sys/module/mlx4_core/parameters/log_num_mgm_entry_size   # -1: enabled",),
    ),
    Cause(
        "roce-udp-port-taken",
        "another program or kernel module has UDP port 4791, which is that of RoCE",
        linux=("sudo ss -ulpn 'sport = :4791'",),
    ),
    # --- the fabric ----------------------------------------------------------------------
    Cause(
        "duplicate-guid",
        "two devices or ports of the fabric have the same GUID",
        linux=("ibnetdiscover -p | cut -d' ' -f4 | sort | uniq -d", DEVICES),
    ),
    Cause(
        "mad-unanswered",
        "a management datagram got no answer, or was refused: the far port is down, hangs, or has "
        "another management key",
        linux=("ibstat; sminfo", "ibqueryerrors   # which links lose frames?"),
    ),
    Cause(
        "umad-missing",
        "ib_umad is not loaded, or this user may not open the umad node of the port",
        linux=("sudo modprobe ib_umad; ls -l /dev/infiniband/umad*",),
    ),
    Cause(
        "mst-not-started",
        "the MST modules are not loaded, or the device was named by a path that is not there",
        linux=("sudo mst start; mst status", "lspci -D -d 15b3:   # its address serves as a name"),
    ),
)
