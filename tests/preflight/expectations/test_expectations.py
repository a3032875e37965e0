"""What is expected: each key met by a healthy machine, and unmet by one that differs in it."""

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.machine import Machine
from lab.samples import infiniband_host, roce_host
from rdmadiag.facts import Identity, Limit, Missing, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import NetnsMode, PhysState, PortState
from rdmadiag.facts.system import Ancestor
from rdmadiag.facts.toml_file import TomlFileError
from rdmadiag.facts.verbs import KILLED, Unanswered
from rdmadiag.host.recorded import open_snapshot
from rdmadiag.host.toml_file import parse_toml
from rdmadiag.preflight.expectations import Expectations
from rdmadiag.preflight.expectations.derive import derived
from rdmadiag.preflight.expectations.keys import KEYS, NotThis, pattern, rate
from rdmadiag.preflight.expectations.written import expectations, from_option
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.verdict import Finding, Severity
from rdmadiag.render import expectations as rendered
from rdmadiag.samples import folder, samples
from rdmadiag.sources.run import gather
from rdmadiag.view.reconcile import devices
from rdmadiag.view.select import Selector

FIXTURES = Path(__file__).parents[2] / "fixtures"


def expect(text: str) -> Expectations:
    return expectations(parse_toml(text.encode(), "good.toml"))


def unmet(subject: Machine | Evidence, text: str, *names: str) -> list[Finding]:
    evidence = subject.evidence() if isinstance(subject, Machine) else subject
    found = judge(
        evidence, tuple(Selector(name) for name in names), expectations=expect(text)
    ).findings
    return [each for each in found if each.rule.startswith("expected-")]


IDENTITY = Identity("good", "linux", "6.1.0")
IB, ROCE = infiniband_host(), roce_host()

ROWS = [
    # key, the machine, a value that holds, one that does not, and what is there
    ("devices", IB, "2", "3", "2"),
    ("active_ports", IB, "2", "1", "2"),
    ("memlock", IB.change(memlock="8388608"), "8388608", '"unlimited"', "8388608"),
    ("modules", IB, '["ib_uverbs", "mlx5-ib"]', '["ib_ipoib"]', None),
    ("netns_mode", IB, '"shared"', '"exclusive"', "shared"),
    ("rate", IB, '">=200 Gb/sec"', '"400 Gb/s"', "200 Gb/sec (4X HDR)"),
    ("count", IB, "2", "1", "2 (mlx5_0 mlx5_1)"),
    ("ports", IB, "1", "2", "1"),
    ("driver", IB, '"mlx5_*"', '"bnxt_en"', "mlx5_core"),
    ("firmware", IB, '">=20.34.9999"', '"20.35.2001"', "20.35.2000"),
    ("firmware", IB, '"20.35.2000"', '">=20.35.10000"', "20.35.2000"),
    ("board_id", IB, '"MT_*"', '"MT_0000000224"', "MT_0000000223"),
    ("pci_address", IB, '"0000:??:00.0"', '"0000:?b:00.1"', None),
    ("pci_speed", IB, '">=8.0 GT/s"', '"32.0 GT/s PCIe"', "16.0 GT/s PCIe"),
    ("pci_width", IB, "16", "8", "16"),
    ("numa_node", IB.change(devices=IB.devices[:1]), "0", "1", "0"),
    ("state", IB, '"active"', '"down"', "active"),
    ("link_layer", IB, '"infiniband"', '"ethernet"', "infiniband"),
    ("rate", IB, '"200 Gb/sec"', '">=200.5 Gb/sec"', "200 Gb/sec (4X HDR)"),
    ("width", IB, '"4X"', '"2x"', "4X"),
    ("mtu", IB, "4096", "2048", "4096"),
    ("netdev", ROCE, '"ens1f0np0"', '"eth*"', "ens1f0np0"),
    ("netdev_mtu", ROCE, "9000", "1500", "9000"),
    ("gid_index", ROCE, "3", "1", "3"),
    ("gid_type", ROCE, '"roce_v2"', '"roce_v1"', "roce_v2"),
    ("gid_family", ROCE, '"ipv4"', '"ipv6"', "ipv4"),
]  # fmt: skip


def table(key: str, number: int) -> str:
    """Where the row's key stands; a rate both of the host and of a device."""
    host = KEYS[key].scope == "host" or (key == "rate" and number < 10)
    return "[host]" if host else '[device."mlx5_*"]'


def test_every_key_has_a_row() -> None:
    assert {row[0] for row in ROWS} == set(KEYS)


@pytest.mark.parametrize(
    ("number", "row"), list(enumerate(ROWS)), ids=[f"{row[0]} is {row[3]}" for row in ROWS]
)
def test_a_key_is_met_by_one_value_and_unmet_by_another(number: int, row: Any) -> None:
    key, machine, holds, fails, actual = row
    assert unmet(machine, f"{table(key, number)}\n{key} = {holds}\n") == []
    found = unmet(machine, f"\n{table(key, number)}\n{key} = {fails}\n")
    assert {each.rule for each in found} == {KEYS[key].code}
    first = found[0]
    assert first.severity is Severity.CRITICAL
    assert first.expected == fails.strip('"[]').replace('"', "") or key == "memlock"
    assert actual in (None, first.actual)
    assert first.evidence[1].subject == f"good.toml {table(key, number)} {key}"
    where = f"good.toml {table(key, number)}"
    assert first.remedy[-1] == f"# if it is meant to be so: {where} expects otherwise"
    assert not any("{" in line for line in first.remedy)


def test_where_a_line_repairs_it_that_line_is_the_remedy() -> None:
    (mtu,) = unmet(ROCE, '[device."mlx5_*"]\nnetdev_mtu = 1500\n')
    assert "sudo ip link set dev ens1f0np0 mtu 1500" in mtu.remedy
    (modules,) = unmet(IB, '[host]\nmodules = ["ib_ipoib"]\n')
    assert "sudo modprobe -a ib_ipoib" in modules.remedy


def test_a_table_can_say_that_its_findings_are_warnings() -> None:
    (one, two) = unmet(IB, '[device."mlx5_*"]\nseverity = "warn"\nfirmware = "1"\n')
    assert (one.severity, two.severity) == (Severity.WARN, Severity.WARN)


def test_a_pattern_that_nothing_matches_is_a_finding() -> None:
    (found,) = unmet(IB, '[device."mlx4_*"]\nrate = "1 Gb/sec"\n')
    assert (found.rule, found.summary) == (
        "expected-count",
        "no RDMA device mlx4_*, which is expected",
    )
    (found,) = unmet(IB, '[device."mlx5_0/2"]\nstate = "active"\n')
    assert found.summary == "no RDMA device mlx5_0/2, which is expected"


def test_every_pattern_that_matches_holds() -> None:
    text = '[device."mlx5_*"]\nwidth = "4X"\n[device."mlx5_0/1"]\nwidth = "1X"\n'
    (found,) = unmet(IB, text)
    assert (found.device, found.port) == ("mlx5_0", 1)


def test_of_chosen_devices_their_own_tables_are_compared_and_the_host_as_a_whole() -> None:
    text = '[host]\ndevices = 2\n[device.mlx5_0]\nwidth = "1X"\n[device.mlx5_1]\nwidth = "2X"\n'
    assert [each.device for each in unmet(IB, text, "mlx5_1")] == ["mlx5_1"]


def down(machine: Machine) -> Machine:
    return machine.with_port(state=PortState.DOWN, phys=PhysState.POLLING)


def test_a_port_without_a_link_is_the_finding_and_not_all_that_follows_from_it() -> None:
    text = '[device."mlx5_*"]\nrate = "200 Gb/sec"\nwidth = "4X"\ngid_index = 0\n'
    (found,) = unmet(down(IB), text)
    assert (found.rule, found.expected, found.actual) == ("expected-state", "active", "down")
    assert found.evidence[1].value == "200 Gb/sec, of an active port"


def test_a_port_may_be_expected_to_be_down() -> None:
    assert unmet(down(IB), '[device.mlx5_0]\nstate = "down"\n') == []


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("[host]\ndevices = 2\n", "expected-devices"),
        ("[host]\nactive_ports = 2\n", "expected-active-ports"),
        ('[host]\nrate = "1 Gb/sec"\n', "expected-rate"),
        ('[device."mlx5_*"]\nwidth = "4X"\n', "expected-count"),
        ('[host]\nmemlock = "unlimited"\n', "expected-memlock"),
        ('[host]\nmodules = ["ib_uverbs"]\n', "expected-modules"),
        ('[host]\nnetns_mode = "shared"\n', "expected-netns-mode"),
    ],
)
def test_what_could_not_be_looked_at_is_unknown_never_met(text: str, rule: str) -> None:
    gone = Missing(Why.TIMEOUT, "no answer")
    blind = replace(
        IB.evidence(), sysfs=gone, nldev=gone, process=gone, verbs=gone, system=gone, netdev=gone
    )
    (found,) = unmet(blind, text)
    assert (found.rule, found.severity, found.actual) == (rule, Severity.UNKNOWN, None)
    assert "could not be looked at: timeout: no answer" in found.summary.replace("sysfs ", "")


def test_a_provider_that_hangs_takes_nothing_from_what_sysfs_lists() -> None:
    evidence = IB.evidence()
    assert not isinstance(evidence.verbs, Missing)
    stopped = Unanswered("ibv_open_device", "mlx5_0", None, 9.0, KILLED, 7, unkillable=False)
    wedged = replace(evidence, verbs=replace(evidence.verbs, unanswered=stopped))
    text = '[host]\ndevices = 2\nactive_ports = 2\n[device."mlx5_*"]\ncount = 2\n'
    assert unmet(wedged, text) == []
    assert not isinstance(evidence.sysfs, Missing)
    closed = replace(evidence.sysfs, devices=Missing(Why.DENIED, "/sys: EACCES"))
    (found,) = unmet(replace(evidence, sysfs=closed), "[host]\ndevices = 2\n")
    assert found.severity is Severity.UNKNOWN


def test_the_limit_is_that_of_the_process_that_was_named() -> None:
    evidence = IB.evidence()
    assert not isinstance(evidence.system, Missing)
    daemon = Ancestor(77, "slurmd", Limit(65536, 65536))
    asked = replace(evidence.system, asked_pid=77, ancestors=(daemon,))
    (found,) = unmet(replace(evidence, system=asked), "[host]\nmemlock = 8388608\n")
    assert (found.expected, found.actual) == (">=8388608", "65536")
    assert found.evidence[0].subject == "/proc/77/limits: Max locked memory"


def test_firmware_that_is_no_version_cannot_be_compared() -> None:
    odd = IB.change(devices=tuple(replace(each, firmware="N/A") for each in IB.devices))
    (found, _) = unmet(odd, '[device."mlx5_*"]\nfirmware = ">=1"\n')
    assert found.severity is Severity.UNKNOWN
    assert "'N/A' is no version to compare" in found.summary


def test_a_host_that_should_have_no_device_and_has_none_is_ok() -> None:
    bare = Machine("bare").evidence()
    assert judge(bare).status == "unknown"
    assert judge(bare, expectations=expect("[host]\ndevices = 0\n")).status == "ok"
    found = judge(bare, expectations=from_option("devices", 2, "--expect-devices"))
    assert found.status == "critical"
    assert found.findings[0].summary == "2 RDMA devices expected, 0 found"
    assert (
        judge(bare, expectations=from_option("rate", "1 Gb/s", "--expect-rate")).status
        == "critical"
    )


def test_what_was_compared_is_counted() -> None:
    text = '[host]\ndevices = 2\nactive_ports = 9\n[device."mlx5_*"]\nwidth = "4X"\n'
    count = judge(IB.evidence(), expectations=expect(text)).expectations
    assert count is not None
    assert (count.compared, count.met, count.unknown) == (5, 4, 0)
    assert judge(IB.evidence()).expectations is None


def test_netns_mode_of_an_exclusive_host() -> None:
    exclusive = IB.change(netns_mode=NetnsMode.EXCLUSIVE.number)
    assert unmet(exclusive, '[host]\nnetns_mode = "exclusive"\n') == []


def test_rules_of_expectations_run_where_something_is_expected() -> None:
    asked = judge(IB.evidence(), expectations=expect("[host]\ndevices = 2\n")).rules_asked
    assert [code for code in asked if code.startswith("expected-")] == ["expected-devices"]
    assert not any(code.startswith("expected-") for code in judge(IB.evidence()).rules_asked)


# --- the file ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[host]\ndevice = 2", "good.toml: host.device: no such key; did you mean devices?"),
        ("[hosts]\n", "good.toml: hosts: no such table; did you mean host?"),
        ("host = 1", "good.toml: host: a table: [host]"),
        ("[device]\nrate = 1", 'good.toml: device.rate: a table: [device."PATTERN"]'),
        ('[device."mlx5_["]', 'good.toml: device."mlx5_[": expected a pattern whose [ has its ]'),
        ('[device.""]', 'good.toml: device."": expected a name'),
        ('[device."mlx5_0/x"]', 'good.toml: device."mlx5_0/x": after the slash stands'),
        ('[device."mlx5_0/1"]\nfirmware = "1"', 'good.toml: device."mlx5_0/1".firmware: no such'),
        ("[device.a]\n\nrate = 400", 'good.toml: device.a.rate: expected a text such as "400'),
        ('[device.a]\nrate = "fast"', "good.toml: device.a.rate: expected a text such as"),
        ("[host]\ndevices = true", "good.toml: host.devices: expected devices is a whole"),
        ("[host]\ndevices = -1", "good.toml: host.devices: expected"),
        ("[host]\ndevices = 99999999999999999999", "good.toml: host.devices: a number of more"),
        ('[host]\nmodules = ["nvme"]', "good.toml: host.modules: expected 'nvme' is no RDMA"),
        ('[host]\nmodules = "ib_core"', "good.toml: host.modules: expected a list"),
        ("[host]\nmemlock = 1.5", 'good.toml: host.memlock: expected "unlimited"'),
        ('[host]\nseverity = "info"', "good.toml: host.severity: expected one of warn"),
        ("[host]\nseverity = [1]", "good.toml: host.severity: expected one of warn"),
        ("[device.a]\nmtu = 1500", "good.toml: device.a.mtu: expected one of 256"),
        ("[device.a]\nstate = []", "good.toml: device.a.state: expected one of nop"),
        ('[device.a]\nfirmware = ">=x"', "good.toml: device.a.firmware: expected numbers"),
        ("[device.a]\nfirmware = 20.35", "good.toml: device.a.firmware: expected a text"),
        ("[device.a]\nwidth = 4", "good.toml: device.a.width: expected lanes"),
        ("[thresholds]\nlink_downed = -1", "good.toml: thresholds.link_downed: threshold link"),
        ("[thresholds]\nlink_downed = true", "good.toml: thresholds.link_downed: threshold link"),
        ("[thresholds]\nlink_down = 1", "good.toml: "),
    ],
)  # fmt: skip
def test_a_mistake_names_file_and_key(text: str, message: str) -> None:
    with pytest.raises(TomlFileError) as caught:
        expect(text)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@given(
    st.dictionaries(
        st.sampled_from(sorted(KEYS)) | st.text(max_size=5),
        st.none() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2)
        | st.floats() | st.booleans() | st.dictionaries(st.text(), st.integers(), max_size=1),
        max_size=3,
    )
)  # fmt: skip
def test_any_value_is_read_or_refused(table: dict[str, Any]) -> None:
    for key, value in table.items():
        if key in KEYS:
            try:
                want = KEYS[key].read(value)
            except NotThis:
                continue
            assert want.text


@given(st.text(max_size=20))
def test_any_pattern_is_one_or_refused(text: str) -> None:
    try:
        kept = pattern(text)
    except NotThis:
        return
    assert kept == text


def test_thresholds_are_kept_for_who_reads_counters() -> None:
    found = expect("[thresholds]\nlink_downed = 0\ndiscards = 10\n")
    assert found.thresholds == {"link_downed": 0, "discards": 10}
    both = found + expect("[thresholds]\nlink_downed = 5\n")
    assert both.thresholds["link_downed"] == 5


@pytest.mark.parametrize(
    ("text", "gbps"),
    [
        ("400 Gb/sec", 400.0),
        (">= 2.5 Gb/s", 2.5),
        ("100Gbps", 100.0),
        ("400G", 400.0),  # as devices prints it
        (">=200Gbit/s", 200.0),
    ],
)
def test_rates_are_written_in_several_ways(text: str, gbps: float) -> None:
    assert rate(text).value == gbps


# --- written from a host ----------------------------------------------------------------------

RECORDED = [*(folder(name) for name in samples()), *map(str, sorted(FIXTURES.iterdir()))]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.rpartition("/")[2])
def test_a_host_meets_what_was_written_down_of_it(path: str, soon: float) -> None:
    host = open_snapshot(path)
    evidence = gather(host, soon)
    verdict = judge(evidence)
    text = rendered.text(
        derived(devices(evidence), evidence), host.identity, verdict, datetime.now(UTC)
    )
    assert unmet(evidence, text) == []


def test_two_hosts_of_different_kind_do_not_meet_each_others() -> None:
    evidence = ROCE.evidence()
    text = rendered.text(
        derived(devices(evidence), evidence),
        IDENTITY,
        judge(evidence),
        datetime.now(UTC),
    )
    assert {each.rule for each in unmet(IB, text)} >= {"expected-devices", "expected-firmware"}


def test_odd_names_survive_being_written() -> None:
    evidence = IB.change(
        devices=(replace(IB.devices[0], name='mlx5_"[*0', board_id="MT_*[x]"),)
    ).evidence()
    text = rendered.text(
        derived(devices(evidence), evidence), IDENTITY, judge(evidence), datetime.now(UTC)
    )
    assert unmet(evidence, text) == []


# --- ports that could not be read -------------------------------------------------------------

DENIED = Missing(Why.DENIED, "EACCES")


@pytest.fixture
def without_ports() -> Evidence:
    """sysfs lists the devices and refuses their ports; nobody else tells of them."""
    evidence = IB.evidence()
    assert not isinstance(evidence.sysfs, Missing)
    listed = evidence.sysfs.devices
    assert not isinstance(listed, Missing)
    refused = tuple(replace(each, ports=DENIED) for each in listed)
    return replace(
        evidence, sysfs=replace(evidence.sysfs, devices=refused), nldev=DENIED, verbs=DENIED
    )


@pytest.mark.parametrize(
    "text",
    [
        "[host]\nactive_ports = 2\n",
        '[host]\nrate = "200 Gb/sec"\n',
        "[device.mlx5_0]\nports = 1\n",
        '[device.mlx5_0]\nstate = "active"\n',
        '[device."mlx5_0/1"]\nlink_layer = "infiniband"\n',
    ],
)
def test_what_ports_are_that_cannot_be_read_is_unknown_and_drains_no_node(
    text: str, without_ports: Evidence
) -> None:
    found = unmet(without_ports, text)
    assert [each.severity for each in found] == [Severity.UNKNOWN]


# --- a Mac -------------------------------------------------------------------------------------


def mac(name: str) -> Evidence:
    return gather(open_snapshot(str(FIXTURES / name)), time.monotonic() + 20)


def test_ports_that_a_wedged_provider_did_not_tell_are_unknown_and_not_none() -> None:
    wedged = mac("mac-wedged")
    (found,) = unmet(wedged, "[device.rdma_en1]\nports = 1\n")
    assert (found.rule, found.severity) == ("expected-ports", Severity.UNKNOWN)
    assert all(
        "ports" not in table for table in derived(devices(wedged), wedged)["device"].values()
    )


@pytest.mark.parametrize("key", sorted(KEYS))
def test_on_a_mac_where_to_look_is_what_a_mac_has(key: str) -> None:
    """No /sys, no rdma(8), no ip(8); memlock's, modules' and netns_mode's are Linux's own."""
    assert not KEYS[key].mac_look.startswith(
        ("cat /sys", "ls ", "readlink", "rdma ", "ip ", "lsmod")
    )


def test_what_a_mac_lacks_is_looked_for_and_mended_in_its_own_words() -> None:
    (found,) = unmet(mac("mac-ready"), "[device.rdma_en1]\nnetdev_mtu = 9000\n")
    assert found.remedy[:2] == ("ifconfig en1", "sudo ifconfig en1 mtu 9000")
    (count,) = unmet(mac("mac-ready"), "[host]\ndevices = 1\n")
    assert count.summary == "1 RDMA device expected, 2 found"
    assert count.evidence[0].subject == "ibv_get_device_list"


@pytest.mark.parametrize("key", ["board_id = 'x'", "numa_node = 0", "driver = 'mlx5_core'"])
def test_what_a_mac_does_not_have_is_unknown_and_no_file_is_named_as_its_proof(key: str) -> None:
    (found,) = unmet(mac("mac-ready"), f"[device.rdma_en1]\n{key}\n")
    assert found.severity is Severity.UNKNOWN
    assert not any("/sys" in proof.subject for proof in found.evidence)


def test_the_rate_of_a_mac_is_that_of_its_query() -> None:
    wanted = "[device.rdma_en1]\nrate = '80 Gb/sec'\nwidth = '{}X'\n"
    assert unmet(mac("mac-ready"), wanted.format(8)) == []
    (found,) = unmet(mac("mac-ready"), wanted.format(4))
    assert found.evidence[0].subject == "ibv_query_port rdma_en1/1: rate"
