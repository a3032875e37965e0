"""Rules of the environment's variables."""

import pytest

from lab.rdma_devices import roce_rows
from lab.samples import infiniband_host, roce_host
from rdmadiag.facts.ib import PortState
from tests.preflight.rules.linux_machines import (
    NETDEV,
    findings,
    only,
    said,
    two_roce,
    with_env,
    with_table,
)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"NCCL_IB_HCA": "mlx5_0"}, None),
        ({"NCCL_IB_HCA": "=mlx5_0"}, None),
        ({"NCCL_IB_HCA": "=mlx5"}, "critical"),
        ({"NCCL_IB_HCA": "mlx5_0:1"}, None),
        ({"NCCL_IB_HCA": "mlx5_0:2"}, "critical"),
        ({"NCCL_IB_HCA": "=mlx5_0,mlx5_1"}, "warn"),
        ({"NCCL_IB_HCA": "^mlx5_3"}, "info"),
        ({"NCCL_IB_HCA": ""}, None),
        ({"UCX_NET_DEVICES": "all"}, None),
        ({"UCX_NET_DEVICES": "mlx5_0:1"}, None),
        ({"UCX_NET_DEVICES": f"mlx5_0:1,{NETDEV}"}, None),
        ({"UCX_NET_DEVICES": "mlx5_*:1"}, None),
        ({"UCX_NET_DEVICES": "mlx4_0:1"}, "critical"),
        ({"UCX_NET_DEVICES": "mlx5_0:1,eth9"}, "warn"),
        ({"NVSHMEM_HCA_LIST": "rocep8s0f0:1"}, "critical"),
        ({"NVSHMEM_HCA_PE_MAPPING": "mlx5_0:1:2"}, None),
        ({"FI_VERBS_DEVICE_NAME": "mlx5_2"}, "critical"),
        ({"HCOLL_MAIN_IB": "mlx5_0:1"}, None),
        ({"OMPI_MCA_btl_openib_if_include": "mlx4_0"}, "critical"),
    ],
    ids=str,
)
def test_a_variable_that_names_devices(variables: dict[str, str], expected: str | None) -> None:
    found = said(with_env(**variables))
    assert found == ([("env-names-absent-device", expected)] if expected else [])


def test_the_variable_is_given_back_in_its_own_form() -> None:
    finding = only(with_env(NCCL_IB_HCA="=rocep8s0f0"), "env-names-absent-device")
    assert finding.remedy[-1].startswith("export NCCL_IB_HCA='=mlx5_0' "), (
        "zsh takes =NAME for the path of that command"
    )
    finding = only(with_env(UCX_NET_DEVICES="rocep8s0f0:1"), "env-names-absent-device")
    assert finding.remedy[-1].startswith("export UCX_NET_DEVICES=mlx5_0:1 ")


def test_with_a_device_selected_the_others_are_not_called_absent() -> None:
    machine = with_env(two_roce("198.51.100.11"), NCCL_IB_HCA="=mlx5_0,mlx5_1")
    assert said(machine, "mlx5_0") == []


@pytest.mark.parametrize(
    ("variable", "value", "expected", "words"),
    [
        ("NCCL_IB_DISABLE", "1", "warn", "TCP alone"),
        ("NCCL_IB_DISABLE", "0x2", "warn", "TCP alone"),
        ("NCCL_IB_DISABLE", "yes", None, ""),  # strtoll of a word is 0
        ("NCCL_NET", "Socket", "warn", "TCP alone"),
        ("NCCL_NET", "SOCKET", "warn", "TCP alone"),
        ("NCCL_NET", "IB", None, ""),
        ("UCX_TLS", "tcp", "warn", "none of rc"),
        ("UCX_TLS", "self,sm,cuda_copy,tcp", "warn", "none of rc"),
        ("UCX_TLS", "tcp,ud:aux", "warn", "none of rc"),
        ("UCX_TLS", "tcp,rc_x,self", None, ""),
        ("UCX_TLS", "rc_mlx5,cuda", None, ""),
        ("UCX_TLS", "dc,sm", None, ""),
        ("UCX_TLS", "ib", None, ""),
        ("UCX_TLS", "all", None, ""),
        ("UCX_TLS", "^tcp", None, ""),
        ("UCX_TLS", "^ib", "warn", "leaves out"),
        ("UCX_TLS", "^rc,ud,dc", "warn", "leaves out"),
        ("UCX_TLS", "^ud", None, ""),
        ("UCX_TLS", "tcp,warp", "info", "none of rc"),
        ("UCX_TLS", "", None, ""),
        ("UCX_NET_DEVICES", NETDEV, "warn", "names netdevs alone"),
        ("UCX_NET_DEVICES", "^mlx5_0:1", "warn", "leaves out every active port"),
        ("NCCL_IB_HCA", "^mlx5", "warn", "leaves out every active port"),
        ("FI_PROVIDER", "tcp", "warn", "no provider of RDMA"),
        ("FI_PROVIDER", "tcp;ofi_rxm", "warn", "no provider of RDMA"),
        ("FI_PROVIDER", "verbs;ofi_rxm", None, ""),
        ("FI_PROVIDER", "efa,tcp", None, ""),
        ("FI_PROVIDER", "^tcp", None, ""),
        ("FI_PROVIDER", "^verbs", "info", "leaves out verbs"),
        ("FI_PROVIDER", "quartz", "info", "no provider of RDMA"),
        ("MC_FORCE_TCP", "0", "warn", "TCP alone"),
        ("MC_FORCE_TCP", "", "warn", "TCP alone"),
    ],
)
def test_a_value_that_keeps_a_stack_from_rdma(
    variable: str, value: str, expected: str | None, words: str
) -> None:
    found = findings(with_env(**{variable: value}))
    rows = [("env-turns-rdma-off", expected)] if expected else []
    assert [(each.rule, each.severity.value) for each in found] == rows
    assert all(words in each.summary for each in found)
    assert all(each.remedy[0] == f"unset {variable}" for each in found)
    down = with_env(roce_host().with_port(state=PortState.DOWN), **{variable: value})
    assert "env-turns-rdma-off" not in dict(said(down))


def test_a_list_that_names_a_port_that_is_down_beside_an_active_one() -> None:
    machine = two_roce("198.51.100.11").with_port(1, 0, state=PortState.DOWN)
    finding = only(with_env(machine, NCCL_IB_HCA="=mlx5_1"), "env-turns-rdma-off")
    assert "names no active port" in finding.summary
    assert finding.remedy[1].startswith("export NCCL_IB_HCA='=mlx5_0' ")
    assert "env-turns-rdma-off" not in dict(said(with_env(machine, NCCL_IB_HCA="=mlx5_0")))


@pytest.mark.parametrize(
    ("variable", "index", "severity", "words"),
    [
        ("NCCL_IB_GID_INDEX", "9", "critical", "an empty row on mlx5_0/1"),
        ("NCCL_IB_GID_INDEX", "300", "critical", "beyond the table on mlx5_0/1"),
        ("NCCL_IB_GID_INDEX", "2", "warn", "RoCE v1 on mlx5_0/1"),
        ("NCCL_IB_GID_INDEX", "1", "warn", "link-local on mlx5_0/1"),
        ("NCCL_IB_GID_INDEX", "-1", None, ""),
        ("UCX_IB_GID_INDEX", "auto", None, ""),
        ("UCX_IB_GID_INDEX", "9", "critical", "an empty row"),
        ("MC_GID_INDEX", "9", "critical", "an empty row"),
        ("FI_VERBS_GID_IDX", "0", "warn", "RoCE v1"),
        ("NVSHMEM_IB_GID_INDEX", "3", None, ""),
        ("MORI_IB_GID_INDEX", "9", "critical", ""),
        ("MSCCLPP_IB_GID_INDEX", "9", "critical", ""),
        ("OMPI_MCA_btl_openib_gid_index", "9", "critical", ""),
        ("NCCL_IB_GID_INDEX", "three", "warn", "RoCE v1"),  # strtoll of a word is 0
        ("OMPI_MCA_btl_openib_gid_index", "three", None, ""),
    ],
)
def test_a_variable_that_names_a_row(
    variable: str, index: str, severity: str | None, words: str
) -> None:
    found = findings(with_env(**{variable: index}))
    expected = [("env-gid-index", severity)] if severity else []
    assert [(each.rule, each.severity.value) for each in found] == expected
    assert all(words in each.summary for each in found)
    assert all(f"export {variable}=3" in each.remedy for each in found)


def test_a_row_is_looked_at_on_the_ports_that_the_program_uses() -> None:
    rows = {**roce_rows("ens2f0np0", "0c:42:a1:00:00:02", "198.51.100.11")}
    moved = {0: rows[0], 1: rows[1], 5: rows[3]}
    machine = two_roce("198.51.100.11").with_port(1, 0, gids=moved)
    both = with_env(machine, NCCL_IB_GID_INDEX="3")
    assert only(both, "env-gid-index").summary.endswith("an empty row on mlx5_1/1")
    one = with_env(machine, NCCL_IB_GID_INDEX="3", NCCL_IB_HCA="=mlx5_0")
    assert said(one) == []
    but = with_env(machine, NCCL_IB_GID_INDEX="3", NCCL_IB_HCA="^mlx5_0")
    assert said(but) == [("env-gid-index", "critical")]


def test_where_nothing_better_is_there_the_row_is_not_blamed() -> None:
    machine = with_env(with_table(), NCCL_IB_GID_INDEX="1")
    assert said(machine) == [("gid-link-local-only", "warn")]


def test_infiniband_does_not_ask_for_the_row() -> None:
    assert said(with_env(infiniband_host(), NCCL_IB_GID_INDEX="7")) == []
