"""Lines of drivers: what they say, in the shapes that kernels write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.explain.kernel_messages import Kind, kind_of


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("mlx5_core 0000:08:00.0 eth0: Link down", Kind.LINK_DOWN),
        ("mlx5_core 0000:08:00.0 eth0: Link up", Kind.LINK_UP),
        ("bnxt_en 0000:09:00.0 eth1: NIC Link is Down", Kind.LINK_DOWN),
        ("bnxt_en 0000:09:00.0 eth1: NIC Link is Up, 100000 Mbps full duplex", Kind.LINK_UP),
        ("ice 0000:31:00.0 ens1f0: NIC Link is up 100 Gbps", Kind.LINK_UP),
        ("mlx5_core 0000:08:00.0: Port module event: module 0, Cable unplugged", Kind.LINK_DOWN),
        ("mlx5_core 0000:08:00.0: Port module event: module 0, Cable plugged", Kind.LINK_UP),
        ("mlx5_core 0000:08:00.0: health revovery succeded", Kind.RECOVERED),
        ("mlx5_core 0000:08:00.0: health recovery failed", Kind.UNHEALTHY),
        ("mlx5_core 0000:08:00.0: firmware version: 22.31.1014", None),
        ("mlx5_core 0000:08:00.0: Rate limit: 127 rates are supported", None),
        ("mlx5_core 0000:08:00.0 eth0: uplink download", None),
        ("PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)", None),
        ("", None),
    ],
)
def test_what_a_line_says(message: str, kind: Kind | None) -> None:
    assert kind_of(message) is kind


@given(st.text(max_size=300))
def test_any_line_has_a_kind_or_none(message: str) -> None:
    assert kind_of(message) is None or isinstance(kind_of(message), Kind)
