"""The values that lines to paste take from two addresses that meet."""

from rdmadiag.view.ends import Towards


def values_of(case: Towards) -> dict[str, object]:
    """Those of `preflight.remedy`: the peer's address, this host's, and its netdev."""
    mine, theirs = case.mine, case.theirs
    return {"peer": theirs.address, "own": mine.address, "netdev": mine.netdev.name}
