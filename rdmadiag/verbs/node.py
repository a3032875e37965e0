"""The device's character node, opened and closed before libibverbs does."""

import os

from rdmadiag.verbs.lib import CallFailed


def try_node(name: str, folder: str = "/dev/infiniband") -> None:
    """Raises CallFailed where the device's node refuses to be opened.

    libibverbs waits five seconds for udev to make another node, for each device, and then
    gives the errno of that one's link (open_cdev.c of rdma-core).
    """
    if not name:
        return
    try:
        os.close(os.open(f"{folder}/{name}", os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        return
    except OSError as error:
        raise CallFailed("ibv_open_device", error.errno or 0) from None
