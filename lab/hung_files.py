"""A file system that has gone: whoever looks a name up in it waits in the kernel, unkillable.

    python -m lab.hung_files FOLDER COMMAND...

runs a command in a mount namespace of its own, in which FOLDER is such a file system: FUSE
(include/uapi/linux/fuse.h), whose server here greets the kernel, takes each request and never
answers one. A process that waits for a request which a server has taken does not end by
SIGKILL (fs/fuse/dev.c, request_wait_answer): as with a network file system mounted hard.
It is over when the server ends, with the command. Root on Linux.
"""

import ctypes
import os
import signal
import struct
import subprocess
import sys
from typing import Final

_CLONE_NEWNS: Final = 0x00020000
_MS_REC_PRIVATE: Final = 0x4000 | 0x40000
_PR_SET_PDEATHSIG: Final = 1
_INIT: Final = 26
_IN: Final = struct.Struct("=IIQQIIII")  # fuse_in_header
_OUT: Final = struct.Struct("=IiQ")  # fuse_out_header
_INIT_OUT: Final = struct.Struct("=IIIIHHIIHHI28x")  # fuse_init_out


def main() -> int:
    """The command's exit code; 69 where there is no such file system to be had."""
    folder, argv = sys.argv[1], sys.argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        _require(libc.unshare(_CLONE_NEWNS))
        _require(libc.mount(b"none", b"/", None, _MS_REC_PRIVATE, None))
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
        _require(libc.mount(b"gone", os.fsencode(folder), b"fuse", 0, options))
    except OSError as error:
        print(f"lab.hung_files: {error}", file=sys.stderr)
        return 69
    server = os.fork()
    if not server:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _serve(device)
    try:
        return subprocess.run(argv, check=False).returncode
    finally:
        os.close(device)
        os.kill(server, signal.SIGKILL)


def _require(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _serve(device: int) -> None:
    while True:
        _, opcode, unique, *_ = _IN.unpack_from(os.read(device, 1 << 17))
        if opcode == _INIT:
            # Version 7.31, no flags, and limits that do not matter.
            answer = _INIT_OUT.pack(7, 31, 4096, 0, 16, 12, 4096, 1, 1, 0, 0)
            os.write(device, _OUT.pack(_OUT.size + len(answer), 0, unique) + answer)


if __name__ == "__main__":
    sys.exit(main())
