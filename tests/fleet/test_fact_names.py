"""Names of facts."""

import pytest

from rdmadiag.fleet.fact_names import folded, kind_of_name
from rdmadiag.fleet.fact_rows import Kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("kernel", Kind.EQUAL),
        ("adapters", Kind.HARDWARE),
        ("adapter[12].firmware", Kind.EQUAL),
        ("adapter[0].port[2].netdev.mtu", Kind.EQUAL),
        ("adapter[0].port[1].link_layer", Kind.HARDWARE),
        ("adapter[0].node_guid", Kind.IDENTITY),
        ("gpu[7].device", Kind.HARDWARE),
        ("variable.NCCL_DEBUG", Kind.EQUAL),
        ("variable.\n", Kind.EQUAL),
        ("version", Kind.MAY_DIFFER),
        ("of no row", Kind.MAY_DIFFER),
    ],
)
def test_the_kind_of_a_name_is_its_rows(name: str, kind: Kind) -> None:
    assert kind_of_name(name) is kind


def test_adapters_that_are_alike_have_one_name() -> None:
    facts = {f"adapter[{at}].rate": "400" for at in (0, 1, 2, 4)} | {"adapter[3].rate": "200"}
    assert folded({"kernel": "6.1", **facts, "gpu[0].rate": "400"}) == {
        "kernel": "6.1",
        "adapter[0-2,4].rate": "400",
        "adapter[3].rate": "200",
        "gpu[0].rate": "400",
    }
