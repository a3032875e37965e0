"""How many rows of a GID table are read, where every row costs a call of the library."""

from typing import Final

MAX_ROUTE_GID_SCAN: Final = 8
"""Thunderbolt devices report long tables and expose a short useful prefix (x/rdma)."""


def route_gid_scan_limit(table_length: int) -> int:
    """Rows to look at for choosing a route; a length of 0 or less counts as unknown.

    >>> route_gid_scan_limit(128), route_gid_scan_limit(3), route_gid_scan_limit(0)
    (8, 3, 8)
    """
    return min(table_length, MAX_ROUTE_GID_SCAN) if table_length > 0 else MAX_ROUTE_GID_SCAN


def preflight_gid_scan_limit(table_length: int, requested: int) -> int:
    """Rows to look at where `requested` are wanted: never more than there are, or than 8.

    >>> preflight_gid_scan_limit(128, 4), preflight_gid_scan_limit(2, 4)
    (4, 2)
    """
    return min(max(requested, 0), route_gid_scan_limit(table_length))
