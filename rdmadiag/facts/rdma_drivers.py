"""Which kernel drivers carry RDMA, and the provider library of each.

Sources: drivers/infiniband/hw and sw of the kernel (module names, and the Ethernet
driver each one attaches to); rdma-core's providers/ (library names).
"""

from typing import Final

RDMA_MODULE_OF_PCI_DRIVER: Final = {
    "be2net": "ocrdma",
    "bnxt_en": "bnxt_re",
    "cxgb4": "iw_cxgb4",
    "efa": "efa",
    "enic": "usnic_verbs",
    "erdma": "erdma",
    "hfi1": "hfi1",
    "hns3": "hns_roce_hw_v2",
    "i40e": "irdma",
    "ib_mthca": "ib_mthca",
    "ib_qib": "ib_qib",
    "ice": "irdma",
    "idpf": "irdma",
    "ionic": "ionic_rdma",
    "mana": "mana_ib",
    "mlx4_core": "mlx4_ib",
    "mlx5_core": "mlx5_ib",
    "qede": "qedr",
    "vmw_pvrdma": "vmw_pvrdma",
}
"""The PCI function's own driver → the module that makes it an RDMA device."""

ALWAYS_RDMA: Final = frozenset(
    {"efa", "erdma", "hfi1", "ib_mthca", "ib_qib", "mlx4_core", "mlx5_core", "vmw_pvrdma"}
)
"""PCI drivers of functions that all carry RDMA; of the others some do and some do not."""

ALWAYS_RDMA_VENDORS: Final = frozenset({"0x15b3"})
"""PCI vendors whose network functions all carry RDMA, whatever driver holds them (NVIDIA)."""

SOFTWARE_MODULES: Final = frozenset({"rdma_rxe", "siw"})
"""Modules that make an RDMA device of any netdev."""

CORE_MODULES: Final = frozenset(
    {
        "ib_cm",
        "ib_core",
        "ib_ipoib",
        "ib_umad",
        "ib_uverbs",
        "iw_cm",
        "nv_peer_mem",
        "nvidia_peermem",
        "rdma_cm",
        "rdma_ucm",
        "rdmavt",
    }
)

RDMA_MODULES: Final = (
    CORE_MODULES | SOFTWARE_MODULES | frozenset(RDMA_MODULE_OF_PCI_DRIVER.values())
)
"""The modules that a report names where they are loaded."""

PROVIDER_LIBRARY: Final = {
    "hfi1": "hfi1verbs",
    "i40iw": "irdma",
    "ice": "irdma",
    "i40e": "irdma",
    "idpf": "irdma",
    "qib": "ipathverbs",
    "ib_qib": "ipathverbs",
    "ib_mthca": "mthca",
    "be2net": "ocrdma",
    "bnxt_en": "bnxt_re",
    "hns3": "hns",
    "mlx4_core": "mlx4",
    "mlx5_core": "mlx5",
    "qede": "qedr",
}
"""Driver → NAME of rdma-core's libNAME-rdmavN.so, where the two differ."""


def provider_of(driver: str) -> str:
    """The provider library's name for a kernel or uverbs driver."""
    return PROVIDER_LIBRARY.get(driver, driver)


PROVIDER_FOLDER: Final = "/etc/libibverbs.d"
"""IBV_CONFIG_DIR of rdma-core: its files name the providers that libibverbs loads."""
