"""What perftest, the pingpongs and librdmacm's examples print, line by line."""

import pytest

from rdmadiag.explain.log.kind import NOT_STARTED, Kind
from rdmadiag.explain.log.meaning import Meaning
from rdmadiag.explain.log.recognition.recognise import recognise


def meaning(line: str, after: str = "", above: str = "") -> Meaning:
    found = recognise(line.encode(), after.encode(), above.encode())
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("line", "label"),
    [
        (" Max inline should be between 0 and 912", "qp-too-large"),
        (" Parser function exited with Error", "argument-refused"),
        (" Invalid Command or flag.", "argument-refused"),
        (" Message Size should be between 1 and 2147483647", "argument-refused"),
        ("Invalid size 1 (valid range is 23 to 65536)", "argument-refused"),
        (" Invalid Command line. Please check command rerun", "argument-refused"),
        ("Invalid count 0", "argument-refused"),
        ("Invalid option argument for -t", "argument-refused"),
        ("IB device -x not found", "argument-refused"),
        ("IB device mlx5_9 not found", "device-absent"),
        ("IB device  not found", "device-absent"),  # a name that is empty was given
        ("rpoll: Success", "peer-refused"),
        ("ibv_rc_pingpong: invalid option -- 'Z'", "argument-refused"),
        ("/usr/bin/ib_send_bw: unrecognized option '--qps'", "argument-refused"),
        ("rping: option requires an argument -- 'p'", "argument-refused"),
        ("ib_write_lat: option '--size' requires an argument", "argument-refused"),
        ("  ibv_rc_pingpong            start a server and wait for connection", "argument-refused"),
        ("rping -s [-vVd] [-S size] [-C count] [-a addr] [-p port]", "argument-refused"),
        ("usage: udaddy", "argument-refused"),
        (" Connection type mismatch: local=RC, remote=UC", "arguments-differ"),
        ("Couldn't parse line <0000:000011>", "other-program"),
        (" Max message size in UD cannot be greater than MTU ", "mtu-above-port"),
        ("Failed to allocate hugepages. Please configure hugepages", "hugepages-missing"),
        ("rpoll: Operation now in progress", "peer-not-listening"),
        ("rpoll: Transport endpoint is not connected", "peer-not-listening"),
        ("Couldn't listen to port 18515", "tcp-port-taken"),
        ("Couldn't listen to port 80", "tcp-port-privileged"),
        ("Couldn't listen to port 1023", "tcp-port-privileged"),
        ("Couldn't listen to port 1024", "tcp-port-taken"),
        ("rdma_bind_addr: Permission denied", "tcp-port-privileged"),
        ("Error opening XRC domain", "qp-type-unsupported"),
        ("Couldn't allocate work buf.", "no-memory"),
        ("Temporary failure in name resolution for node7.example:18515", "name-not-resolved"),
        ("Name or service not known for node7:18515", "name-not-resolved"),
        (
            "getaddrinfo failed (Name or service not known) - invalid hostname or IP address",
            "name-not-resolved",
        ),
        (
            (
                "rping: error while loading shared libraries: librdmacm.so.1: cannot open shared "
                "object file: No such file or directory"
            ),
            "rdmacm-library-missing",
        ),
        (" Found Incompatibility issue with GID types.", "gid-index-or-family"),
        ("Unexpected CM event bl blka 8", "peer-not-listening"),
        ("Unexpected CM event bl blka 7", "peer-unreachable"),
        ("unexpected CM event 11", "device-removed"),
        ("ethernet_read_data: Couldn't read reports", "other-program"),
        ("ethernet_read_keys: Couldn't read remote address", "peer-gone"),
        ("client read/write: No space left on device", "peer-gone"),
        (" Failed to exchange data between server and clients", "peer-gone"),
        (" Failed to close connection between server and client", "peer-gone"),
        (" Unable to query port 2 attributes", "no-such-port"),
        ("Failed to modify QP to INIT", "no-such-port"),
        ("Couldn't create CQ", "cq-too-large"),
        ("Couldn't create completion channel", "open-files-limit"),
        ("ibv_create_comp_channel failed", "open-files-limit"),
        ("setup_qp failed: 24", "open-files-limit"),
        ("Couldn't get context for mlx5_0", "uverbs-node-not-openable"),
        ("rdma_bind_addr: Address already in use", "cm-port-taken"),
        ("rdma_bind_addr: Cannot assign requested address", "not-this-hosts-address"),
        ("rdma_bind_addr: No such device", "no-rdma-at-address"),
        ("rdma_resolve_addr: No route to host", "no-route"),
        ("rconnect: Connection refused", "peer-not-listening"),
        ("udaddy: listen request failed: Invalid argument", "argument-refused"),
        ("udaddy: bind address failed: Cannot assign requested address", "not-this-hosts-address"),
        ("rbind: Address already in use", "cm-port-taken"),
    ],
)
def test_the_first_cause_of_a_line(line: str, label: str) -> None:
    assert meaning(line).causes[0].label == label


@pytest.mark.parametrize(
    "line",
    [
        "ethernet_read_keys: Couldn't read remote address",
        "ethernet_read_data: Couldn't read reports",
        "Couldn't read/write remote address",
    ],
)
def test_an_end_that_hears_no_more_of_the_other_is_no_failure_of_its_own(line: str) -> None:
    assert meaning(line).kind is Kind.CONSEQUENCE


@pytest.mark.parametrize(
    "line",
    [
        "Expected events were 1 to 9; event 9",
        "priorities should be between 0 and 7",
        "curl: Temporary failure in name resolution for a mirror",
        "rdma link add rxe0 type rxe netdev eth0",
        "tar: invalid option -- 'Z'",
        "usage: tar [-x]",
        "  ib_send_bw            start a server and wait for connection",  # of --help
        "nginx            start a server and wait for connection",
    ],
)
def test_other_lines_are_none_of_theirs(line: str) -> None:
    found = recognise(line.encode())
    assert found is None or found.is_other


def test_the_errno_of_a_read_that_was_only_short_is_of_an_earlier_call() -> None:
    assert meaning("client read/write: No space left on device").fields.errno is None


def test_a_link_local_gid_of_an_ethernet_port_is_the_likeliest_cause_where_rtr_failed() -> None:
    ends = "  local address:  LID 0x0000, QPN 0x000011, PSN 0x921e60, GID fe80::1"
    assert meaning("Failed to modify QP to RTR", above=ends).causes[0].label == "gid-not-an-address"


def test_of_infiniband_it_is_as_it_should_be() -> None:
    ends = "  local address:  LID 0x0007, QPN 0x000011, PSN 0x921e60, GID fe80::1"
    assert meaning("Failed to modify QP to RTR", above=ends).causes[0].label != "gid-not-an-address"


@pytest.mark.parametrize(("completed", "label"), [("0", "no-path"), ("9485", "peer-gone")])
def test_a_path_that_had_carried_requests_is_not_the_first_thought(
    completed: str, label: str
) -> None:
    found = meaning(
        " Failed status 12: wr_id 0 syndrom 0x81 on mlx5_0 local gid ::ffff:192.0.2.1"
        " remote gid ::ffff:192.0.2.2",
        f"scnt=9489, ccnt={completed}",
    )
    assert found.causes[0].label == label


def test_a_usage_is_read_in_a_whole_log() -> None:
    """A line that ends in "connection" is joined with the one below it."""
    usage = "  ibv_rc_pingpong            start a server and wait for connection"
    found = meaning(usage, "  ibv_rc_pingpong <host>     connect to server at <host>\n")
    assert found.causes[0].label == "argument-refused"


def test_perftest_takes_the_mtu_that_the_port_has_and_goes_on() -> None:
    found = meaning(" Requested mtu is higher than active mtu ")
    assert (found.kind, found.causes[0].label) == (Kind.NOTE, "mtu-above-port")


@pytest.mark.parametrize(
    "line",
    ["fi_mr_reg: Permission denied", "libfabric: fi_getinfo: No such file or directory"],
)
def test_a_function_of_libfabric_is_no_program(line: str) -> None:
    found = recognise(line.encode(), b"", b"")
    assert found is None or found.what != NOT_STARTED
