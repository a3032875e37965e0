"""What RAS, the flight recorder and Inspector write of ranks, by the forms of their sources."""

import json
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rdmadiag.explain.job.collected import Collected
from rdmadiag.explain.job.compose import compose
from rdmadiag.explain.job.flight_recorder import NotADump, parse_dump
from rdmadiag.explain.job.inspector import parse_inspector
from rdmadiag.explain.job.progress import Behind, Progress, behind
from rdmadiag.explain.job.ras import NotRas, State, parse_ras
from rdmadiag.explain.job.story import Silence
from rdmadiag.render.explain_job import answer

RAS = """\
NCCL version 2.28.7 compiled with CUDA 13.0
CUDA runtime version 13000, driver version 13000

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (2.05s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4       7-8        32        32   RUNNING  INCOMPLETE

Errors
======

INCOMPLETE
  Missing communicator data from 1 job process
  Process 3487985 on node 192.0.2.14 managing GPU 6

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 3487984 on node 192.0.2.13 managing GPU 5

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 21 -- GPU 5 managed by process 3487984 on node 192.0.2.13

#0-0 (cf264af53edbe986) ERROR
  Asynchronous errors on 3 ranks
  2 ranks reported Remote process exited or there was a network error
  Rank 1 -- GPU 1 managed by process 11 on node 192.0.2.11
  Rank 2 -- GPU 2 managed by process 12 on node 192.0.2.11
  Rank 3 reported Unhandled system error -- GPU 3 managed by process 13 on node 192.0.2.11

Warnings
========

TIMEOUT
  Encountered 2 communication timeouts while gathering communicator data

#0-0 (cf264af53edbe986) MISMATCH
  Communicator ranks have different AllReduce operation counts
  29 ranks have launched up to operation 6650
  2 ranks have launched up to operation 6640
  Rank 5 -- GPU 5 managed by process 15 on node 192.0.2.11
  Rank 7 -- GPU 7 managed by process 17 on node 192.0.2.11
  Rank 9 has not launched any operations -- GPU 1 managed by process 19 on node 192.0.2.12
"""


def test_ras_names_dead_and_unresponsive_processes_and_errors() -> None:
    found = {
        (each.state, each.rank, each.host, each.pid) for each in parse_ras(RAS.encode()).processes
    }
    assert found == {
        (State.DEAD, 21, "192.0.2.13", 3487984),
        (State.UNRESPONSIVE, None, "192.0.2.14", 3487985),
        (State.ERROR, 1, "192.0.2.11", 11),
        (State.ERROR, 2, "192.0.2.11", 12),
        (State.ERROR, 3, "192.0.2.11", 13),
    }
    assert parse_ras(RAS.encode()).timeouts == 2


def test_ras_names_ranks_that_launched_less() -> None:
    (one,) = behind(parse_ras(RAS.encode()).progress)
    assert one == Behind(
        "ras",
        "cf264af53edbe986 AllReduce",
        "AllReduce",
        6650,
        (5, 7, 9),
        ("192.0.2.11", "192.0.2.12"),
        29,
    )


def test_one_operation_apart_is_no_standstill_to_ras() -> None:
    text = RAS.replace("6640", "6649").replace("has not launched any operations", "has x")
    assert behind(parse_ras(text.encode()).progress) == ()


def ras_json() -> dict[str, Any]:
    def rank(number: int, host: str, count: int, error: int = 0) -> dict[str, Any]:
        status = {"init_state": 0, "async_error": error, "finalize_called": False}
        return {
            "rank": number,
            "host": host,
            "pid": 100 + number,
            "status": status,
            "collective_counts": {"AllReduce": count, "Broadcast": 1},
        }

    return {
        "nccl_version": "2.29.1",
        "timestamp": "2025-12-19 13:06:53",
        "communicators_count": 1,
        "communicators": [
            {
                "hash": "0xae94",
                "size": 5,
                "ranks": [
                    rank(0, "192.0.2.1", 90),
                    rank(1, "192.0.2.1", 90, 6),
                    rank(2, "192.0.2.2", 90),
                    rank(3, "192.0.2.2", 70),
                ],
                "missing_ranks": [
                    {
                        "rank": 4,
                        "host": "192.0.2.3",
                        "pid": 104,
                        "status": {"unresponsive": True, "considered_dead": False},
                    }
                ],
            }
        ],
        "ras": {"collection_time_sec": 0.0, "timeouts_count": 3},
    }


def test_ras_in_json_says_the_same() -> None:
    found = parse_ras(json.dumps(ras_json(), indent=2).encode())
    assert {(each.state, each.rank, each.host) for each in found.processes} == {
        (State.UNRESPONSIVE, 4, "192.0.2.3"),
        (State.ERROR, 1, "192.0.2.1"),
    }
    assert found.timeouts == 3
    (one,) = behind(found.progress)
    assert (one.ranks, one.operation, one.sequence) == ((3,), "AllReduce", 90)


def test_a_process_that_answers_without_the_communicator_is_not_silent() -> None:
    document = ras_json()
    document["communicators"][0]["missing_ranks"][0]["status"]["unresponsive"] = False
    states = {each.state for each in parse_ras(json.dumps(document).encode()).processes}
    assert states == {State.ERROR}


def test_a_process_that_ras_cannot_place_has_no_host_called_unknown() -> None:
    document = ras_json()
    document["communicators"][0]["missing_ranks"][0] |= {"host": "unknown", "pid": -1}
    found = parse_ras(json.dumps(document).encode()).processes
    (one,) = (each for each in found if each.state is State.UNRESPONSIVE)
    assert (one.rank, one.host, one.pid) == (4, None, None)


EVENTS = """\
RAS Monitor Mode - watching for peer changes (Ctrl+C to exit)...
================================================================

[2025-12-19 13:06:40] PEER_NEW: Process 811 on node 192.0.2.12 managing GPU 0\x20
[2025-12-19 13:06:50] PEER_UNRESPONSIVE: Process 811 on node 192.0.2.12 managing GPU 0 no answer
[2025-12-19 13:06:51] PEER_SEND_STUCK: Process 813 on node 192.0.2.14 managing GPUs 0,1 (NVML 2,3) x
[2025-12-19 13:06:52] PEER_RECOVERED: Process 811 on node 192.0.2.12 managing GPU 0 peer responding
[2025-12-19 13:06:53] PEER_DEAD: Process 812 on node 192.0.2.13 managing GPU 5\x20
[2025-12-19 13:06:54] PEER_RECOVERED: Process 812 on node 192.0.2.13 managing GPU 5 peer responding
[2025-12-19 13:06:55] PEER_TIMEOUT_DEAD: 192.0.2.15<41237> no answer for 60s
[2025-12-19 13:06:55] PEER_DISCONNECTED: 192.0.2.16<41237> connection closed by peer
"""


def as_json(line: str) -> str:
    """The same event as JSON, of the form of rasClientsNotifyEvent."""
    at, event, rest = re.fullmatch(r"\[(.*?)\] (\w+): (.*)", line).groups()  # type: ignore[union-attr]
    known = re.match(r"Process (\d+) on node (\S+)", rest)
    of = '"host": "{}",\n    "pid": {},\n    "cuda_devs": [0],\n    "nvml_devs": [0]'
    peer = of.format(known[2], known[1]) if known else f'"addr": "{rest.split()[0]}"'
    return (
        f'{{\n  "timestamp": "{at}",\n  "group": "TRACE",\n  "event": "{event}",\n'
        f'  "peer": {{\n    {peer}\n  }},\n  "details": ""\n}}'
    )


@pytest.mark.parametrize("form", [str, as_json], ids=["text", "JSON"])
def test_what_ras_watched_is_how_each_process_was_at_last(form: Callable[[str], str]) -> None:
    lines = [form(each) if each.startswith("[") else each for each in EVENTS.splitlines()]
    found = parse_ras("\n".join(lines).encode())
    assert {(each.state, each.host, each.pid) for each in found.processes} == {
        (State.UNRESPONSIVE, "192.0.2.14", 813),
        (State.DEAD, "192.0.2.13", 812),
        (State.DEAD, "192.0.2.15", None),
    }


@given(st.text(max_size=300), st.integers(0, 2000))
def test_any_text_is_an_answer_of_ras_or_none(text: str, at: int) -> None:
    assume(not (RAS[:at] + text).lstrip().startswith("{"))  # that is JSON, or none
    parse_ras((RAS[:at] + text + RAS[at:] + "Job summary").encode())
    with pytest.raises(NotRas):
        parse_ras(text.replace("J", "").replace("C", "").encode("utf-8", "replace"))


# --- the flight recorder ----------------------------------------------------------------------


def entry(sequence: int, state: str = "completed", **more: Any) -> dict[str, Any]:
    ended = (1_773_403_200 + sequence) * 10**9
    return {
        "record_id": sequence,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": sequence,
        "p2p_seq_id": 0,
        "is_p2p": False,
        "profiling_name": "nccl:all_reduce",
        "input_sizes": ((4, 4),),
        "state": state,
        "time_created_ns": ended - 10**6,
        "time_discovered_completed_ns": ended if state == "completed" else None,
        **more,
    }


def dump(ended: int, begun: int, ranks: str = "[0, 1, 2, 3]") -> dict[str, Any]:
    entries = [entry(each) for each in range(1, ended + 1)]
    entries += [entry(each, "started") for each in range(ended + 1, begun + 1)]
    return {
        "version": "2.5",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}},
        "pg_status": {
            "0": {
                "last_enqueued_collective": begun,
                "last_started_collective": -1,
                "last_completed_collective": ended,
            }
        },
        "entries": entries,
    }


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_dump_as_pickle_and_as_json_says_the_same(protocol: int) -> None:
    document = dump(6, 7)
    as_pickle = parse_dump(pickle.dumps(document, protocol), 3)
    assert as_pickle == parse_dump(json.dumps(document).encode(), 3)
    (one,) = as_pickle.progress
    assert one == Progress(
        "flight-recorder", "0 (default_pg)", 3, None, None, "nccl:all_reduce", 7, 6
    )
    assert as_pickle.groups == {"0": (0, 1, 2, 3)}
    assert as_pickle.meetings["collective 0 (default_pg) 6"] == 1_773_403_206.0


def test_numbers_are_text_in_json_of_older_versions() -> None:
    document = dump(6, 7)
    document["pg_status"]["0"] = {
        key: str(value) for key, value in document["pg_status"]["0"].items()
    }
    assert parse_dump(json.dumps(document).encode(), 0).progress[0].entered == 7


def test_the_rank_that_did_not_enter_is_named() -> None:
    progress = [
        each
        for rank, (ended, begun) in enumerate([(6, 7), (6, 7), (6, 6), (6, 7)])
        for each in parse_dump(json.dumps(dump(ended, begun)).encode(), rank).progress
    ]
    story = compose(Collected(progress=progress))
    (one,) = story.behind
    assert (one.ranks, one.sequence, one.waiting) == ((2,), 7, 3)
    assert story.is_stuck
    assert answer(story) == (
        "nothing of RDMA is said to have failed; 3 ranks wait in nccl:all_reduce 7, which rank 2 "
        "did not enter"
    )


def test_dumps_of_one_moment_and_another_are_no_standstill() -> None:
    progress = [
        each
        for rank, ended in enumerate((7, 7, 6))
        for each in parse_dump(json.dumps(dump(ended, ended)).encode(), rank).progress
    ]
    assert behind(progress) == ()


def test_a_rank_without_a_dump_is_silent() -> None:
    found = parse_dump(json.dumps(dump(6, 7)).encode(), 0)
    story = compose(Collected(groups=dict(found.groups), dumped={0, 1, 3}))
    (silent,) = story.silent
    assert (silent.why, silent.ranks) == (Silence.NO_DUMP, (2,))


@pytest.mark.parametrize(
    "content",
    [b"{}", b"[]", b"{", b"\x80\x04}.", b'{"version": 1}', b"\x80\x02cos\nsystem\n."],
    ids=repr,
)
def test_what_is_no_dump_is_refused(content: bytes) -> None:
    with pytest.raises(NotADump):
        parse_dump(content, 0)


JUNK = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@given(JUNK, st.sampled_from(("entries", "pg_config", "pg_status")), st.booleans())
def test_a_dump_with_any_part_is_read(junk: object, part: str, inside: bool) -> None:
    document = dump(2, 3)
    if inside and part == "entries":
        document[part] = [entry(1, process_group=junk, collective_seq_id=junk), junk]
    elif inside:
        document[part]["0"] = junk
    else:
        document[part] = junk
    parse_dump(json.dumps(document).encode(), 1)


# --- Inspector --------------------------------------------------------------------------------


def record(rank: int, number: int, host: str = "node2", **more: Any) -> str:
    return json.dumps(
        {
            "header": {"id": "0x7f8c", "rank": rank, "n_ranks": 4, "nnodes": 2},
            "metadata": {
                "inspector_output_format_version": "v4.0",
                "dump_timestamp_us": 1_773_403_200_000_000 + number,
                "hostname": host,
                "pid": 811,
            },
            "coll_perf": {
                "coll": "AllReduce",
                "coll_sn": number,
                "coll_exec_time_us": 61,
                "event_trace_ts": {
                    "coll_stop_ts": 1_773_403_100_000_000 + number,
                    "kernel_events": [
                        {"channel_id": at, "kernel_stop_ts": 1_773_403_200_000_000 + number - at}
                        for at in (0, 1)
                    ],
                },
                **more,
            },
        }
    )


def test_the_last_operation_of_a_rank_is_taken_and_its_end() -> None:
    lines = [record(2, number) for number in (1405, 1407, 1406)]
    found = parse_inspector("\n".join(["{torn", *lines, "}"]).encode())
    (one,) = found.progress
    assert (one.rank, one.host, one.pid, one.entered) == (2, "node2", 811, 1407)
    assert found.records == 3
    assert found.meetings["0x7f8c AllReduce 1407"] == pytest.approx(1_773_403_200.001407)


def test_a_rank_that_stopped_earlier_is_named() -> None:
    several = [
        each
        for rank, last in enumerate((1407, 1407, 1407, 1391))
        for each in parse_inspector(record(rank, last, f"node{rank}").encode()).progress
    ]
    (one,) = behind(several)
    assert (one.ranks, one.hosts, one.sequence) == ((3,), ("node3",), 1407)


def test_the_time_at_which_an_operation_was_launched_is_no_time_that_ranks_share() -> None:
    bare = {"coll_start_ts": 1_773_403_200_000_000, "coll_stop_ts": 1_773_403_200_000_005}
    torn = {**bare, "kernel_events": [{"kernel_stop_ts": 1_773_403_200_000_061}, {}]}
    for trace in (bare, torn, {**bare, "kernel_events": []}):
        assert parse_inspector(record(2, 7, event_trace_ts=trace).encode()).meetings == {}


def test_a_file_of_sends_alone_names_its_rank_and_compares_none() -> None:
    sent = json.loads(record(3, 7, "node4"))
    sent["p2p_perf"] = {"p2p": "Send", "p2p_sn": 9, "p2p_peer": 1, "p2p_algobw_gbs": "nan"}
    del sent["coll_perf"]
    found = parse_inspector(json.dumps(sent).encode())
    assert (found.records, found.progress, found.writers) == (1, (), ((3, "node4"),))
    assert found.last is not None


@given(st.binary(max_size=200), JUNK)
def test_any_line_is_a_record_or_none(line: bytes, junk: object) -> None:
    parse_inspector(line)
    parse_inspector(record(1, 2, coll_sn=junk, event_trace_ts=junk, coll=junk).encode())
