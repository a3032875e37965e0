"""Generated hosts of 2 ports and 256 GIDs a port: `python -m bench.trees FOLDER` writes them all.

A process of its own: describing 64 HCAs takes more memory than reading them, and a measured
child's peak is never below its parent's. About 1 GB in FOLDER.
"""

import sys
from dataclasses import dataclass
from itertools import product

PORTS, GIDS = 2, 256
SIZES = (1, 4, 16, 64)  # HCAs
FILLED = (8, 256)  # GID rows in use on each port
KINDS = ("sysfs", "snapshot")  # a bare sysfs folder; a whole host with netlink


@dataclass(frozen=True)
class Tree:
    """One generated host."""

    kind: str
    hcas: int
    filled: int

    @property
    def folder(self) -> str:
        """Its name below the folder of all."""
        return f"{self.kind}-{self.hcas}x{PORTS}x{self.filled}of{GIDS}"

    @property
    def ports(self) -> int:
        """Of all its HCAs."""
        return self.hcas * PORTS


TREES = tuple(Tree(kind, hcas, filled) for kind, hcas, filled in product(KINDS, SIZES, FILLED))


def main(folder: str) -> None:
    """Write every tree below `folder`."""
    from lab.machine import big_host

    for tree in TREES:
        machine = big_host(tree.hcas, PORTS, GIDS, tree.filled)
        if tree.kind == "sysfs":
            machine.write_sysfs(f"{folder}/{tree.folder}")
        else:
            machine.write(f"{folder}/{tree.folder}", f"{tree.hcas} HCAs, for the bench.")


if __name__ == "__main__":
    main(*sys.argv[1:])
