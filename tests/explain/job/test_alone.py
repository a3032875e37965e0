"""Several files say of each what it says alone."""

import pytest

from tests.explain.job.telling import placed
from tests.explain.score import Excerpt, score

BY_SOCKETS = """\
n1:{0}:{0} [{0}] NCCL INFO NET/IB : No device found.
n1:{0}:{0} [{0}] NCCL INFO NET/Socket : Using [0]eth0:192.0.2.1<0>
n1:{0}:{0} [{0}] NCCL INFO Using network Socket
n1:{0}:{0} [{0}] NCCL INFO comm 0x1 rank {0} nranks 2 cudaDev 0 busId 1b000 - Init COMPLETE
"""
SECOND_PORT = """\
link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ens1f0np0
link mlx5_1/1 state DOWN physical_state DISABLED netdev ens1f1np1
"""
COUNTED = (
    "# Port counters: Lid 5 port 1\nSymbolErrorCounter:..........65535\nPortRcvErrors:....65535\n"
)
FAILED = "node1:1:2 [0] NCCL WARN NET/IB: Got completion from peer 192.0.2.9<1> with status=12\n"


@pytest.mark.parametrize(
    "text", [BY_SOCKETS, SECOND_PORT, COUNTED, FAILED], ids=["sockets", "a port", "counters", "12"]
)
def test_two_files_fail_where_one_does(text: str) -> None:
    alone = score(Excerpt("one", {}, text.format(0).encode())).account.first
    story = placed({"n1.log": text.format(0), "n2.log": text.format(1)})
    assert (story.first is None) == (alone is None)


def test_what_a_listing_shows_is_the_failure_of_its_file() -> None:
    story = placed({"n1.txt": COUNTED, "n2.txt": "step 1 loss 2.0\n"})
    assert story.first is not None
    assert (story.first.where, story.first.failure.causes[0].label) == ("n1.txt", "cable-or-module")


def test_a_link_that_goes_again_and_again_counts_though_it_came_back() -> None:
    line = "Oct 12 10:{:02}:12 n1 kernel: mlx5_core 0000:41:00.0 ens1f0np0: Link {}\n"
    often = "".join(line.format(n, state) for n in range(6) for state in ("down", "up"))
    once = "".join(line.format(1, state) for state in ("down", "up"))
    for text, fails in ((often, True), (once, False)):
        assert (placed({"n1": text, "n2": "ok\n"}).first is not None) == fails
        assert (score(Excerpt("one", {}, text.encode())).account.first is not None) == fails


def test_files_that_differ_in_numbers_alone_are_not_taken_for_one_another() -> None:
    bad, good = COUNTED, COUNTED.replace("65535", "00000")
    for files in ({"n1": good, "n2": bad}, {"n1": bad, "n2": good}):
        first = placed(files).first
        assert first is not None
        assert files[first.where] == bad
