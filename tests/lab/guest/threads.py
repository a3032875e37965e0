"""A program whose threads open rxe0 and make its objects: some have ended when it says "ready"."""

import ctypes
import sys
import threading
import time
from collections.abc import Callable

LIBRARY = ctypes.CDLL("libibverbs.so.1")
POINTER = ctypes.c_void_p
for name in ("get_device_list", "open_device", "alloc_pd", "create_cq", "reg_mr"):
    getattr(LIBRARY, f"ibv_{name}").restype = POINTER

made: dict[str, ctypes.c_void_p] = {}
stays = threading.Event()


def open_device() -> None:
    listed = POINTER(LIBRARY.ibv_get_device_list(None))
    first = ctypes.cast(listed, ctypes.POINTER(POINTER))[0]
    made["context"] = POINTER(LIBRARY.ibv_open_device(POINTER(first)))


def alloc_pd() -> None:
    made["pd"] = POINTER(LIBRARY.ibv_alloc_pd(made["context"]))


def create_cq_and_stay() -> None:
    made["cq"] = POINTER(LIBRARY.ibv_create_cq(made["context"], 4, None, None, 0))
    stays.set()
    time.sleep(600)


def run(task: Callable[[], None]) -> None:
    thread = threading.Thread(target=task)
    thread.start()
    thread.join()


if __name__ == "__main__":
    run(open_device)
    run(alloc_pd)
    threading.Thread(target=create_cq_and_stay, daemon=True).start()
    stays.wait()
    sys.stdout.write("ready\n" if all(each.value for each in made.values()) else f"{made}\n")
    sys.stdout.flush()
    time.sleep(600)
