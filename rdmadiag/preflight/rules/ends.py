"""What keeps two hosts apart, as far as the reports of both show it: the rules, in their order."""

from typing import Final

from rdmadiag.preflight.rules.ends_addresses import (
    mac_twice,
    named_address_unusable,
    peer_address_here,
    subnets_differ,
)
from rdmadiag.preflight.rules.ends_classes import class_differs
from rdmadiag.preflight.rules.ends_neighbours import (
    answers_no_arp,
    asks_no_neighbour,
    neighbour_wrong,
    not_heard,
)
from rdmadiag.preflight.rules.ends_netdevs import layers_differ, mtu_differs, no_carrier
from rdmadiag.preflight.rules.ends_ports import (
    no_common_gid,
    no_common_partition,
    protocols_differ,
)
from rdmadiag.preflight.rules.ends_programs import connection_not_taken, program_stopped
from rdmadiag.preflight.rules.ends_tcp import checksums_wrong, tcp_unanswered
from rdmadiag.preflight.rules.ends_ways import (
    gateway_on_link,
    hops_few,
    reverse_path,
    traffic_dropped,
)
from rdmadiag.preflight.rules.rule import Rule

RULES: Final[tuple[Rule, ...]] = (
    no_carrier,
    peer_address_here,
    mac_twice,
    answers_no_arp,
    neighbour_wrong,
    asks_no_neighbour,
    reverse_path,
    traffic_dropped,
    hops_few,
    gateway_on_link,
    connection_not_taken,
    program_stopped,
    not_heard,
    checksums_wrong,
    tcp_unanswered,
    layers_differ,
    mtu_differs,
    class_differs,
    subnets_differ,
    protocols_differ,
    no_common_gid,
    no_common_partition,
    named_address_unusable,
)
"""Lowest cause first."""

OF_EACH_WAY: Final = RULES[: RULES.index(subnets_differ)]
OF_PORTS: Final = RULES[RULES.index(protocols_differ) : RULES.index(named_address_unusable)]
