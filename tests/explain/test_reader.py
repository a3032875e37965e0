"""What a candidate line means, by itself and among those that stand around it."""

import io

import pytest

from rdmadiag.explain.log.line.fields import fields
from rdmadiag.explain.log.recognition.reader import Meanings
from rdmadiag.explain.log.recognition.vocabulary import NEEDLES
from rdmadiag.explain.log.scan import collect
from rdmadiag.sieve.lines import Sieve
from tests.explain.job.telling import part_of

CRASH = """\
[node1:4242] *** Process received signal ***
[node1:4242] Signal: Segmentation fault (11)
[node1:4242] Signal code: Address not mapped (1)
[node1:4242] Failing at address: 0x18
[node1:4242] [ 0] /lib/x86_64-linux-gnu/libc.so.6(+0x42520)[0x7f0e1c842520]
[node1:4242] [ 1] /lib/x86_64-linux-gnu/libibverbs/libmlx5-rdmav34.so(mlx5_poll_cq+0x2a)[0x7f0e1a]
[node1:4242] *** End of error message ***
"""
KILLED = """\
slurmstepd: error: Detected 1 oom-kill event(s) in StepId=77.0. Some of your processes may have \
been killed by the cgroup out-of-memory handler.
transport retry counter exceeded (12) mlx5_0:1 qp 0x1a2 to lid 5
"""
DOWN = """\
CA 'mlx5_0'
\tCA type: MT4123
\tNumber of ports: 1
\tPort 1:
\t\tState: Down
\t\tPhysical state: Disabled
\t\tRate: 10
\t\tLink layer: InfiniBand
"""


@pytest.mark.parametrize("text", [CRASH, KILLED, DOWN], ids=["a crash", "a kill above", "a port"])
def test_of_several_logs_a_line_is_read_as_in_one(text: str) -> None:
    content = text.encode()
    account = collect(Sieve(NEEDLES).segments(io.BytesIO(content))).account(9, len(content))
    alone = {each.what for each in account.failures}
    beside = {each.meaning.what for each in part_of("left.log", content).occurrences}
    assert alone
    assert alone == beside


def test_of_several_logs_a_process_that_was_killed_above_does_not_answer_any_more() -> None:
    [seen] = part_of("left.log", KILLED.encode()).occurrences
    assert seen.meaning.causes[0].label == "peer-gone"


VENDOR = "Failed status 12: wr_id 0 syndrom {} on mlx5_0\n"


def test_what_fails_as_in_another_log_of_the_job_keeps_its_own_numbers() -> None:
    meanings = Meanings()
    parts = [
        part_of(f"rank{n}.log", VENDOR.format(syndrome).encode(), meanings)
        for n, syndrome in enumerate(("0x81", "0x88"))
    ]
    found = [each.meaning.fields.vendor_error for part in parts for each in part.occurrences]
    assert found == [0x81, 0x88]


TABLE = """\
client server rails result
n1     n2     4     387.9
n1     n4     4     Failed status 12: wr_id 0 syndrom 0x81
------ ------ ----- ------
"""


def test_a_row_above_the_end_of_a_table_is_no_head() -> None:
    [seen] = part_of("left.log", TABLE.encode()).occurrences
    assert seen.meaning.fields.status == 12


@pytest.mark.parametrize(
    "line",
    [
        "mlx5_0: ibv_modify_qp to RTR failed: errno 110",
        "[jaccl] Changing queue pair to RTR failed with errno 60",
    ],
)
def test_a_number_has_the_name_that_it_has_where_it_was_printed(line: str) -> None:
    assert fields(line).errno_symbol == "ETIMEDOUT"
