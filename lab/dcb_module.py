"""The module of lab/dcbtest for a guest's job."""

from lab.uml_kernel import UmlKernel
from lab.uml_module import setting

VARIABLE = "RDMADIAG_LAB_DCBTEST"  # where the guest's tests find it; not set: there is none


def settings(kernel: UmlKernel) -> dict[str, str]:
    """For the environment of a guest's job; empty, and said, where it cannot be had."""
    return setting(VARIABLE, kernel, "dcbtest")
