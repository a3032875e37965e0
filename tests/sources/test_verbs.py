"""Transcripts of the verbs query: whole ones, damaged ones, and queries that came to grief."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from lab.mac import ready_mac
from lab.transcript import APPLE_LIMITS, Gids, Stop, TranscribedDevice, TranscribedPort, transcript
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import GidType, LinkLayer, NodeType, PhysState, PortState
from rdmadiag.facts.verbs import Unanswered, VerbsFacts, VerbsFailure, VerbsGid
from rdmadiag.sources.verbs import parse_verbs, read_verbs

FACTS = TypeAdapter(VerbsFacts | Missing)
THUNDERBOLT = TranscribedDevice(
    "rdma_en1",
    (
        TranscribedPort(
            lid=7,
            sm_lid=1,
            gids={0: Gids("fe80::344d:4ff:feea:4e40"), 1: Gids("::ffff:169.254.205.255")},
        ),
    ),
    guid="f09c:1571:e751:ac05",
    transport=100,
    limits=APPLE_LIMITS,
)
MLX5 = TranscribedDevice(
    "mlx5_0",
    (
        TranscribedPort(
            layer=LinkLayer.ETHERNET,
            gids={
                3: Gids("::ffff:192.0.2.1", GidType.ROCE_V2, 4),
                0: Gids("fe80::e42:a1ff:fe00:1", GidType.ROCE_V1),
            },
        ),
        TranscribedPort(state=PortState.DOWN, layer=LinkLayer.INFINIBAND, lid=9),
    ),
    guid="0c42:a103:0000:0001",
    firmware="22.31.1014",
)
CALLS = (
    "ibv_get_device_list",
    "ibv_open_device",
    "ibv_query_device",
    "ibv_query_port",
    "ibv_query_gid",
    "ibv_close_device",
    "ibv_free_device_list",
)
OF_A_DEVICE = CALLS[1:-1]


def of_mac(*stops, **more):
    """The transcript of librdma on a Mac with one device."""
    return transcript("darwin", "/usr/lib/librdma.dylib", [THUNDERBOLT], stops, **more)


def of_linux(*stops, **more):
    """The transcript of libibverbs on a host with one device of two ports."""
    return transcript("linux", "libibverbs.so.1", [MLX5], stops, table=True, **more)


def rows_of(raw):
    """A transcript as its rows."""
    return [json.loads(line) for line in raw.splitlines()]


def written(rows):
    """Rows as a transcript."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def changed(raw, call, **fields):
    """The transcript with other fields in the answer of `call`."""
    rows = rows_of(raw)
    at = next(at for at, row in enumerate(rows) if row.get("call") == call)
    rows[at + 1]["answer"] |= fields
    return written(rows)


# --- any content ------------------------------------------------------------------------

KEYS = st.sampled_from(
    [
        *("answer", "asked", "at", "call", "device", "end", "errno", "gid", "gid_tbl_len"),
        *("ifindex", "index", "library", "name", "node_type", "pid", "platform", "port"),
        *("rows", "state", "stderr", "transport", "type", "unkillable", "unloadable"),
    ]
)
LEAVES = (
    st.integers(-(2**64), 2**64)
    | st.none()
    | st.booleans()
    | st.floats()
    | st.sampled_from(["linux", "darwin", "rdma_en1", "\ud83d", "0" * 32, *CALLS])
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)
ROWS = st.dictionaries(KEYS, JSON, max_size=4)


def dicts(found):
    """Every dict in it, at any depth."""
    if isinstance(found, dict):
        yield found
    for each in found.values() if isinstance(found, dict) else found:
        if isinstance(each, dict | list):
            yield from dicts(each)


@st.composite
def tampered(draw, raw):
    """A transcript with values replaced, and rows left out, added or moved."""
    rows = rows_of(raw)
    for _ in range(draw(st.integers(1, 4))):
        what = draw(st.sampled_from(["known value", "value", "row"]))
        if what == "row":
            rows.insert(draw(st.integers(0, len(rows))), draw(ROWS))
            del rows[draw(st.integers(0, len(rows) - 1))]
        else:
            chosen = draw(st.sampled_from(list(dicts(rows))))
            known = st.sampled_from(sorted(chosen)) if chosen else KEYS
            chosen[draw(known if what == "known value" else KEYS)] = draw(LEAVES | JSON)
    return written(rows)


@pytest.mark.parametrize(
    "raw",
    [of_mac(), of_linux(), of_mac(Stop("ibv_query_port"), stderr="warning")],
    ids=["of a Mac", "of Linux", "of a call that hangs"],
)
@given(data=st.data())
def test_any_rows_are_facts_that_a_document_can_carry_or_missing(raw, data):
    found = parse_verbs(data.draw(tampered(raw) | st.lists(ROWS, max_size=5).map(written)))
    assert FACTS.validate_json(FACTS.dump_json(found)) == found


@pytest.mark.parametrize(
    ("row", "field", "value"),
    [
        (-1, "at", float("inf")),
        (-1, "at", float("nan")),
        (-1, "at", "late"),
        (-1, "pid", float("inf")),
        (-1, "stderr", "half a \ud83d"),
        (-2, "port", "1"),
        (-2, "port", [1]),
        (-2, "at", float("-inf")),
        (-2, "device", "half a \ud83d"),
        (0, "library", "half a \ud83d"),
    ],
    ids=str,
)
def test_odd_values_of_a_query_that_hangs_do_no_harm(row, field, value):
    rows = rows_of(of_mac(Stop("ibv_query_port")))
    rows[row][field] = value
    found = parse_verbs(written(rows))
    assert FACTS.validate_json(FACTS.dump_json(found)) == found
    assert isinstance(found, Missing) or found.unanswered.call == "ibv_query_port"


@given(st.binary(max_size=100))
def test_bytes_that_are_no_transcript_are_malformed(raw):
    assert parse_verbs(raw).why is Why.MALFORMED


@pytest.mark.parametrize("raw", [of_mac(), of_linux()], ids=["of a Mac", "of Linux"])
def test_a_transcript_that_is_cut_anywhere_is_never_taken_for_a_whole_one(raw):
    whole = parse_verbs(raw)
    done = raw.index(b'{"done"')
    for length in range(done):
        found = parse_verbs(raw[:length])
        if not isinstance(found, Missing):
            assert found.unanswered
            assert {each.name for each in found.devices} <= {each.name for each in whole.devices}


@pytest.mark.parametrize("raw", [of_mac(), of_linux()], ids=["of a Mac", "of Linux"])
def test_noise_between_the_lines_changes_nothing(raw):
    noise = [
        b"libibverbs: Warning: no userspace device-specific driver",
        b"\xff\xfe",
        b"[]",
        b"7",
        b"{",
    ]
    noisy = b"\n".join(line for row in raw.splitlines() for line in (*noise, row, b""))
    assert parse_verbs(noisy) == parse_verbs(raw)


# --- what is answered -------------------------------------------------------------------


def test_a_thunderbolt_device_is_told():
    found = parse_verbs(of_mac())
    assert (found.platform, found.library) == ("darwin", "/usr/lib/librdma.dylib")
    assert (found.failures, found.unanswered, found.warnings) == ((), None, ())
    (device,) = found.devices
    assert (device.name, device.transport, device.port_count) == ("rdma_en1", 100, 1)
    assert device.node_guid == device.sys_image_guid == "f09c:1571:e751:ac05"
    assert device.firmware == Missing(Why.ABSENT, "fw_ver: empty")
    limits = device.limits
    assert (limits.max_pd, limits.max_qp, limits.max_cq, limits.max_mr) == (11, 11, 11, 100)
    (port,) = device.ports
    assert (port.state, port.phys_state) == (PortState.ACTIVE, PhysState.LINK_UP)
    assert (port.link_layer, port.lid, port.sm_lid) == (LinkLayer.THUNDERBOLT, 7, 1)
    assert (port.max_mtu, port.active_mtu) == (4096, 4096)


def test_gids_that_were_asked_for_one_by_one_have_neither_type_nor_netdev():
    port = parse_verbs(of_mac()).device("rdma_en1").port(1)
    assert [(row.index, str(row.gid)) for row in port.gids] == [
        (0, "fe80::344d:4ff:feea:4e40"),
        (1, "::ffff:169.254.205.255"),
    ]
    assert {row.type.why for row in port.gids} == {Why.UNSUPPORTED}
    assert {row.netdev_index.why for row in port.gids} == {Why.UNSUPPORTED}
    assert (port.gid_table_length, port.gids_asked) == (32, 8)


def test_a_table_of_gids_tells_types_and_netdevs():
    found = parse_verbs(of_linux()).device("mlx5_0")
    assert (found.node_type, found.firmware) == (NodeType.CA, "22.31.1014")
    assert found.port(1).gids == (
        VerbsGid(
            0, Gid.parse("fe80::e42:a1ff:fe00:1"), GidType.ROCE_V1, Missing(Why.ABSENT, "none")
        ),
        VerbsGid(3, Gid.parse("::ffff:192.0.2.1"), GidType.ROCE_V2, 4),
    )
    assert [port.number for port in found.ports] == [1, 2]
    assert (found.port(1).gids_asked, found.port(2).gids) == (32, ())
    assert (found.port(2).state, found.port(2).lid) == (PortState.DOWN, 9)


@pytest.mark.parametrize("lines", ["", "one\n", "\n one \n\ntwo"], ids=repr)
def test_lines_on_stderr_are_warnings(lines):
    assert parse_verbs(of_mac(stderr=lines)).warnings == tuple(lines.split())


@pytest.mark.parametrize(
    ("call", "field", "place"),
    [
        ("ibv_query_port", "state", lambda device: device.ports[0].state),
        ("ibv_query_port", "phys_state", lambda device: device.ports[0].phys_state),
        ("ibv_query_port", "link_layer", lambda device: device.ports[0].link_layer),
        ("ibv_query_port", "max_mtu", lambda device: device.ports[0].max_mtu),
        ("ibv_query_port", "active_mtu", lambda device: device.ports[0].active_mtu),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_number_that_no_table_knows_is_malformed_and_the_rest_is_told(call, field, place):
    found = parse_verbs(changed(of_mac(), call, **{field: 77}))
    device = found.device("rdma_en1")
    assert place(device).why is Why.MALFORMED
    assert "77" in place(device).detail
    assert (device.ports[0].lid, len(device.ports[0].gids)) == (7, 2)


def test_a_node_type_that_no_table_knows_is_malformed():
    rows = rows_of(of_mac())
    rows[2]["answer"][0]["node_type"] = 100  # what the registry calls it
    found = parse_verbs(written(rows)).device("rdma_en1")
    assert (found.node_type.why, found.port_count) == (Why.MALFORMED, 1)


def test_a_gid_type_that_no_table_knows_is_malformed():
    rows = rows_of(of_linux())
    table = next(
        row for row in rows if isinstance(row.get("answer"), list) and "gid" in row["answer"][0]
    )
    table["answer"][0]["type"] = 9
    first, second = parse_verbs(written(rows)).device("mlx5_0").port(1).gids
    assert (first.type.why, second.type) == (Why.MALFORMED, GidType.ROCE_V2)


@pytest.mark.parametrize(
    ("guid", "text"),
    [
        ("0c42a10300000001", "0c42:a103:0000:0001"),
        ("0000000000000000", "0000:0000:0000:0000"),
        ("f09c1571e751ac05", "f09c:1571:e751:ac05"),
    ],
)
def test_a_guid_is_printed_as_sysfs_prints_it(guid, text):
    found = parse_verbs(changed(of_mac(), "ibv_query_device", node_guid=guid))
    assert found.device("rdma_en1").node_guid == text


@pytest.mark.parametrize("guid", ["", "0c42", "0C42A10300000001", "0c42:a103:0000:0001", 7, None])
def test_what_is_no_guid_is_malformed(guid):
    found = parse_verbs(changed(of_mac(), "ibv_query_device", node_guid=guid))
    assert found.device("rdma_en1").node_guid.why is Why.MALFORMED
    assert found.device("rdma_en1").sys_image_guid == "f09c:1571:e751:ac05"


def test_a_table_of_less_than_no_rows_has_none():
    found = parse_verbs(changed(of_linux(), "ibv_query_port", gid_tbl_len=-1)).device("mlx5_0")
    assert found.port(1).gid_table_length == found.port(1).gids_asked == 0


def test_a_row_of_zeros_is_no_gid():
    device = TranscribedDevice(
        "rdma_en1", (TranscribedPort(gids={0: Gids("::"), 1: Gids("fe80::1")}),)
    )
    found = parse_verbs(transcript("darwin", "x", [device])).device("rdma_en1").port(1)
    assert [row.index for row in found.gids] == [1]


def test_a_library_without_devices_has_none():
    found = parse_verbs(transcript("darwin", "/usr/lib/librdma.dylib", []))
    assert (found.devices, found.failures, found.unanswered) == ((), (), None)


# --- what could not be asked ------------------------------------------------------------


def end(**fields):
    """The row that the parent adds."""
    return {"end": 0, "pid": 4242, "unkillable": False, "at": 0.2, "stderr": ""} | fields


HEAD = {"platform": "linux", "library": "libibverbs.so.1", "at": 0.05}


def test_a_library_that_cannot_be_loaded_is_absent():
    said = "libibverbs.so.1: cannot open shared object file: No such file or directory"
    raw = written([HEAD, {"call": "dlopen", "at": 0.1}, {"unloadable": said, "at": 0.1}, end()])
    assert parse_verbs(raw) == Missing(Why.ABSENT, said)


def test_a_child_that_does_not_start_says_why():
    said = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'rdmadiag'\n"
    assert parse_verbs(written([end(end=1, stderr=said)])) == Missing(
        Why.MALFORMED,
        "verbs: the query did not start: ModuleNotFoundError: No module named 'rdmadiag'",
    )


def test_a_child_that_is_killed_before_it_starts_is_late():
    assert parse_verbs(written([end(end=None)])).why is Why.TIMEOUT


@pytest.mark.parametrize("raw", [b"", written([end()])], ids=["nothing", "an end alone"])
def test_a_child_that_says_nothing_is_malformed(raw):
    assert parse_verbs(raw) == Missing(Why.MALFORMED, "verbs: no answer")


@pytest.mark.parametrize("platform", ["freebsd", None, 7, ["linux"]], ids=repr)
def test_a_transcript_of_another_platform_is_malformed(platform):
    rows = rows_of(of_mac())
    rows[0]["platform"] = platform
    assert parse_verbs(written(rows)).why is Why.MALFORMED


@pytest.mark.parametrize("call", ["ibv_query_device", "ibv_query_port", "ibv_query_gid"])
def test_an_answer_of_another_form_is_malformed(call):
    rows = rows_of(of_mac())
    at = next(at for at, row in enumerate(rows) if row.get("call") == call)
    rows[at + 1]["answer"] = {"surprise": 1}
    assert parse_verbs(written(rows)).why is Why.MALFORMED


# --- calls that fail --------------------------------------------------------------------

NAMES = {
    "darwin": {16: "EBUSY", 22: "EINVAL", 60: "ETIMEDOUT", 96: "ENODATA", 102: "EOPNOTSUPP"},
    "linux": {16: "EBUSY", 22: "EINVAL", 61: "ENODATA", 96: "EPFNOSUPPORT", 110: "ETIMEDOUT"},
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("platform", "errno", "name"),
    [(platform, *each) for platform, names in NAMES.items() for each in names.items()],
)
def test_a_failure_is_named_by_the_platform_where_it_happened(call, platform, errno, name):
    raw = transcript(platform, "library", [THUNDERBOLT], [Stop(call, None, errno)])
    (failure,) = parse_verbs(raw).failures
    device = "rdma_en1" if call in OF_A_DEVICE else None
    port = 1 if call in ("ibv_query_port", "ibv_query_gid") else None
    assert failure == VerbsFailure(call, device, port, errno, name)


@pytest.mark.parametrize(
    ("errno", "name"), [(0, "no errno"), (9999, "errno 9999"), (-1, "errno -1")]
)
def test_a_failure_without_a_known_errno_is_still_one(errno, name):
    (failure,) = parse_verbs(of_mac(Stop("ibv_open_device", errno=errno))).failures
    assert (failure.errno, failure.name) == (errno, name)


def test_a_list_that_fails_leaves_no_device():
    found = parse_verbs(of_linux(Stop("ibv_get_device_list", errno=38)))
    assert (found.devices, found.unanswered) == ((), None)


def test_a_device_that_cannot_be_opened_says_why_in_every_field():
    found = parse_verbs(of_mac(Stop("ibv_open_device", errno=16))).device("rdma_en1")
    why = Missing(Why.UNSUPPORTED, "ibv_open_device: errno 16 (EBUSY: Device / Resource busy)")
    assert found.transport == 100
    assert found.node_guid == found.firmware == found.port_count == found.limits == why
    assert found.ports == why


def test_another_device_than_the_one_that_failed_is_told_whole():
    raw = transcript("linux", "x", [THUNDERBOLT, MLX5], [Stop("ibv_open_device", "rdma_en1", 13)])
    found = parse_verbs(raw)
    assert isinstance(found.device("rdma_en1").ports, Missing)
    assert len(found.device("mlx5_0").ports) == 2


def test_a_device_without_attributes_still_has_its_port():
    found = parse_verbs(of_mac(Stop("ibv_query_device", errno=5))).device("rdma_en1")
    assert found.limits.detail == "ibv_query_device: errno 5 (EIO: Input/output error)"
    assert (found.port(1).lid, len(found.port(1).gids)) == (7, 2)


def test_a_port_that_cannot_be_queried_is_missing():
    found = parse_verbs(of_mac(Stop("ibv_query_port", errno=22))).device("rdma_en1")
    assert found.ports == Missing(
        Why.UNSUPPORTED, "ibv_query_port: errno 22 (EINVAL: Invalid argument)"
    )
    assert (found.port_count, found.port(1)) == (1, None)


@pytest.mark.parametrize(
    ("raw", "call"),
    [
        (of_mac(Stop("ibv_query_gid", errno=22)), "ibv_query_gid"),
        (of_linux(Stop("_ibv_query_gid_table", errno=22)), "_ibv_query_gid_table"),
    ],
    ids=["one by one", "the table"],
)
def test_gids_that_cannot_be_queried_are_not_taken_for_none(raw, call):
    (device,) = parse_verbs(raw).devices
    assert device.ports[0].gids.detail == f"{call}: errno 22 (EINVAL: Invalid argument)"
    assert device.ports[0].gids_asked == 0


def test_a_row_of_gids_that_is_refused_is_told_beside_the_others():
    rows = rows_of(of_mac())
    at = next(at for at, row in enumerate(rows) if row.get("call") == "ibv_query_gid")
    answer = rows[at + 1]["answer"]
    answer["rows"][0] = {"index": 0, "errno": 96}
    found = parse_verbs(written(rows))
    port = found.device("rdma_en1").port(1)
    assert [row.index for row in port.gids] == [1]
    assert port.gids_unreadable == {
        0: Missing(
            Why.UNSUPPORTED, "ibv_query_gid: errno 96 (ENODATA: No message available on STREAM)"
        )
    }
    assert found.failures == (VerbsFailure("ibv_query_gid", "rdma_en1", 1, 96, "ENODATA"),)


# --- calls that do not come back --------------------------------------------------------


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("unkillable", [False, True], ids=["killed", "unkillable"])
def test_a_call_that_hangs_is_named_with_what_came_before_it(call, unkillable):
    raw = of_mac(Stop(call), unkillable=unkillable)
    begun = next(row["at"] for row in rows_of(raw) if row.get("call") == call)
    found = parse_verbs(raw)
    assert found.unanswered == Unanswered(
        call=call,
        device="rdma_en1" if call in OF_A_DEVICE else None,
        port=1 if call in ("ibv_query_port", "ibv_query_gid") else None,
        seconds=pytest.approx(6.02 - begun, abs=0.001),
        end="killed at the deadline",
        pid=4242,
        unkillable=unkillable,
    )
    assert found.failures == ()
    answered = CALLS.index(call)
    assert len(found.devices) == (answered > CALLS.index("ibv_get_device_list"))
    for device in found.devices:
        assert isinstance(device.limits, Missing) == (answered <= CALLS.index("ibv_query_device"))
        assert isinstance(device.ports, Missing) == (answered <= CALLS.index("ibv_query_port"))
        for port in device.ports if isinstance(device.ports, tuple) else ():
            assert isinstance(port.gids, Missing) == (answered <= CALLS.index("ibv_query_gid"))


def test_nothing_is_said_to_be_unasked_that_was_asked():
    hung = parse_verbs(of_mac(Stop("ibv_query_port"))).device("rdma_en1").ports
    assert hung == Missing(Why.NOT_COLLECTED, "ibv_query_port: no answer")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (-11, "ended by signal 11"),
        (-6, "ended by signal 6"),
        (1, "ended with code 1"),
        (0, "ended with code 0"),
    ],
)
def test_a_call_that_ends_the_process_is_named_with_the_way_it_ended(code, said):
    rows = rows_of(of_mac(Stop("ibv_query_device")))
    rows[-1] |= {"end": code, "at": 0.3}
    stopped = parse_verbs(written(rows)).unanswered
    assert (stopped.call, stopped.device, stopped.end) == ("ibv_query_device", "rdma_en1", said)
    assert stopped.seconds < 1


@pytest.mark.parametrize(
    ("rows", "code", "said"),
    [
        ([HEAD, {"call": "dlopen", "at": 0.1}], -11, "ended by signal 11"),
        ([HEAD, {"call": "dlopen", "at": 0.1}], None, "killed at the deadline"),
    ],
    ids=["crashes", "hangs"],
)
def test_a_library_that_ends_or_hangs_as_it_is_loaded_is_not_taken_for_an_empty_one(
    rows, code, said
):
    stopped = parse_verbs(written([*rows, end(end=code, at=6.1)])).unanswered
    assert (stopped.call, stopped.device, stopped.seconds) == ("dlopen", None, 6.0)
    assert stopped.end == said


@pytest.mark.parametrize("kept", [1, 3, 5], ids=["before the list", "after it", "after the open"])
def test_a_query_that_ends_between_two_calls_is_not_taken_for_a_whole_one(kept):
    rows = rows_of(of_mac())[:kept]
    stopped = parse_verbs(written([*rows, end(end=None, at=0.5)])).unanswered
    assert (stopped.call, stopped.end) == ("between two calls", "killed at the deadline")
    assert 0 <= stopped.seconds <= 0.5


def test_an_end_before_the_call_began_is_no_time_at_all():
    rows = rows_of(of_mac(Stop("ibv_query_port")))
    rows[-1]["at"] = -5
    assert parse_verbs(written(rows)).unanswered.seconds == 0.0


# --- the host ---------------------------------------------------------------------------


@pytest.fixture
def asked_host(host_in_memory):
    """A host that notes what the library is asked for, and answers with the transcript."""

    class AskedHost(host_in_memory):
        def __init__(self, recording, platform, answer):
            super().__init__(recording, platform)
            self.answer = answer
            self.queries = []

        def verbs(self, gid_rows, deadline):
            self.queries.append((gid_rows, deadline - time.monotonic()))
            return self.answer

    return AskedHost


def test_the_transcript_of_a_host_is_parsed(asked_host, roce, soon):
    host = asked_host(roce.recording(), "linux", of_linux())
    assert read_verbs(host, soon) == parse_verbs(of_linux())


def test_a_ready_mac_is_told(soon):
    found = read_verbs(ready_mac().host(), soon)
    assert [device.name for device in found.devices] == ["rdma_en1", "rdma_en2"]
    states = [device.port(1).state for device in found.devices]
    assert states == [PortState.ACTIVE, PortState.DOWN]


@pytest.mark.parametrize("why", [Why.ABSENT, Why.DENIED])
def test_a_kernel_without_character_devices_is_left_alone(asked_host, roce, soon, why):
    recording = roce.recording()
    path = "/sys/class/infiniband_verbs"
    recording.refuse("list", path, Missing(why, path))
    host = asked_host(recording, "linux", of_linux())
    assert read_verbs(host, soon).why is why
    assert host.queries == []


def test_a_mac_is_asked_though_it_has_no_sysfs(asked_host, soon):
    host = asked_host(ready_mac().recording(), "darwin", of_mac())
    assert read_verbs(host, soon) == parse_verbs(of_mac())
    assert len(host.queries) == 1


def test_a_host_that_cannot_ask_says_why(asked_host, soon):
    missing = Missing(Why.UNSUPPORTED, "no verbs library is known for this system")
    host = asked_host(ready_mac().recording(), "darwin", missing)
    assert read_verbs(host, soon) == missing


def test_the_query_has_six_seconds_at_most_and_the_rows_that_were_asked_for(asked_host):
    host = asked_host(ready_mac().recording(), "darwin", of_mac())
    read_verbs(host, time.monotonic() + 20)
    read_verbs(host, time.monotonic() + 1, 3)
    (default, six), (chosen, one) = host.queries
    assert (default, chosen) == (8, 3)
    assert six <= 6
    assert one <= 1
