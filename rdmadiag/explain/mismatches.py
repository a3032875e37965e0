"""What two ends of ours that do not fit each other say of it, and the cause that it is."""

from typing import Final

MISMATCHES: Final = {
    "link_layer_mismatch": "link-layers-differ",
    "port_not_active": "port-down",
    "not_permitted": "attempt-not-permitted",
    "mtu_above_port": "mtu-above-port",
    "gid_unusable": "peer-address-unusable",
    "lid_unusable": "peer-address-unusable",
    "gid_type_mismatch": "gid-types-differ",
    "address_family_mismatch": "gid-families-differ",
    "subnet_mismatch": "subnets-differ",
    "qp_type_mismatch": "qp-types-differ",
    "payload_bytes_mismatch": "payloads-differ",
    "iterations_mismatch": "iterations-differ",
    "another_device": "no-rdma-at-address",
    "multicast_group_mismatch": "groups-differ",
}
"""Codes of verbs.protocol.mismatches."""
