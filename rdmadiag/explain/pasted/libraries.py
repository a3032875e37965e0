"""What libibverbs says of its providers where it then finds no device (libibverbs/init.c)."""

from collections.abc import Iterator, Sequence

from rdmadiag.explain.pasted.session import Part, Shown
from rdmadiag.late import late

_NO_PROVIDER = late(r"libibverbs: Warning: no userspace device-specific driver found for ")
_OTHER_ABI = late(r"libibverbs: Warning: Driver \S+ does not support the kernel ABI of ")
_NO_DEVICE = late(r"\s*No (?:IB|RDMA) devices? found")


def of_libraries(several: Sequence[Part]) -> Iterator[Shown]:
    """A kernel's device that no provider took, in a program that then had none."""
    for part in several:
        warned = [line for line in part.lines if _NO_PROVIDER.match(line.text)]
        if warned and any(_NO_DEVICE.match(line.text) for line in part.lines):
            yield Shown(("provider-missing", "library-mismatch"), warned[0])
        other = [line for line in part.lines if _OTHER_ABI.match(line.text)]
        if other and any(_NO_DEVICE.match(line.text) for line in part.lines):
            yield Shown(("provider-release", "provider-missing", "abi-mismatch"), other[0])
