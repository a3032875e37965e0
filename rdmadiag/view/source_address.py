"""The address that a host sends from where neither program nor route gives one."""

from collections.abc import Iterable, Sequence

from rdmadiag.facts import Address, Missing, Why
from rdmadiag.facts.routing import AddressLabel
from rdmadiag.view.routing import holds, in_common, length_of


def preferred_source(
    addresses: Iterable[Address],
    destination: str,
    gateway: str | None,
    labels: Sequence[AddressLabel] | Missing,
    netdev: str,
) -> str | Missing | None:
    """Of those of the netdev by which the flow leaves; None where it has none.

    IPv4: the first that is of the gateway's subnet, else the first (inet_select_addr). IPv6: RFC
    6724 as ipv6_dev_get_saddr has it, without mobility and temporary addresses (use_tempaddr).
    Missing, where labels decide that were not read.
    """
    wide = ":" in destination
    own = [
        each
        for each in addresses
        if (":" in each.address) == wide
        and each.scope not in ("host", "nowhere")
        and True not in (each.tentative, each.duplicate)
    ]
    return _ipv6(own, destination, labels, netdev) if wide else _ipv4(own, gateway)


def _ipv4(own: Sequence[Address], gateway: str | None) -> str | None:
    near = (
        each.address
        for each in own
        if gateway and holds(f"{each.address}/{each.prefix_length}", gateway)
    )
    local = next((each.address for each in own if each.scope != "link"), None)
    return next(near, local or next((each.address for each in own), None))


def _ipv6(
    own: Sequence[Address], destination: str, labels: Sequence[AddressLabel] | Missing, netdev: str
) -> str | Missing | None:
    """Rules 2, 3, 6 and 8; of what they leave the first. Missing where none fits by 2 and 3."""
    linked = holds("fe80::/10", destination)
    if not own:
        return None
    fitting = [
        each for each in own if (each.scope == "link") == linked and each.deprecated is not True
    ]
    if not fitting:  # rules 2 and 3 come before rule 5, the netdev
        return Missing(Why.UNSUPPORTED, "an address of another netdev, or one that fits less")
    if len(fitting) > 1 and not linked:
        if isinstance(labels, Missing):
            return labels
        wanted = _label(labels, destination, netdev)
        fitting = [
            each for each in fitting if _label(labels, each.address, netdev) == wanted
        ] or fitting
    longest = max(
        fitting,
        # No further than its own prefix: the rest says nothing of where it is.
        key=lambda each: min(in_common(each.address, destination), each.prefix_length),
        default=None,
    )
    return longest.address if longest else None


def _label(labels: Sequence[AddressLabel], address: str, netdev: str) -> int | None:
    """Of the longest prefix that holds it (__ipv6_addr_label)."""
    rows = (
        each for each in labels if each.netdev in (None, netdev) and holds(each.prefix, address)
    )
    row = max(rows, key=lambda each: length_of(each.prefix), default=None)
    return row.label if row else None
