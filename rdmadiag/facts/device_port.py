"""DEV[:PORT] as people write it.

`rdma link add a:1 type rxe netdev eth0` makes a device named "a:1": the kernel refuses "%"
alone (nldev_newlink, drivers/infiniband/core/nldev.c) and turns "/" into "!" (kobject_set_name).

>>> split("mlx5_0:1"), split("mlx5_0/1"), split("a:b"), split("a:b:1")
(('mlx5_0', 1), ('mlx5_0', 1), ('a:b', None), ('a:b', 1))
>>> among("a", 1, ["a"]), among("a", 1, ["a:1"])
(('a', 1), ('a:1', None))
"""

from collections.abc import Collection
from typing import Final

from rdmadiag.facts.ib import DEVICE_NAME_BYTES
from rdmadiag.late import late

_PORT: Final = late(r"0|[1-9][0-9]{0,4}")


def split(text: str) -> tuple[str, int | None]:
    """The device, and the port where one is named; raises ValueError for what names neither."""
    for mark in "/:":  # "mlx5_0/1" is what `rdma link` prints, and no name has a slash
        name, found, port = text.rpartition(mark)
        if found and name and _PORT.fullmatch(port):
            text, number = name, int(port)
            break
    else:
        number = None
    if not text or "/" in text or len(text.encode(errors="replace")) > DEVICE_NAME_BYTES:
        raise ValueError(f"{text!r} is not DEV or DEV:PORT")
    return text, number


def among(device: str, port: int | None, names: Collection[str]) -> tuple[str, int | None]:
    """The same of a host with devices of these names: "a:1" may be one of them."""
    whole = f"{device}:{port}"
    if port is not None and device not in names and whole in names:
        return whole, None
    return device, port
