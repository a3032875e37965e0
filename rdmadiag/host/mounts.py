"""Which file systems of this host answer by themselves: /proc/self/mountinfo, proc(5).

The table is the kernel's own, so that reading it waits for no server.
"""

import os
import re
from typing import Final

_LOCAL: Final = frozenset(
    (
        *("bcachefs", "btrfs", "erofs", "ext2", "ext3", "ext4", "f2fs", "hostfs", "jfs"),
        *("overlay", "ramfs", "rootfs", "squashfs", "tmpfs", "vfat", "xfs", "zfs"),
    )
)
"""Types whose data are in memory or on a disk of this host."""

_ESCAPED: Final = rb"\\([0-7]{3})"  # blanks and backslashes of a mount point


def parse_mountinfo(raw: bytes) -> dict[bytes, str]:
    """Mount point → type of what was mounted there last; lines of another shape are left out."""
    found = {}
    for line in raw.splitlines():
        fields, separator, source = line.partition(b" - ")
        point, kind = fields.split(b" ")[4:5], source.split(b" ")[0]
        if separator and point and kind:
            name = point[0]
            if b"\\" in name:
                name = re.sub(_ESCAPED, lambda each: bytes([int(each[1], 8) & 0xFF]), name)
            found[name] = kind.decode("ascii", "replace")
    return found


def on_local_disk(path: str) -> bool:
    """Whether a look at this absolute path waits for no server; True where nothing says so.

    Symbolic links in it are not followed, as that is a look.
    """
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            mounts = parse_mountinfo(file.read())
    except OSError:  # no such file on macOS
        return True
    place = os.fsencode(os.path.normpath(path))
    while place not in mounts:
        if place == os.path.dirname(place):
            return True
        place = os.path.dirname(place)
    return mounts[place] in _LOCAL
