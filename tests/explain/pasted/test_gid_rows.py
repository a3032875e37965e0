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
