"""GID tables in a paste, and what rdma_cm takes of them."""

from tests.explain.pasted.answer import ON_N1, ON_N2, first


def test_two_hosts_whose_rdma_cm_takes_different_types() -> None:
    asked = f"{ON_N1}cma_roce_mode -d mlx5_0 -p 1\nRoCE v2\n{ON_N2}cma_roce_mode -d mlx5_0 -p 1\n"
    assert first(f"{asked}IB/RoCE v1\n") == ("gid-types-differ", 2, True)
    assert first(f"{asked}RoCE v2\n") is None


LINK_LOCAL = "fe80:0000:0000:0000:966d:aeff:fed4:2e10"
MAPPED = "0000:0000:0000:0000:0000:ffff:0a00:0848"


def gid(index: int, gid_: str, version: str = "v2") -> str:
    return f"mlx5_2\t1\t{index}\t{gid_}\t\t\t{version}\tens4f0np0\n"


def test_a_table_of_link_local_gids_alone() -> None:
    both = f"{ON_N1}show_gids mlx5_2\n{gid(0, LINK_LOCAL)}{{}}"
    assert first(both.format("n_gids_found=1\n")) == ("no-usable-gid", 2, True)
    assert first(both.format("")) == ("no-usable-gid", 2, False)  # perhaps cut off
    assert first(both.format(gid(1, MAPPED))) is None
    assert first(both.format("").replace("show_gids mlx5_2", "show_gids | head -3")) is None


def test_a_row_that_is_of_another_kind_on_another_host() -> None:
    here = f"{ON_N1}show_gids\n{gid(3, MAPPED)}"
    assert first(f"{here}{ON_N2}show_gids\n{gid(3, MAPPED)}") is None
    there = f"{ON_N2}show_gids\n{gid(3, MAPPED, 'v1')}"
    assert first(f"{here}{there}") == ("gid-index-or-family", 4, False)


OF_PERFTEST = (
    " local address: LID 0000 QPN 0x01a3 PSN 0x5b0c4f\n GID: {}\n"
    " remote address: LID 0000 QPN 0x0127 PSN 0xa59d37\n GID: {}\n{}"
)
FE80 = "254:128:00:00:00:00:00:00:14:66:161:255:254:00:00:26"
OF_IPV4 = "00:00:00:00:00:00:00:00:00:00:255:255:10:30:01:02"
FAILED = " Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n"


def test_a_test_that_failed_between_gids_of_two_families() -> None:
    assert first(OF_PERFTEST.format(FE80, OF_IPV4, FAILED)) == ("gid-families-differ", 5, True)
    assert first(OF_PERFTEST.format(OF_IPV4, OF_IPV4, FAILED)) is None
    assert first(OF_PERFTEST.format(FE80, OF_IPV4, "")) is None  # it has not failed
    assert first(OF_PERFTEST.format(FE80, OF_IPV4.replace("10:", "999:"), FAILED)) is None


SHOWN = "bnxt_re0\t1\t{row}\t0000:0000:0000:0000:0000:ffff:0a32:0115\t10.50.1.21  \tv1\tens3f0np0\n"
RAN = """ib_write_bw -d bnxt_re0 -x 2 10.50.2.22
 Dual-port       : OFF\t\tDevice         : bnxt_re0
 GID index       : 2
 local address: LID 0000 QPN 0x2c04 PSN 0x6b7f21
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:50:01:21
 remote address: LID 0000 QPN 0x2c07 PSN 0xd1bb60
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:50:{net}:22
 Completion with error at client
"""


def test_a_row_of_roce_v1_and_a_peer_behind_a_router() -> None:
    listed, ran = f"{ON_N1}show_gids bnxt_re0\n{SHOWN}", f"{ON_N1}{RAN}"
    answer = ("gid-does-not-route", 2, True)
    assert first(listed.format(row=2) + ran.format(net="02")) == answer
    assert first(listed.format(row=2) + ran.format(net="01")) is None
    assert first(listed.format(row=3) + ran.format(net="02")) is None


def test_a_program_that_asks_for_no_global_route_on_ethernet() -> None:
    source = "attr.ah_attr = AHAttr(port_num=1, is_global={})\n"
    failed = "PyverbsRDMAError: Failed to modify QP state to RTR. Errno: 22, Invalid argument\n"
    layer = "\t\t\tlink_layer:\t\t{}\n"
    text = source.format(0) + failed + layer.format("Ethernet")
    assert first(text) == ("no-gid-given", 1, True)
    assert first(text.replace("Ethernet", "InfiniBand")) is None
    assert first(text.replace("is_global=0", "is_global=1")) is None
