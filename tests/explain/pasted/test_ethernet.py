"""A host whose RDMA ports are all of Ethernet: tools of InfiniBand find nothing there."""

import pytest

from tests.explain.pasted.answer import ON_N1
from tests.explain.score import Excerpt, score


def causes(log: str) -> list[str]:
    account = score(Excerpt("", {}, log.encode())).account
    return [each.label for each in account.first.causes] if account.first else []


TOOL = "ibwarn: [4] mad_rpc_open_port: can't open UMAD port ((null):0)\n"
PORT = "CA 'mlx5_0'\n\t\tState: {}\n\t\tLink layer: {}\n"
ETHERNET = PORT.format("Active", "Ethernet")


@pytest.mark.parametrize("command", ["ibstat", "ibstat mlx5_0"])
def test_tools_of_mads_fail_on_a_host_of_ethernet_as_they_should(command: str) -> None:
    session = f"{ON_N1}sminfo\n{TOOL}{ON_N1}{command}\n{{}}"
    assert causes(f"{ON_N1}sminfo\n{TOOL}")
    assert causes(session.format(ETHERNET)) == []
    assert causes(session.format(PORT.format("Active", "InfiniBand")))
    assert causes(session.format(PORT.format("Down", "Ethernet")))
    assert causes(session.replace("(null)", "mlx5_1").format(ETHERNET))


@pytest.mark.parametrize(
    "further",
    [
        PORT.format("Down", "InfiniBand"),
        "mlx5_1 port 1 ==> ib0 (Up)\n",
        "rdma_cm  uverbs0  uverbs1\n",
        "3b:00.0 Infiniband controller: Mellanox Technologies MT28908 Family\n",
        "[root@n2 ~]# hostname\nn2\n",
        f"{ON_N1}ssh n2 sminfo\n",
        f"{ON_N1}kubectl exec pod-b -- sminfo\n",
        "server:\n",
        "rdma_app: ibv_open_device(mlx5_0) failed, run ibdiagnet to see why\n",
    ],
)
def test_what_another_device_or_host_may_have_is_no_excuse_for_them(further: str) -> None:
    assert causes(f"{ON_N1}ibstat\n{ETHERNET}{further}{ON_N1}sminfo\n{TOOL}")


def test_another_device_or_no_prompt_shows_no_host_of_ethernet() -> None:
    assert causes(f"{TOOL}{ETHERNET}")
    assert causes(f"n1% sminfo\n{TOOL}n2% ibstat\n{ETHERNET}")
    assert causes(f"{ON_N1}ibstat mlx5_0\n{ETHERNET}{ON_N1}ls\nmlx5_1\n{ON_N1}sminfo\n{TOOL}")
