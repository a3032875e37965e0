"""Units, pods, paths, mounts and firmware that are not there."""

import pytest

from tests.explain.pasted.answer import ON_N1, ON_N2, first

UNIT = "● openibd.service - configure Mellanox devices\n   Active: {}\n"
DEVLINK = "  reporter fw_fatal\n    state {} error 1 recover 0\n"
NODE = "Capacity:\n  rdma/hca: 1k\nAllocatable:\n  cpu: 8\n  rdma/hca:  {}\nEvents: none\n"
PATHS = "nvme-subsys1 - NQN=nqn.x\n\\\n +- nvme1 rdma traddr=10.0.0.2,trsvcid=4420 {}\n"
IBPING = "--- n2.(none) (Lid 14) ibping statistics ---\n10 packets transmitted, {} received, {}\n"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (UNIT.format("failed (Result: exit-code)"), ("kernel-module-missing", 2, True)),
        (UNIT.format("active (exited)"), None),
        (UNIT.format("failed").replace("openibd", "sshd"), None),
        (DEVLINK.format("error"), ("firmware-failed", 2, True)),
        (DEVLINK.format("healthy"), None),
        (NODE.format(0), ("resource-not-advertised", 5, True)),
        (NODE.format("1k"), None),
        (NODE.format(0).replace("rdma/hca:  0", "nvidia.com/gpu:  0"), None),
        (PATHS.format("connecting"), ("peer-unreachable", 3, False)),
        (PATHS.format("live"), None),
        (PATHS.format("connecting").replace("rdma", "tcp"), None),
        (IBPING.format(0, "100% packet loss"), ("mad-unanswered", 2, True)),
        (IBPING.format(10, "0% packet loss"), None),
    ],
)
def test_what_a_listing_shows(text: str, answer: tuple[str, int, bool] | None) -> None:
    assert first(text) == answer


def test_a_mount_with_rdma_that_goes_over_tcp() -> None:
    asked = f"{ON_N1}mount -o {{}} nas:/export /mnt\n"
    shown = f"{ON_N1}mount\nnas:/export on /mnt type nfs4 (rw,vers=4.2,proto={{}},port=0)\n"
    answer = ("transport-unusable", 3, False)
    assert first(asked.format("rdma,port=20049") + shown.format("tcp")) == answer
    assert first(asked.format("rdma,port=20049") + shown.format("rdma")) is None
    assert first(asked.format("vers=4.2") + shown.format("tcp")) is None


def test_somebody_listens_at_the_port_that_another_host_does_not_reach() -> None:
    listens = f'{ON_N2}ss -tln\nLISTEN 0 1 0.0.0.0:{{}} 0.0.0.0:* users:(("ib_write_bw"))\n'
    tried = f"{ON_N1}ib_write_bw 10.1.1.2\nCouldn't connect to 10.1.1.2:18515\n"
    assert first(listens.format(18515) + tried) == ("firewall", 4, True)
    assert first(listens.format(18516) + tried) is None
