"""Two logs of two ends: what they say together."""

import pytest

from rdmadiag.explain.job.story import Story
from tests.explain.job.telling import placed

LOCAL = "  local address:  LID 0x0000, QPN 0x000011, PSN 0xb56823, GID {gid}\n"
REMOTE = "  remote address: LID 0x0000, QPN 0x000011, PSN 0xb31985, GID {gid}\n"
HERE, THERE = "::ffff:192.0.2.1", "::ffff:192.0.2.2"
MET = LOCAL.format(gid=HERE) + REMOTE.format(gid=THERE)
MET_BACK = LOCAL.format(gid=THERE) + REMOTE.format(gid=HERE)
WAITS = "* Waiting for client to connect... *\n"
REFUSED = LOCAL.format(gid=HERE) + "Couldn't connect to 192.0.2.2:18515\n"
REJECTED = "cma event RDMA_CM_EVENT_REJECTED, error 28\n"
RESULT = "409600 bytes in 0.03 seconds = 129.52 Mbit/sec\n50 iters in 0.03 seconds = 505.98 usec\n"
LEFT_ALONE = LOCAL.format(gid=HERE) + "client read/write: Success\n"
NO_RTR = LOCAL.format(gid=THERE) + "Failed to modify QP to RTR\nCouldn't connect to remote QP\n"
PERFTEST = """\
                    {test} Test
 Dual-port       : OFF\t\tDevice         : rxe0
 Number of qps   : {queues}\t\tTransport type : IB
 Connection type : {kind}\t\tUsing SRQ      : OFF
 TX depth        : {depth}
 Mtu             : {mtu}[B]
---------------------------------------------------------------------------------------
 local address: LID 0000 QPN 0x0011 PSN 0xb2650
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:192:00:02:{one:02}
 remote address: LID 0000 QPN 0x0011 PSN 0xd1139c
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:192:00:02:{other:02}
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
"""
FLUSHED = " Completion with error at client\n Failed status 5: wr_id 0 syndrom 0x0\nscnt=20, ccnt="


ROW = " 4096       {}               0.00               0.00   \t\t   0.000000\n"


def perftest(
    kind: str = "RC", test: str = "Send BW", one: int = 1, other: int = 2, **changes: int
) -> str:
    values = {"depth": 100, "queues": 1, "mtu": 1024} | changes
    return PERFTEST.format(kind=kind, test=test, one=one, other=other, **values)


def told(left: str, right: str) -> tuple[str, str, str]:
    """The file that the failure is of, its first cause, and what is known of that."""
    first = placed({"left.log": left, "right.log": right}).first
    assert first is not None
    cause = first.failure.causes[0]
    return first.where, cause.label, cause.standing


@pytest.mark.parametrize(
    ("left", "right", "where", "label"),
    [
        (
            LEFT_ALONE,
            NO_RTR.replace(THERE, "2001:db8::2"),
            "left.log",
            "gid-families-differ",
        ),
        (LEFT_ALONE.replace(HERE, "::"), NO_RTR, "left.log", "no-gid-given"),
        (REFUSED, LOCAL.format(gid="::"), "right.log", "no-gid-given"),
        (MET.replace("LID 0x0000", "LID 0x0003", 1), MET_BACK, "left.log", "link-layers-differ"),
        (perftest("UC"), perftest("RC", one=2, other=1), "left.log", "qp-types-differ"),
        (perftest(test="Send Latency"), perftest(), "left.log", "other-program"),
        (
            perftest(test="Send Bidirectional BW"),
            perftest(test="Send BW"),
            "left.log",
            "arguments-differ",
        ),
        (REFUSED, LOCAL.format(gid=THERE), "left.log", "peer-unreachable"),
        (REJECTED, "", "left.log", "peer-address-wrong"),
        (REJECTED, "rdma_bind_addr: No such device\n", "right.log", "no-rdma-at-address"),
        (
            REFUSED.partition("\n")[2] + " Unable to init the socket connection\n",
            WAITS,
            "left.log",
            "peer-unreachable",
        ),
        (MET, LOCAL.format(gid=THERE), "left.log", "peer-address-wrong"),
        (perftest(), perftest(one=2, other=1, queues=4), "left.log", "arguments-differ"),
        (perftest(mtu=4096), perftest(one=2, other=1), "left.log", "mtu-mismatch"),
        (MET, MET_BACK + RESULT, "left.log", "iterations-differ"),
        (perftest(depth=20), perftest() + ROW.format(20), "left.log", "no-path"),
        (perftest(depth=128), perftest() + ROW.format(500), "left.log", "iterations-differ"),
        (
            perftest("UC", depth=20),
            perftest("UC") + ROW.format(20),
            "left.log",
            "iterations-differ",
        ),
        (perftest() + FLUSHED + "0\n", perftest(), "left.log", "roce-port-dropped"),
        (perftest() + FLUSHED + "15\n", perftest(), "left.log", "link-lost"),
        (
            MET + "Failed status Work Request Flushed Error (5) for wr_id 2\n",
            MET_BACK,
            "left.log",
            "roce-port-dropped",
        ),
        (
            perftest() + "ethernet_read_keys: Couldn't read remote address\n",
            perftest(),
            "left.log",
            "peer-gone",
        ),
        (LOCAL.format(gid=HERE), LOCAL.format(gid=THERE), "left.log", "firewall"),
        ("\n", WAITS, "right.log", "firewall"),
        (WAITS, WAITS, "right.log", "peer-not-started"),
        (MET, MET_BACK, "left.log", "roce-port-dropped"),
        (MET, MET_BACK + "Terminated\n", "right.log", "roce-port-dropped"),
        (
            "cma event RDMA_CM_EVENT_REJECTED, error 28\n",
            "ibv_create_comp_channel failed\nsetup_qp failed: 24\n",
            "right.log",
            "open-files-limit",
        ),
        (
            "ethernet_read_data: Couldn't read reports\n",
            WAITS + "Couldn't listen to port 18516\n",
            "right.log",
            "tcp-port-taken",
        ),
    ],
    ids=[
        "GIDs of two families",
        "the client's GID is empty",
        "the server's is",
        "InfiniBand and Ethernet",
        "UC and RC",
        "two tests",
        "both directions and one",
        "nobody listens, says one, and the other does",
        "refused, and the server says nothing of it",
        "refused, and the server failed of itself",
        "the same of perftest",
        "one has met another queue pair than that of the other, which waits",
        "one queue pair and four",
        "two MTUs",
        "one has finished, the other waits",
        "one has got all that the other sends, and the other waits",
        "one has finished, and how many the other sends is not known",
        "nothing is acknowledged over UC",
        "flushed before anything was sent",
        "flushed after some had completed",
        "flushed, of a pingpong",
        "the other end left without a word",
        "both wait for the other",
        "a client that says nothing, and a server that waits",
        "two servers that wait",
        "both have the other's address, and no data",
        "the same, and somebody ended one",
        "one failed of itself, the other was refused",
        "one failed of itself, the other lost it",
    ],
)
def test_both_logs_name_what_neither_does(left: str, right: str, where: str, label: str) -> None:
    assert told(left, right)[:2] == (where, label)


def test_what_both_show_is_confirmed_with_both_as_evidence() -> None:
    story = placed({"left.log": perftest("UC"), "right.log": perftest("RC", one=2, other=1)})
    assert story.first is not None
    cause = story.first.failure.causes[0]
    assert cause.standing == "confirmed"
    assert cause.evidence == (
        "left.log: Connection type: UC",
        "right.log: Connection type: RC",
    )
    assert story.has_failed


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (MET + RESULT, MET_BACK + RESULT),
        ("\n", "\n"),
        ("\n", MET + RESULT),
        (perftest() + " 4096 20 1.0 1.0 0.1\n", perftest(one=2, other=1) + " 4096 20 1.0 1.0 0\n"),
    ],
    ids=["two results", "nothing at all", "one is not there", "two rows of perftest"],
)
def test_two_ends_that_are_well_have_no_story(left: str, right: str) -> None:
    assert placed({"left.log": left, "right.log": right}).first is None


def test_two_that_only_stopped_are_no_failure_that_is_known() -> None:
    story: Story = placed({"left.log": MET, "right.log": MET_BACK})
    assert story.first is not None
    assert not story.has_failed


def test_a_line_of_rping_alone_is_marked_by_no_launcher() -> None:
    files = {"left.log": "ping data: x\n", "right.log": "rdma_bind_addr: Address already in use\n"}
    first = placed(files).first
    assert first is not None
    assert first.failure.causes[0].label == "cm-port-taken"


@pytest.mark.parametrize(
    ("said", "label"),
    [
        ("Killed\n", "interrupted"),
        ("batch: the job has ended, 1 process of it is killed\n", "interrupted"),
        ("run.sh: line 7:  812 Killed                  ib_send_bw -d mlx5_0\n", "interrupted"),
        ("CPU time limit exceeded (core dumped)\n", "interrupted"),
        ("Alarm clock\n", "interrupted"),
        ("job.sh: line 9: 4711 Profiling timer expired  ib_send_bw\n", "interrupted"),
        ("User defined signal 1\n", "interrupted"),
        ("Segmentation fault\n", "provider-fault"),
    ],
)
def test_a_program_that_a_signal_ended_failed_and_its_peer_only_waited(
    said: str, label: str
) -> None:
    assert told(said, LOCAL.format(gid=THERE))[:2] == ("left.log", label)


def test_a_program_that_failed_before_its_shell_spoke_failed_by_that() -> None:
    where, label, _ = told("Couldn't allocate MR\nSegmentation fault\n", LOCAL.format(gid=THERE))
    assert (where, label) == ("left.log", "memlock")


@pytest.mark.parametrize(
    ("port", "label"), [(18515, "peer-not-listening"), (18599, "peer-address-wrong")]
)
def test_where_the_other_waits_the_end_that_left_the_usual_port_is_thought_of(
    port: int, label: str
) -> None:
    refused = LOCAL.format(gid=HERE) + f"Couldn't connect to 192.0.2.2:{port}\n"
    first = placed({"left.log": refused, "right.log": LOCAL.format(gid=THERE)}).first
    assert first is not None
    labels = [each.label for each in first.failure.causes]
    of_ports = ("peer-not-listening", "peer-address-wrong")
    assert next(each for each in labels if each in of_ports) == label


@pytest.mark.parametrize(
    ("theirs", "label"),
    [
        ("job train: port 27436\n", "arguments-differ"),
        ("job train: port 36017\n", "peer-unreachable"),  # the same, and something is on the way
        ("rxe0 port 1\n", "peer-unreachable"),  # that of a device
        ("port 27436, metrics at port 9100\n", "peer-unreachable"),  # which of both is not known
        ("", "peer-unreachable"),
    ],
)
def test_the_ports_that_both_logs_name_are_not_the_same(theirs: str, label: str) -> None:
    ours = "job train: port 36017\n" + LOCAL.format(gid=HERE)
    refused = f"{ours}Couldn't connect to 192.0.2.2:36017\n"
    first = placed({"left.log": refused, "right.log": theirs + LOCAL.format(gid=THERE)}).first
    assert first is not None
    assert first.failure.causes[0].label == label


def test_a_log_that_stops_at_an_earlier_step_than_its_peer_has_seen_is_of_one_that_ended() -> None:
    back = LOCAL.format(gid=THERE).replace("0xb56823", "0xb31985")
    first = placed({"left.log": MET, "right.log": back}).first
    assert first is not None
    assert (first.where, first.failure.causes[0].label) == ("left.log", "peer-gone")
    evidence = first.failure.causes[0].evidence
    assert [each.partition(":")[0] for each in evidence] == ["left.log", "right.log"]


@pytest.mark.parametrize(
    "right",
    [
        MET_BACK,
        LOCAL.format(gid=THERE).replace("0xb56823", "0xb31985") + "Couldn't allocate MR\n",
        LOCAL.format(gid=THERE).replace("0xb56823", "0xb31986"),
    ],
    ids=["it has got as far", "it says an error", "it is another run"],
)
def test_else_the_other_end_has_not_ended_without_a_word(right: str) -> None:
    assert told(MET, right)[1] != "peer-gone"


@pytest.mark.parametrize(
    "line",
    [
        "taskset: failed to set pid 1009's affinity: Invalid argument\n",
        "/usr/bin/job: 4: exec: /opt/ib_send_bw: Argument list too long\n",
        "bash: line 1: ib_send_bw: command not found\n",
        "/usr/bin/job: 1: /tmp/settings.sh: ?DEVICE=rxe0: not found\n",
        '/usr/bin/job: 3: arithmetic expression: division by zero: "4096 / nodes"\n',
    ],
)
@pytest.mark.parametrize("other", [WAITS, LOCAL.format(gid=THERE)])
def test_where_one_was_not_started_the_other_waits_for_it(line: str, other: str) -> None:
    assert told(line, other)[:2] == ("left.log", "program-not-started")
    assert told(other, line)[:2] == ("right.log", "program-not-started")


TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/usr/bin/ib_send_bw", line 3, in <module>\n'
    '    settings = json.load(open("/tmp/settings.json"))\n'
    + 5
    * '  File "/usr/lib/python3.11/json/decoder.py", line 353, in raw_decode\n    obj = scan(s)\n'
    + "json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 4\n"
)


@pytest.mark.parametrize("other", [WAITS, LOCAL.format(gid=THERE)])
def test_a_script_that_ends_by_a_fault_of_its_own_is_why_the_other_waits(other: str) -> None:
    assert told(TRACEBACK, other)[:2] == ("left.log", "program-error")
    assert told(other, TRACEBACK)[:2] == ("right.log", "program-error")


@pytest.mark.parametrize(
    "text",
    [
        "opened mlx5_0\nqueue pair is in RTS\n" + TRACEBACK,
        TRACEBACK + "metrics are off, going on without\nstarting the client\n",
        TRACEBACK.replace("json.decoder.JSONDecodeError: ", "AssertionError: got 0 of 100, "),
    ],
    ids=["it had begun", "it went on", "a check of what it received"],
)
def test_a_traceback_that_is_not_all_there_is_does_not_say_so(text: str) -> None:
    first = placed({"left.log": text, "right.log": LOCAL.format(gid=THERE)}).first
    assert first is None or first.failure.causes[0].label != "program-error"


ASKED_BY_BASH = (
    "bash: connect: Connection refused\nbash: line 1: /dev/tcp/192.0.2.2/9100: Connection refused\n"
)


@pytest.mark.parametrize(
    "text",
    [
        "This account is currently not available.\n",
        '/usr/bin/job: 2: Syntax error: "(" unexpected\n',
        ASKED_BY_BASH + "prolog: 192.0.2.2 is not healthy\n",
        "node7 is drained\n",
        "/usr/bin/job: another instance is running\n",
        "job: waiting for /shared/server.port\n",
        8 * "barrier: waiting for 3 hosts, 2 are there\n",
    ],
    ids=[
        *("an account", "a shell", "a check that asks a service", "a prolog", "a lock"),
        *("a script that waits", "one that says it again"),
    ],
)
@pytest.mark.parametrize("other", [WAITS, LOCAL.format(gid=THERE)])
def test_a_few_lines_that_refuse_are_of_what_starts_the_program(text: str, other: str) -> None:
    assert told(text, other)[:2] == ("left.log", "program-not-started")
    assert told(other, text)[:2] == ("right.log", "program-not-started")


@pytest.mark.parametrize("other", [WAITS, LOCAL.format(gid=THERE)])
@pytest.mark.parametrize(
    "text",
    [
        "loading the environment\n",
        "check-nodes: all nodes are well\n",
    ],
)
def test_a_server_that_waits_beside_a_log_without_a_test_is_not_all_well(
    text: str, other: str
) -> None:
    first = placed({"left.log": text, "right.log": other}).first
    assert first
    assert first.failure.causes[0].label == "peer-not-started"


@pytest.mark.parametrize(
    ("left", "right", "where"),
    [
        ("environment: kernel 7.2 is not supported\n", "", "left.log"),
        ("", "start: waiting for /shared/switch.ready\n", "right.log"),
        ("job: waiting for /s/server.ready\n", "start: waiting for /s/client.ready\n", "left.log"),
    ],
    ids=["beside rping, which says nothing", "the server's", "for each other"],
)
def test_a_script_that_starts_nothing_where_the_other_end_says_nothing(
    left: str, right: str, where: str
) -> None:
    assert told(left, right)[:2] == (where, "program-not-started")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("cma event RDMA_CM_EVENT_REJECTED, error 28\nrping: connect error -1\n", ""),
        ("waiting for 3 hosts\n" + " 65536   5000   11345.11   11340.22   0.181443\n", ""),
        ("job: waiting for /shared/server.ready\n", "step 10 loss 2.31\n"),
        ("waiting for client\n", "waiting for server\n"),
        ("done, 100 iterations, 0 errors\n", ""),
        ("error: server did not answer within 30 s, aborting\n", ""),
        ("Connected to 10.0.0.1\nwaiting for completion\n", WAITS),
        ("sampler: waiting until the next interval\n", "waiting until 10:00\n"),
        ("100% of tests passed, 0 errors\n", WAITS),
        ("trainer: no checkpoint found, starting from scratch\n", ""),
    ],
    ids=[
        *("a test that failed", "a result", "beside another program", "two that run"),
        *("one that is done", "one that ran", "one that has met its peer"),
        *("two that are idle", "tests that passed", "one that goes on"),
    ],
)
def test_what_is_of_a_test_or_of_another_program_is_no_script_that_waits(
    left: str, right: str
) -> None:
    first = placed({"left.log": left, "right.log": right}).first
    assert first is None or first.failure.causes[0].label != "program-not-started"


@pytest.mark.parametrize(
    "pasted",
    [
        " 65536   5000   11345.11   11340.22   0.181443\n----------------------------\n",
        "step 10 loss 2.31\nstep 30 loss 2.01\n",
        "Sun Mar 2 10:00:00 UTC 2025\nnode2\n",
    ],
    ids=["a result without its head", "steps", "another command"],
)
def test_beside_a_server_that_waits_a_log_with_numbers_is_of_something_else(pasted: str) -> None:
    assert placed({"left.log": pasted, "right.log": WAITS}).first is None


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("starting the client\n", WAITS),
        ("node7 is drained\n", "step 40: loss 2.0\n"),
        ("node7 is drained\n" + 5 * "step\n", WAITS),
        (" " * 8 + "\n", WAITS),
    ],
    ids=["it refuses nothing", "nobody waits", "it says more", "it says nothing"],
)
def test_else_a_few_lines_say_nothing_of_a_start(left: str, right: str) -> None:
    first = placed({"left.log": left, "right.log": right}).first
    assert first is None or first.failure.causes[0].label != "program-not-started"


def test_a_program_that_ran_and_one_that_was_not_started_are_no_two_ends() -> None:
    line = "taskset: failed to set pid 1009's affinity: Invalid argument\n"
    story = placed({"left.log": line, "right.log": "step 40: loss 2.0\n"})
    assert story.first is None


MODULE = "bash: line 3: module: command not found\n"


def test_a_failure_that_its_program_printed_is_not_that_it_was_not_started() -> None:
    absent = "IB device mlx5_9 not found\n Unable to find the Infiniband/RoCE device\n"
    assert told(MODULE + absent, WAITS)[1] == "device-absent"


def test_beside_a_result_a_command_that_a_script_has_not_found_is_nothing() -> None:
    met = LOCAL.format(gid=THERE) + REMOTE.format(gid=HERE) + RESULT
    assert placed({"left.log": MODULE, "right.log": met}).first is None


@pytest.mark.parametrize(
    ("ours", "theirs", "label"),
    [
        ("-p 18515 192.0.2.1", "-p 18516", "arguments-differ"),
        ("192.0.2.1", "-R", "arguments-differ"),
        ("-FR 192.0.2.1", "-F", "arguments-differ"),
        ("-R 192.0.2.1", "--rdma_cm", "peer-unreachable"),  # the same, and something is on the way
        ("192.0.2.1", "", "peer-unreachable"),
    ],
)
def test_what_was_typed_at_both_ends_is_compared(ours: str, theirs: str, label: str) -> None:
    waits = "* Waiting for client to connect... *\n"
    first = placed(
        {
            "client.log": f"[root@n2 ~]# ib_write_bw -d mlx5_0 {ours}\n"
            "Couldn't connect to 192.0.2.1:18515\nUnable to init the socket connection\n",
            "server.log": f"[root@n1 ~]# ib_write_bw -d mlx5_0 {theirs}\n{waits}",
        }
    ).first
    assert first is not None
    assert first.failure.causes[0].label == label
