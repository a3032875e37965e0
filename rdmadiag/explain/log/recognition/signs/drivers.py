"""What drivers and firmware write to the kernel's log; the wordings: explain.kernel_messages."""

from typing import Final

from rdmadiag.explain.kernel_messages import pattern_of
from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.recognition.links import LINK_DOWN
from rdmadiag.explain.log.recognition.signs.sign import OF_DRIVER, sign
from rdmadiag.explain.remedies import DEVICES, DMESG_OF_RDMA

SIGNS: Final = (
    sign(
        "firmware-silent",
        Kind.FAILURE,
        None,
        pattern_of("firmware-silent"),
        ("firmware-silent",),
        (DMESG_OF_RDMA,),
        only=r"mlx[45]|bnxt|irdma|ionic|hns|qed|\befa 0000|\bice\b|mana|erdma|hfi1|cxgb",
    ),
    sign("access-register", Kind.NOTE, None, pattern_of("access-register"), ("register-refused",)),
    sign("slot-power", Kind.NOTE, None, pattern_of("slot-power"), ("slot-power",)),
    sign(
        "firmware-failed",
        Kind.FAILURE,
        None,
        pattern_of("firmware-failed"),
        ("firmware-failed", "device-resetting"),
        (DMESG_OF_RDMA, DEVICES, "# update the firmware; if it returns, replace the NIC"),
        only=r"mlx[45]_core|mlx5_|bnxt_en|bnxt_re|irdma|ionic|\bice\b|\bhns|\bqed|\befa 0000"
        r"|\bmana|erdma|hfi1",
    ),
    sign(
        "pcie-error", Kind.FAILURE, None, pattern_of("pcie-error"), ("pcie-error",), only=OF_DRIVER
    ),
    sign(LINK_DOWN, Kind.FAILURE, None, pattern_of(LINK_DOWN), ("link-lost",), only=OF_DRIVER),
)
