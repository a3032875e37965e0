"""Two hosts that cannot talk: their logs and both their reports, and compat of the two."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.machine import Machine
from lab.routing import DEFAULT_RULES, Rule, Way
from rdmadiag.explain.job.ends import with_reports
from rdmadiag.explain.log.account import LikelyCause
from tests.cli.conftest import Outcome
from tests.explain.job.telling import placed
from tests.preflight.test_judge_ends import (
    FAILED,
    LOCAL,
    OTHER_MAC,
    PEER_MAC,
    PERMANENT,
    REACHABLE,
    ROW,
    UNREACHABLE,
    judged,
    netdev,
    node,
    one,
    soft,
    two,
    with_dummy,
)
from tests.sources.test_programs import AGAIN, HEAD, TCP
from tests.sources.test_traffic_control import ROOT, fifo, qdisc, tbf

# Children that read what a user names: tests/host/test_given_file.py, test_isolation.py.
pytestmark = pytest.mark.usefixtures("in_this_process")

Rdmadiag = Callable[..., Outcome]

WAITS = "  local address:  LID 0x0000, QPN 0x000011, PSN 0x30ddaf, GID ::ffff:192.0.2.1\n"
NO_ANSWER = f"{WAITS}Couldn't connect to 192.0.2.2:18515\n"
MET = f"{WAITS}  remote address: LID 0x0000, QPN 0x000011, PSN 0x1, GID ::ffff:192.0.2.2\n"
NO_ADDRESS = f"{WAITS}Couldn't connect to 192.0.2.99:18515\n"
WAITS_THERE = WAITS.replace("192.0.2.1", "192.0.2.2").replace("0x30ddaf", "0x51aa00")
NO_MEMORY = "Couldn't allocate MR: Cannot allocate memory\nibv_reg_mr failed: errno 12\n"
WRONG = one(neighbours={ROW: (PERMANENT, OTHER_MAC)})


@pytest.fixture
def seen(tmp_path: Path, rdmadiag: Rdmadiag) -> Callable[..., Outcome]:
    def explain(
        here: Machine, peer: Machine | None, log: str, *more: str, there: str = ""
    ) -> Outcome:
        for name, machine in (("node1", here), ("node2", peer)):
            folder = tmp_path / "reports" / name
            if machine is not None and not folder.exists():
                machine.change(hostname=name).write(str(folder), "Of a test.")
            (tmp_path / f"{name}.log").write_text(log if name == "node1" else there)
        logs = ("--log", f"{tmp_path}/node1.log", "--log", f"{tmp_path}/node2.log")
        return rdmadiag("explain", *logs, "--from", f"{tmp_path}/reports", *more)

    return explain


def of_reports(outcome: Outcome) -> dict[str, Any]:
    found: dict[str, Any] = outcome.document["of_reports"]
    return found


def test_logs_that_only_wait_are_answered_by_what_both_reports_prove(
    seen: Callable[..., Outcome],
) -> None:
    outcome = seen(WRONG, two(), WAITS)
    assert outcome.code == 2
    said = " ".join(outcome.out.split())
    assert said.startswith(
        f"FAILED no line says what failed; the reports do: node1 sends to {OTHER_MAC} for "
        f"192.0.2.2, and eth0 of node2 has {PEER_MAC}"
    )
    assert "# on node1 ip neigh show 192.0.2.2 dev eth0" in said
    found = of_reports(seen(WRONG, two(), WAITS, "--json"))
    assert (found["hosts"], found["object"]) == (
        ["node1"],
        "neighbour entry of 192.0.2.2 on eth0",
    )
    assert (found["cause"]["label"], found["cause"]["standing"]) == (
        "peer-unreachable",
        "confirmed",
    )


def test_logs_that_only_wait_and_reports_that_fit_have_commands_to_run(
    seen: Callable[..., Outcome],
) -> None:
    outcome = seen(one(), two(), WAITS)
    said = " ".join(outcome.out.split())
    assert "The reports of node1 and node2 beside each other show nothing that keeps them" in said
    assert "rdmadiag pingpong --allow-rtr --listen ADDRESS" in said
    found = of_reports(seen(one(), two(), WAITS, "--json"))
    assert (found["is_clear"], found["cause"], found["findings"]) == (True, None, [])


def test_where_both_hosts_lost_their_link_it_is_at_neither_of_them(
    seen: Callable[..., Outcome],
) -> None:
    dark = [netdev(each, carrier=False) for each in (one(), two())]
    found = of_reports(seen(*dark, MET, "--json"))
    assert (found["cause"]["label"], found["hosts"], found["is_proven"]) == ("port-down", [], True)


@pytest.mark.parametrize(
    ("there", "hosts"), [(two(), ["node1"]), (two(rules=None), [])], ids=["clear", "not all read"]
)
def test_a_program_that_somebody_ended_is_the_one_where_nothing_keeps_the_hosts_apart(
    seen: Callable[..., Outcome], there: Machine, hosts: list[str]
) -> None:
    found = of_reports(seen(one(), there, f"{MET}Terminated\n", "--json"))
    assert found["hosts"] == hosts
    label = found["cause"]["label"] if found["cause"] else None
    assert label == ("interrupted" if hosts else None)


def test_less_than_all_of_both_is_said(seen: Callable[..., Outcome]) -> None:
    outcome = seen(one(), two(rules=None), WAITS)
    said = " ".join(outcome.out.split())
    assert "show nothing, but not all of both was read" in said
    assert "not looked at: node2: " in said


def test_what_the_reports_prove_comes_first_and_what_they_contradict_last(
    seen: Callable[..., Outcome],
) -> None:
    document = seen(WRONG, two(), NO_ANSWER, "--json").document
    causes = document["first"]["failure"]["causes"]
    assert (causes[0]["label"], causes[0]["standing"]) == ("peer-unreachable", "confirmed")
    standing = {each["label"]: each["standing"] for each in causes}
    assert standing["peer-not-listening"] == "contradicted"
    assert causes[-1]["standing"] == "contradicted"


@pytest.mark.parametrize(
    ("there", "label", "host"),
    [
        (WAITS_THERE, "peer-address-wrong", "node1"),
        ("", "peer-not-listening", "node2"),
    ],
    ids=["it waits", "it says nothing"],
)
def test_a_client_that_goes_to_another_port_than_the_one_that_is_waited_at(
    seen: Callable[..., Outcome], tmp_path: Path, there: str, label: str, host: str
) -> None:
    heard = one(neighbours={ROW: (REACHABLE, PEER_MAC)})
    log = NO_ANSWER.replace(":18515", ":18599")
    document = seen(heard, two(), log, "--json", there=there).document
    assert document["first"]["failure"]["causes"][0]["label"] == label
    assert (document["at"]["kind"], document["at"]["names"]) == ("host", [host])


def test_a_route_that_the_reports_show_is_no_cause() -> None:
    story = placed({"a.log": NO_ANSWER})
    assert story.first
    causes = (LikelyCause("no-route", "none"), LikelyCause("peer-unreachable", "silent"))
    first = replace(story.first, failure=replace(story.first.failure, causes=causes))
    verdict = judged(one(), two())
    found = with_reports(replace(story, first=first), {("node1", "node2"): verdict}, {}).first
    assert found
    standing = [(each.label, each.standing) for each in found.failure.causes]
    assert standing == [("peer-unreachable", "possible"), ("no-route", "contradicted")]


@pytest.mark.parametrize(
    ("there", "first"), [(two(), "no-path"), (two(rules=None), "firewall")], ids=["clear", "not"]
)
def test_where_no_host_keeps_it_back_what_is_between_them_is_the_first_thought(
    there: Machine, first: str
) -> None:
    story = placed({"a.log": WAITS})
    assert story.first
    verdict = judged(one(), there)
    causes = (LikelyCause("firewall", "drops"), LikelyCause("no-path", "between"))
    failure = replace(story.first.failure, causes=causes)
    story = replace(story, first=replace(story.first, failure=failure))
    found = with_reports(story, {("node1", "node2"): verdict}, {}).first
    assert found
    assert found.failure.causes[0].label == first


HOSTS = {"/proc/sys/kernel/hostname": "node1\n", "/etc/nsswitch.conf": "hosts: files\n"}


@pytest.mark.parametrize(
    ("address", "label", "proven"),
    [
        ("192.0.2.99", "peer-address-wrong", False),
        ("127.0.1.1", "peer-is-this-host", True),
        ("192.0.2.255", "peer-address-wrong", True),
        ("192.0.2.1", "peer-is-own-address", True),
    ],
    ids=["nobody's", "loopback", "broadcast", "its own"],
)
def test_a_name_is_the_address_that_the_hosts_own_file_has_for_it(
    seen: Callable[..., Outcome], address: str, label: str, proven: bool
) -> None:
    here = one(files={**HOSTS, "/etc/hosts": f"{address} node2\n"})
    log = f"{WAITS}Couldn't connect to node2:18515\n"
    found = of_reports(seen(here, two(), log, "--json"))
    assert (found["cause"]["label"], found["hosts"], found["object"]) == (
        *(label, ["node1"]),
        f"address {address}",
    )
    assert found["is_proven"] is proven
    if label != "peer-is-own-address":
        assert "/etc/hosts of node1 has for node2" in found["cause"]["evidence"][0]


@pytest.mark.parametrize("files", [{}, {**HOSTS, "/etc/hosts": "192.0.2.2 node2\n"}])
def test_a_name_of_the_peers_own_address_or_of_no_file_is_no_other_address(
    seen: Callable[..., Outcome], files: dict[str, str]
) -> None:
    found = of_reports(
        seen(one(files=files), two(), f"{WAITS}Couldn't connect to node2:1\n", "--json")
    )
    assert found["cause"] is None or found["cause"]["label"] != "peer-address-wrong"


@pytest.mark.parametrize(
    ("hosts", "label"),
    [("192.0.2.9 node9\n", "peer-address-wrong"), ("192.0.2.9 node2\n192.0.2.8 node2\n", None)],
    ids=["in no file", "twice in the file"],
)
def test_a_name_that_others_are_asked_for_may_be_another_address(
    seen: Callable[..., Outcome], tmp_path: Path, rdmadiag: Rdmadiag, hosts: str, label: str | None
) -> None:
    names = {**HOSTS, "/etc/hosts": hosts, "/etc/nsswitch.conf": "hosts: files dns\n"}
    here = one(files={**names, "/etc/resolv.conf": "nameserver 192.0.2.53\n"})
    seen(here, two(), f"{WAITS}Couldn't connect to node2:18515\n")
    (tmp_path / "node2.log").write_text(WAITS.replace("192.0.2.1", "192.0.2.2"))
    logs = [f"--log={tmp_path}/{name}.log" for name in ("node1", "node2")]
    outcome = rdmadiag("explain", *logs, "--from", f"{tmp_path}/reports", "--json")
    found = of_reports(outcome)
    assert (found["cause"] or {}).get("label") == label
    if label:
        assert (found["hosts"], found["object"]) == (["node1"], "name node2")
        assert "dns 192.0.2.53 says" in found["cause"]["evidence"][0]


CLOSED = f"{MET}ethernet_read_keys: Couldn't read remote address\n"
UNANSWERED = two(files={TCP: HEAD + AGAIN.format(6)})


@pytest.mark.parametrize(
    ("log", "label"), [(WAITS, "firewall"), (CLOSED, None)], ids=["it waits", "it lost its peer"]
)
def test_what_tcp_sends_again_is_the_answer_where_nothing_was_heard_of_the_peer(
    seen: Callable[..., Outcome], log: str, label: str | None
) -> None:
    found = of_reports(seen(one(), UNANSWERED, log, "--json"))
    assert (found["cause"] or {}).get("label") == label
    assert [each["finding"]["rule"] for each in found["findings"]] == ["ends-tcp-unanswered"]


OTHER_RULE = two(
    default_ttl=64, rules=(*DEFAULT_RULES, Rule(100, table=254, source="203.0.113.0/24"))
)


@pytest.mark.parametrize(
    ("here", "there", "log", "hosts"),
    [
        (one(), OTHER_RULE, WAITS, ["node2"]),
        (one(), OTHER_RULE, NO_MEMORY, []),
        (one(default_ttl=63), OTHER_RULE, WAITS, []),
        (one(), two(rules=None, default_ttl=63), WAITS, []),
    ],
    ids=["one host alone", "a failure of no way", "each its own", "not all was read"],
)
def test_what_is_on_the_way_is_at_the_host_that_alone_has_what_somebody_set(
    seen: Callable[..., Outcome], here: Machine, there: Machine, log: str, hosts: list[str]
) -> None:
    document = seen(here, there, log, "--json").document
    assert document["of_reports"]["hosts"] == hosts
    if hosts:
        assert document["at"] == {
            "kind": "host",
            "names": hosts,
            "why": document["of_reports"]["cause"]["evidence"][-1],
            "is_certain": False,
        }
        assert "node2 alone has what somebody set: rule of priority 100" in document["at"]["why"]
        said = seen(here, there, log).out
        assert "To be mended at node2, as far as this shows" in said


SHORT = {"route-getqdisc": qdisc(2, b"bfifo", ROOT, fifo(600))}
SLOW = {"route-getqdisc": qdisc(2, b"tbf", ROOT, tbf(2500, 9100))}


@pytest.mark.parametrize(
    ("here", "there", "log", "label", "hosts"),
    [
        ({}, SHORT, "", "no-path", ["node2"]),
        ({}, SLOW, MET, "slow-path", ["node2"]),
        (SLOW, SHORT, "", "no-path", ["node2"]),
        (SLOW, SLOW, "", "no-path", []),
        ({}, SHORT, NO_MEMORY, None, []),
    ],
    ids=[
        "programs that say nothing",
        "data that does not get there",
        "what is for sure before what may be",
        "both, and nobody knows which",
        "a failure that is not of the way",
    ],
)
def test_a_setting_of_one_host_by_which_packets_do_not_pass_is_at_that_host(
    seen: Callable[..., Outcome],
    here: dict[str, bytes],
    there: dict[str, bytes],
    log: str,
    label: str | None,
    hosts: list[str],
) -> None:
    ends = soft(one(traffic=here)), soft(two(traffic=there))
    found = of_reports(seen(*ends, log, "--json"))
    assert ((found["cause"] or {}).get("label"), found["hosts"]) == (label, hosts)


@pytest.mark.parametrize(
    ("there", "label"),
    [(two(), "peer-address-wrong"), (two(rules=None), None)],
    ids=["all was read", "not all was read"],
)
def test_a_host_that_knows_no_route_and_has_one_to_the_peer_was_given_another_address(
    seen: Callable[..., Outcome], there: Machine, label: str | None
) -> None:
    log = "rdma_resolve_addr: Network is unreachable\n"
    found = of_reports(seen(one(), there, log, "--json"))
    assert (found["cause"] or {}).get("label") == label
    assert found["hosts"] == (["node1"] if label else [])


def test_of_programs_that_say_nothing_what_was_looked_for_is_the_peer(
    seen: Callable[..., Outcome],
) -> None:
    here = one(neighbours={("eth0", "192.0.2.99"): (FAILED, OTHER_MAC, 3.0)})
    found = of_reports(seen(here, two(), "", "--json"))
    assert (found["cause"]["label"], found["object"]) == (
        "peer-address-wrong",
        "address 192.0.2.99",
    )


@pytest.mark.parametrize(
    ("log", "label"),
    [("* Waiting for client to connect... *\n", "no-rdma-at-address"), (NO_MEMORY, None)],
    ids=["it waits for its client", "it failed by itself"],
)
def test_a_test_that_only_waits_is_answered_by_an_address_without_a_device(
    seen: Callable[..., Outcome], log: str, label: str | None
) -> None:
    there = one(ways=(Way("203.0.113.1/32", "eth0", "192.0.2.2"),))
    here = with_dummy(two())
    found = of_reports(seen(here, there, log, "--json"))
    assert (found["cause"] or {}).get("label") == label
    assert found["hosts"] == (["node1"] if label else [])


NO_RTR = """\
 Dual-port       : OFF\t\tDevice         : mlx5_0
 Connection type : RC\t\tUsing SRQ      : OFF
 GID index       : {index}
---------------------------------------------------------------------------------------
Failed to modify QP 18 to RTR
"""


@pytest.mark.parametrize(("row", "hosts"), [("3", ["node2"]), ("9", [])], ids=["that", "no such"])
def test_rows_of_gid_tables_that_both_ends_printed_are_the_addresses_that_were_used(
    seen: Callable[..., Outcome], tmp_path: Path, rdmadiag: Rdmadiag, row: str, hosts: list[str]
) -> None:
    waits = netdev(two(), flags={"192.0.2.2": 0x40})  # IFA_F_TENTATIVE
    seen(one(), waits, NO_RTR.format(index=row))
    (tmp_path / "node2.log").write_text(NO_RTR.format(index=row).rpartition("Failed")[0])
    logs = [f"--log={tmp_path}/{name}.log" for name in ("node1", "node2")]
    found = of_reports(rdmadiag("explain", *logs, f"--from={tmp_path}/reports", "--json"))
    rules = {each["finding"]["rule"] for each in found["findings"]}
    assert ("ends-named-address-unusable" in rules) is bool(hosts)
    assert found["hosts"] == hosts


def test_an_address_that_no_report_has_is_named(seen: Callable[..., Outcome]) -> None:
    document = seen(one(), two(), NO_ADDRESS, "--json").document
    found = document["of_reports"]
    assert (found["cause"]["label"], found["hosts"]) == ("peer-address-wrong", ["node1"])
    assert found["object"] == "address 192.0.2.99"
    assert document["first"]["failure"]["causes"][0]["label"] == "peer-address-wrong"


@pytest.mark.parametrize(
    ("listens_at", "label", "host"),
    [
        ("192.0.2.99", "not-this-hosts-address", "node2"),
        ("192.0.2.2", "peer-address-wrong", "node1"),
    ],
    ids=["at the address that it has not", "at its own"],
)
def test_an_address_that_both_ends_were_given_is_missing_at_the_one_that_listens(
    tmp_path: Path,
    rdmadiag: Rdmadiag,
    seen: Callable[..., Outcome],
    listens_at: str,
    label: str,
    host: str,
) -> None:
    log = "NOT ATTEMPTED  cannot connect to 192.0.2.99:18620: No route to host  [node1]\n"
    seen(one(), two(), log)
    waits = f"rdmadiag: waiting 12 s on {listens_at}:18620; on the other host: rdmadiag pingpong\n"
    (tmp_path / "node2.log").write_text(waits)
    files = (f"--log={tmp_path}/node1.log", f"--log={tmp_path}/node2.log")
    found = of_reports(rdmadiag("explain", *files, f"--from={tmp_path}/reports", "--json"))
    assert (found["cause"]["label"], found["hosts"]) == (label, [host])


def test_what_failed_before_any_packet_is_not_the_ways(seen: Callable[..., Outcome]) -> None:
    causes = seen(WRONG, two(), NO_MEMORY, "--json").document["first"]["failure"]["causes"]
    assert causes[0]["label"] != "peer-unreachable"


def test_one_report_alone_is_held_against_nothing(seen: Callable[..., Outcome]) -> None:
    assert seen(WRONG, None, WAITS, "--json").document["of_reports"] is None


@pytest.mark.parametrize(
    ("there", "code", "begin", "rule"),
    [
        (two(), 1, "CANNOT TALK", "cm-no-way"),
        (netdev(two(), mtu=1500), 1, "CANNOT TALK", "ends-mtu-differs"),
    ],
)
def test_compat_says_which_host_keeps_them_apart(
    there: Machine, code: int, begin: str, rule: str, tmp_path: Path, rdmadiag: Rdmadiag
) -> None:
    here = one(ways=(Way("192.0.2.2/32", kind=UNREACHABLE),))
    for name, machine in (("a", here), ("b", there)):
        machine.change(hostname=name).write(str(tmp_path / name), "Of a test.")
    outcome = rdmadiag("compat", f"{tmp_path}/a", f"{tmp_path}/b")
    assert outcome.code == code
    assert outcome.out.startswith(begin)
    assert f"[{rule}]" in outcome.out
    document = rdmadiag("compat", f"{tmp_path}/a", f"{tmp_path}/b", "--json").document
    assert document["talks"] == "no"
    assert rule in [each["finding"]["rule"] for each in document["findings"]]
    assert document["findings"][0]["hosts"] == ["a"]


def test_compat_of_healthy_hosts_finds_nothing(tmp_path: Path, rdmadiag: Rdmadiag) -> None:
    for name, machine in (("a", one()), ("b", two())):
        machine.change(hostname=name).write(str(tmp_path / name), "Of a test.")
    document = rdmadiag("compat", f"{tmp_path}/a", f"{tmp_path}/b", "--json").document
    assert (document["talks"], document["findings"], document["not_looked_at"]) == ("yes", [], [])


def test_compat_names_what_was_not_looked_at(tmp_path: Path, rdmadiag: Rdmadiag) -> None:
    there = node("192.0.2.2/24", PEER_MAC, rules=None)
    for name, machine in (("a", one()), ("b", there)):
        machine.change(hostname=name).write(str(tmp_path / name), "Of a test.")
    assert "not looked at: b: " in rdmadiag("compat", f"{tmp_path}/a", f"{tmp_path}/b").out


PERFTEST = """\
                    Send BW Test
 Dual-port       : OFF\t\tDevice         : {device}
 Connection type : RC\t\tUsing SRQ      : OFF
---------------------------------------------------------------------------------------
 local address: LID 0000 QPN 0x0011 PSN 0xb2650
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:192:00:02:{last}
 remote address: LID 0000 QPN 0x0011 PSN 0xd1139c
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:192:00:02:02
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
"""


@pytest.mark.parametrize(
    ("device", "last", "label", "what"),
    [
        ("mlx5_9", "01", "device-removed", "device mlx5_9"),
        ("mlx5_0", "77", "gid-row-removed", "GID ::ffff:192.0.2.77"),
    ],
)
def test_what_a_program_used_and_its_host_has_no_more_is_what_went(
    seen: Callable[..., Outcome], device: str, last: str, label: str, what: str
) -> None:
    outcome = seen(one(), two(), PERFTEST.format(device=device, last=last), "--json")
    found = of_reports(outcome)
    assert (found["cause"]["label"], found["hosts"], found["object"]) == (label, ["node1"], what)
    assert (found["is_proven"], outcome.code) == (True, 2)


def test_what_a_program_used_and_its_host_has_went_nowhere(
    seen: Callable[..., Outcome],
) -> None:
    found = of_reports(seen(one(), two(), PERFTEST.format(device="mlx5_0", last="01"), "--json"))
    assert (found["cause"], found["is_proven"]) == (None, False)


def test_a_peer_that_answers_on_the_link_is_not_unreachable(
    seen: Callable[..., Outcome], tmp_path: Path, rdmadiag: Rdmadiag
) -> None:
    here = one(neighbours={ROW: (REACHABLE, PEER_MAC)})
    seen(here, two(), NO_ANSWER)
    (tmp_path / "node2.log").write_text(WAITS.replace("192.0.2.1", "192.0.2.2"))
    logs = [f"--log={tmp_path}/{name}.log" for name in ("node1", "node2")]
    document = rdmadiag("explain", *logs, "--from", f"{tmp_path}/reports", "--json").document
    standing = {e["label"]: e["standing"] for e in document["first"]["failure"]["causes"]}
    assert standing["peer-unreachable"] == "contradicted"


def test_where_the_address_is_the_peers_nobody_listening_comes_before_another_address(
    seen: Callable[..., Outcome],
) -> None:
    log = (
        "Couldn't connect to {}:18516\n"
        "Unable to open file descriptor for socket connection"
        " Unable to init the socket connection\n"
    )
    here = one(neighbours={ROW: (REACHABLE, PEER_MAC)})

    def labels(address: str) -> list[str]:
        document = seen(here, two(), log.format(address), "--json").document
        return [each["label"] for each in document["first"]["failure"]["causes"]]

    assert labels("192.0.2.2")[0] == "peer-not-listening"
    assert labels("192.0.2.77")[0] == "peer-address-wrong"


REJECTED = "cma event RDMA_CM_EVENT_REJECTED, error 8\n"


@pytest.mark.parametrize(
    ("nodes", "label"),
    [(("uverbs0",), "rdma-ucm-not-loaded"), (("uverbs0", "rdma_cm"), "peer-not-listening")],
    ids=["without the node", "with it"],
)
def test_a_peer_without_the_node_of_rdma_cm_cannot_listen(
    seen: Callable[..., Outcome], nodes: tuple[str, ...], label: str
) -> None:
    there = two(nodes=dict.fromkeys(nodes, 0o666))
    document = seen(one(), there, REJECTED, "--json").document
    found = document["of_reports"]["cause"] or document["first"]["failure"]["causes"][0]
    assert found["label"] == label


def test_an_address_that_was_looked_for_lately_and_that_no_report_has_is_named(
    seen: Callable[..., Outcome],
) -> None:
    here = one(neighbours={("eth0", "192.0.2.9"): (FAILED, OTHER_MAC, 3.0)})
    log = "cma event RDMA_CM_EVENT_ADDR_ERROR, error -110\n"
    found = of_reports(seen(here, two(), log, "--json"))
    assert (found["cause"]["label"], found["hosts"]) == ("peer-address-wrong", ["node1"])
    assert found["object"] == "address 192.0.2.9"


@pytest.mark.parametrize(
    ("here", "label"),
    [
        (one(), "no-path"),
        (one(neighbours={ROW: (REACHABLE, PEER_MAC)}), "roce-port-dropped"),
    ],
    ids=["nothing known of the link", "they hear each other"],
)
def test_two_programs_that_say_nothing_and_two_hosts_that_are_well_leave_what_is_between(
    seen: Callable[..., Outcome], here: Machine, label: str
) -> None:
    found = of_reports(seen(here, two(), "", "--json"))
    assert (found["cause"]["label"], found["hosts"]) == (label, [])
    assert found["cause"]["standing"] == "possible"


@pytest.mark.parametrize(
    ("way", "label", "hosts"),
    [
        (Way("203.0.113.2/32", "eth0", "192.0.2.2"), "no-rdma-at-address", ["node2"]),
        (Way("203.0.113.0/24", "eth0", "192.0.2.2"), "no-path", []),
        (Way("192.0.2.2/32", "eth0"), "no-path", []),
    ],
    ids=["to that address alone", "to a network", "to an address of the RDMA device"],
)
def test_of_programs_that_say_nothing_an_announced_address_without_a_device_is_a_thought(
    seen: Callable[..., Outcome], way: Way, label: str, hosts: list[str]
) -> None:
    on_loopback = Way("203.0.113.2/32", "eth0", table=255, kind=LOCAL)
    found = of_reports(seen(one(ways=(way,)), two(ways=(on_loopback,)), "", "--json"))
    assert (found["cause"]["label"], found["hosts"]) == (label, hosts)
    assert (found["cause"]["standing"], found["is_proven"]) == ("possible", False)


def test_of_two_ends_that_failed_the_one_whose_report_shows_why_is_first(
    seen: Callable[..., Outcome], tmp_path: Path, rdmadiag: Rdmadiag
) -> None:
    seen(one(), two(), "")
    failed = "Failed to modify QP 18 to RTR\n"
    for name, row in (("node1", 3), ("node2", 9)):
        head = PERFTEST.format(device="mlx5_0", last="01").partition("----")[0]
        log = f"{head} GID index       : {row}\n{'-' * 87}\n{failed}"
        (tmp_path / f"{name}.log").write_text(log)
    logs = [f"--log={tmp_path}/{name}.log" for name in ("node1", "node2")]
    document = rdmadiag("explain", *logs, "--from", f"{tmp_path}/reports", "--json").document
    assert document["first"]["who"]["host"] == "node2"
    assert document["first"]["failure"]["causes"][0]["label"] == "gid-row-empty"
