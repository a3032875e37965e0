"""What goes wrong on Linux hosts, made for real: netdevs of all kinds, addresses, limits, modes."""

import json
import os
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.rxe import PAIR, Rxe, wait_ready
from rdmadiag.facts import Missing
from rdmadiag.facts.bonding import Bonding
from rdmadiag.host.live import LiveHost
from rdmadiag.sources.netdev import read_netdevs

NOBODY = 65534
Call = Callable[..., tuple[int, Any]]
Run = Callable[..., Any]
Pair = tuple[Rxe, Rxe]
UVERBS = Path("/dev/infiniband/uverbs0")
READY_SECONDS = 30.0


@pytest.fixture
def do(run: Run) -> Callable[..., str]:
    """Runs command lines that must succeed; gives the last one's stdout."""

    def each(*lines: str) -> str:
        out = ""
        for line in lines:
            done = run(line.split(), timeout=60)
            assert done.returncode == 0, f"{line}: {done.stderr}{done.stdout}"
            out = done.stdout
        return out

    return each


def found(document: Any) -> dict[str, set[str]]:
    """Rule → severities, notes included."""
    rules: dict[str, set[str]] = {}
    for finding in document["verdict"]["findings"]:
        rules.setdefault(finding["rule"], set()).add(finding["severity"])
    return rules


def serious(document: Any) -> dict[str, set[str]]:
    return {rule: kinds for rule, kinds in found(document).items() if kinds != {"info"}}


def the(document: Any, rule: str, device: str | None = None) -> Any:
    every = [
        each
        for each in document["verdict"]["findings"]
        if each["rule"] == rule and device in (None, each["device"])
    ]
    assert len(every) == 1, document["verdict"]["findings"]
    return every[0]


def until(condition: Callable[[], bool], what: str) -> None:
    late = time.monotonic() + READY_SECONDS
    while not condition():
        assert time.monotonic() < late, f"{what}: not within {READY_SECONDS:g} s"
        time.sleep(0.1)


def gids(device: str) -> dict[str, str]:
    """GID → netdev, of the rows that are not empty."""
    folder = Path(f"/sys/class/infiniband/{device}/ports/1")
    rows = {}
    for row in (folder / "gids").iterdir():
        text = row.read_text().strip()
        if text.replace(":", "").strip("0"):
            rows[text] = (folder / "gid_attrs/ndevs" / row.name).read_text().strip()
    return rows


def mapped(ipv4: str) -> str:
    digits = "".join(f"{int(part):02x}" for part in ipv4.split("."))
    return f"0000:0000:0000:0000:0000:ffff:{digits[:4]}:{digits[4:]}"


# --- netdevs of other kinds --------------------------------------------------------------------


@pytest.fixture
def cable(do: Callable[..., str]) -> Iterator[None]:
    """veth0 and veth1, up, without addresses; rxe is loaded."""
    do(
        "modprobe rdma_rxe",
        "ip link add veth0 type veth peer name veth1",
        "ip link set veth0 up",
        "ip link set veth1 up",
    )
    try:
        yield
    finally:
        do("ip link del veth0")


def carrier(netdev: str) -> bool:
    return Path(f"/sys/class/net/{netdev}/carrier").read_text() == "1\n"


def over(netdev: str) -> Rxe:
    return Rxe("rxe0", netdev, PAIR[0].ipv4, PAIR[0].ipv6)


@pytest.mark.usefixtures("cable")
class TestOtherNetdevs:
    def test_a_bridge_below_rxe_is_well(self, do: Callable[..., str], rdmadiag_json: Call) -> None:
        do("ip link add br7 type bridge", "ip link set veth0 master br7", "ip link set br7 up")
        try:
            do("ip address add 192.0.2.1/24 dev br7", "ip address add 2001:db8::1/64 dev br7 nodad")
            do("rdma link add rxe0 type rxe netdev br7")
            wait_ready(over("br7"))
            code, document = rdmadiag_json("preflight")
            assert (code, serious(document)) == (0, {}), document["verdict"]["findings"]
            assert "bonded-ports" not in found(document)
            (row,) = document["verdict"]["ports"]
            assert row["route_gid"] == "::ffff:192.0.2.1"
            kinds = {
                each["name"]: each["kind"] for each in document["evidence"]["netdev"]["netdevs"]
            }
            assert kinds["br7"] == "bridge"
        finally:
            do("ip link del br7")

    def test_a_bond_below_rxe_is_a_note(self, do: Callable[..., str], rdmadiag_json: Call) -> None:
        do("modprobe bonding", "ip link add bond7 type bond mode active-backup miimon 100")
        try:
            do("ip link set veth0 down", "ip link set veth0 master bond7", "ip link set bond7 up")
            do("ip address add 192.0.2.1/24 dev bond7")
            do("ip address add 2001:db8::1/64 dev bond7 nodad")
            do("rdma link add rxe0 type rxe netdev bond7")
            wait_ready(over("bond7"))
            code, document = rdmadiag_json("preflight")
            assert (code, serious(document)) == (0, {}), document["verdict"]["findings"]
            finding = the(document, "bonded-ports")
            assert (finding["severity"], finding["device"]) == ("info", "rxe0")
        finally:
            do("ip link del bond7")

    def test_rxe_on_one_leg_of_a_bond_is_no_bond(
        self, do: Callable[..., str], rdmadiag_json: Call
    ) -> None:
        do("modprobe bonding", "ip link add bond7 type bond mode active-backup miimon 100")
        do("ip link add leg0 type veth peer name leg1", "ip link set leg1 up")
        try:
            do("ip link set veth0 down", "ip link set veth0 master bond7")
            do("ip link set leg0 master bond7", "ip link set bond7 up")
            do("ip address add 192.0.2.1/24 dev bond7")
            do("ip address add 2001:db8::1/64 dev bond7 nodad")
            do("rdma link add rxe0 type rxe netdev veth0")
            wait_ready(over("veth0"))
            until(lambda: carrier("leg0"), "leg0 has a carrier")
            _, document = rdmadiag_json("preflight")
            summary = the(document, "bonded-ports")["summary"]
            assert summary.startswith("rxe0 is on veth0, one leg of bond7 (")
            do("ip link set leg1 down")
            until(lambda: not carrier("leg0"), "leg0 has none")
            code, document = rdmadiag_json("preflight")
            assert code == 2  # what comes in by the bond does not reach a device on its leg
            assert the(document, "soft-roce-on-other-netdev")["severity"] == "critical"
            assert the(document, "bond-leg-down")["summary"].endswith("1 of 2 legs down: leg0")
        finally:
            do("ip link del bond7", "ip link del leg0")


LACP = "mode 802.3ad miimon 100 lacp_rate fast xmit_hash_policy layer2+3"


@pytest.fixture
def lacp(do: Callable[..., str]) -> Iterator[None]:
    """rxe0 on bond7 of leg0 and leg1, which end in bond8 as a switch would have them."""
    do("modprobe rdma_rxe", "modprobe bonding")
    for name in ("bond7", "bond8"):
        do(f"ip link add {name} type bond {LACP}")
    try:
        for number in (0, 1):
            do(f"ip link add leg{number} type veth peer name far{number}")
            do(f"ip link set leg{number} master bond7", f"ip link set far{number} master bond8")
        do("ip link set bond7 up", "ip link set bond8 up")
        do("ip address add 192.0.2.1/24 dev bond7", "ip address add 2001:db8::1/64 dev bond7 nodad")
        do("rdma link add rxe0 type rxe netdev bond7")
        wait_ready(over("bond7"))
        yield
    finally:
        do("ip link del bond7", "ip link del bond8", "ip link del leg0", "ip link del leg1")


def bonds() -> dict[str, Bonding]:
    """What the source reads, here: a command would take seconds each time."""
    facts = read_netdevs(LiveHost(), time.monotonic() + READY_SECONDS)
    assert not isinstance(facts, Missing)
    assert not isinstance(facts.bonds, Missing)
    return {each.netdev: each for each in facts.bonds}


@pytest.mark.usefixtures("lacp")
class TestLacp:
    """Two bonds that speak LACP to each other."""

    def states(self) -> dict[str, str]:
        return {leg.netdev: str(leg.state) for leg in bonds()["bond7"].legs}

    def agrees(self, do: Callable[..., str]) -> None:
        """Every field that `ip -j -d link` has, between two equal readings: LACP moves on."""
        read, links = bonds(), json.loads(do("ip -j -d link"))
        while bonds() != read:
            read, links = bonds(), json.loads(do("ip -j -d link"))
        shown = {each["ifname"]: each.get("linkinfo", {}) for each in links}
        for bond in (read["bond7"], read["bond8"]):
            data = shown[bond.netdev]["info_data"]
            assert bond.mode == data["mode"]
            assert bond.hash_policy == data["xmit_hash_policy"]
            assert bond.aggregator == data["ad_info"]["aggregator"]
            assert bond.partner_mac == data["ad_info"]["partner_mac"]
            legs = {each["ifname"] for each in links if each.get("master") == bond.netdev}
            assert {leg.netdev for leg in bond.legs} == legs
            for leg in bond.legs:
                data = shown[leg.netdev]["info_slave_data"]
                assert str(leg.state) == data["state"].lower()
                assert str(leg.mii) == data["mii_status"].lower()
                assert leg.failures == data["link_failure_count"]
                assert leg.aggregator == data["ad_aggregator_id"]
                assert leg.actor_state == data["ad_actor_oper_port_state"]
                assert leg.partner_state == data["ad_partner_oper_port_state"]

    def churns(self) -> None:
        """What the driver's own file says, read in the test's own way."""
        text = Path("/proc/net/bonding/bond7").read_text()
        for leg in bonds()["bond7"].legs:
            part = text.partition(f"Slave Interface: {leg.netdev}\n")[2].partition("Slave Int")[0]
            assert f"Actor Churn State: {leg.actor_churn}\n" in part
            assert f"Partner Churn State: {leg.partner_churn}\n" in part
            assert f"    system mac address: {leg.partner_mac}\n" in part

    @pytest.mark.other_kernels(0)
    def test_a_leg_whose_far_end_leaves_the_port_channel_is_lost(
        self, do: Callable[..., str], rdmadiag_json: Call
    ) -> None:
        used = {"leg0": "active", "leg1": "active"}
        until(lambda: self.states() == used, "LACP agrees on both legs")
        self.agrees(do)
        self.churns()
        code, document = rdmadiag_json("preflight")
        assert (code, serious(document)) == (0, {}), document["verdict"]["findings"]
        assert the(document, "bond-hash-one-leg")["severity"] == "info"
        do(the(document, "bond-hash-one-leg")["remedy"][0].removeprefix("sudo "))

        do("ip link set far1 nomaster", "ip link set far1 up")
        until(lambda: self.states() == used | {"leg1": "backup"}, "leg1 is out")
        self.agrees(do)
        code, document = rdmadiag_json("preflight")
        assert code == 1
        assert "bond-hash-one-leg" not in found(document)
        finding = the(document, "bond-leg-lost")
        assert "does not use 1 of 2 legs that have a link: leg1 (" in finding["summary"]
        assert serious(document) == {"bond-leg-lost": {"warn"}}

        do("ip link set far1 down")
        until(lambda: not carrier("leg1"), "leg1 has no carrier")
        _, document = rdmadiag_json("preflight")
        assert serious(document) == {"bond-leg-down": {"warn"}}


def test_a_vlan_above_the_netdev_has_gids_of_its_own(
    rxe_pair: Pair, do: Callable[..., str], rdmadiag_json: Call
) -> None:
    do("ip link add link veth0 name veth0.43 type vlan id 43", "ip link set veth0.43 up")
    do("ip address add 198.51.100.1/24 dev veth0.43")
    wanted = mapped("198.51.100.1")
    until(lambda: gids("rxe0").get(wanted) == "veth0.43", f"the GID of veth0.43 in {gids('rxe0')}")
    code, document = rdmadiag_json("preflight")
    assert (code, serious(document)) == (0, {}), document["verdict"]["findings"]
    vlan = next(
        each for each in document["evidence"]["netdev"]["netdevs"] if each["name"] == "veth0.43"
    )
    assert (vlan["kind"], vlan["lower"], vlan["vlan_id"]) == ("vlan", "veth0", 43)
    assert vlan["vlan_protocol"] == 0x8100


# --- addresses, MTU, ARP -----------------------------------------------------------------------


def test_with_link_local_addresses_alone_it_warns(
    rxe_pair: Pair, do: Callable[..., str], rdmadiag_json: Call
) -> None:
    do("ip -4 address flush dev veth0", "ip -6 address flush dev veth0 scope global")
    until(lambda: len(gids("rxe0")) == 1, f"one GID in {gids('rxe0')}")
    code, document = rdmadiag_json("preflight")
    assert (code, serious(document)) == (1, {"gid-link-local-only": {"warn"}})
    assert the(document, "gid-link-local-only")["device"] == "rxe0"


def test_without_ipv4_addresses_it_warns_and_names_the_index(
    rxe_pair: Pair, do: Callable[..., str], rdmadiag_json: Call
) -> None:
    do("ip -4 address flush dev veth0")
    until(lambda: mapped("192.0.2.1") not in gids("rxe0"), "the IPv4 GID goes")
    code, document = rdmadiag_json("preflight")
    assert (code, serious(document)) == (1, {"gid-ipv6-only": {"warn"}})
    finding = the(document, "gid-ipv6-only")
    row = next(each for each in document["verdict"]["ports"] if each["device"] == "rxe0")
    assert row["route_gid"] == "2001:db8::1"
    assert finding["remedy"][0].startswith(f"export NCCL_IB_GID_INDEX={row['route_gid_index']} ")


@pytest.mark.other_kernels(0)
def test_different_mtus_at_the_ends_of_a_cable_are_told_and_the_remedy_repairs_it(
    rxe_pair: Pair, do: Callable[..., str], rdmadiag_json: Call
) -> None:
    do("ip link set veth0 mtu 9000")
    code, document = rdmadiag_json("preflight")
    assert (code, serious(document)) == (1, {"mtu-differs-in-subnet": {"warn"}})
    finding = the(document, "mtu-differs-in-subnet")
    assert "veth0 (MTU 9000)" in finding["summary"]
    do(finding["remedy"][0].removeprefix("sudo "))
    code, document = rdmadiag_json("preflight")
    assert (code, serious(document)) == (0, {})


@pytest.mark.other_kernels(0)
def test_two_netdevs_in_one_subnet_are_a_note_until_arp_ignore_is_set(
    rxe_pair: Pair, do: Callable[..., str], rdmadiag_json: Call
) -> None:
    code, document = rdmadiag_json("preflight")
    assert (code, found(document)["arp-flux"]) == (0, {"info"})
    before = Path("/proc/sys/net/ipv4/conf/all/arp_ignore").read_text()
    do("sysctl -w net.ipv4.conf.all.arp_ignore=2")
    try:
        assert "arp-flux" not in found(rdmadiag_json("preflight")[1])
    finally:
        do(f"sysctl -w net.ipv4.conf.all.arp_ignore={before.strip()}")


# --- namespaces --------------------------------------------------------------------------------


def test_exclusive_netns_mode_is_a_note_here_and_the_reason_elsewhere(
    rxe_pair: Pair, do: Callable[..., str], rdmadiag_json: Call
) -> None:
    do("rdma system set netns exclusive", "ip netns add pod")
    # The new namespace, and the view of sysfs that this process has: a container's common lot.
    elsewhere = ("nsenter", "--net=/var/run/netns/pod")
    try:
        code, here = rdmadiag_json("preflight")
        _, there = rdmadiag_json("preflight", prefix=elsewhere)
        _, devices = rdmadiag_json("devices", prefix=elsewhere)
    finally:
        do("ip netns del pod")
        # The namespace is torn down behind our back, and until then the mode cannot be set.
        until(_shared, "netns mode shared again")
    assert (code, serious(here)) == (0, {})
    assert found(here)["netns-exclusive"] == {"info"}
    assert serious(there)["device-in-one-source"] == {"critical"}
    assert {row["discovery"]["fails_at"] for row in devices["devices"]} == {"kernel"}


@pytest.mark.needs("modules")  # a loaded module is the hint that there is a device elsewhere
def test_where_the_mode_is_exclusive_a_pod_has_no_device_and_is_told_why(
    rxe_pair: Pair, do: Callable[..., str], run: Run, rdmadiag_json: Call
) -> None:
    do("rdma system set netns exclusive", "ip netns add pod")
    try:
        # Linux 6.1 moves no software device, which would have shown the same from this side.
        moved = run(["rdma", "dev", "set", "rxe0", "netns", "pod"], timeout=30)
        # With a view of sysfs of its own, as a container has.
        code, there = rdmadiag_json("preflight", prefix=("ip", "netns", "exec", "pod"))
    finally:
        do("ip netns del pod")
        until(_shared, "netns mode shared again")
    assert "Operation not supported" in moved.stderr
    assert (code, serious(there)) == (3, {"no-rdma-device": {"unknown"}})
    assert "exclusive netns mode" in the(there, "no-rdma-device")["summary"]


def _shared() -> bool:
    return subprocess.run(
        ["rdma", "system", "set", "netns", "shared"], check=False, timeout=30
    ).returncode == 0  # fmt: skip


# --- nodes: the first step that fails ----------------------------------------------------------


def fails_at(document: Any) -> dict[str, str | None]:
    return {row["name"]: row["discovery"]["fails_at"] for row in document["devices"]}


class TestNodes:
    def test_each_step_of_a_healthy_device_passes(
        self, rxe_pair: Pair, rdmadiag_json: Call
    ) -> None:
        code, document = rdmadiag_json("devices")
        assert (code, set(fails_at(document).values())) == (0, {None})
        for row in document["devices"]:
            steps = {step["stage"]: step["passed"] for step in row["discovery"]["steps"]}
            assert {stage for stage, passed in steps.items() if passed is not True} == set()

    def test_a_closed_node_fails_at_access(self, rxe_pair: Pair, rdmadiag_json: Call) -> None:
        UVERBS.chmod(0)
        try:
            _, document = rdmadiag_json("devices", user=NOBODY)
        finally:
            UVERBS.chmod(0o666)
        assert sorted(map(str, fails_at(document).values())) == ["None", "access"]


def test_a_node_that_is_gone_fails_at_the_node(rxe_pair: Pair, rdmadiag_json: Call) -> None:
    UVERBS.unlink()
    _, document = rdmadiag_json("devices")
    assert sorted(map(str, fails_at(document).values())) == ["None", "node"]


def test_a_node_of_another_number_is_stale(rxe_pair: Pair, rdmadiag_json: Call) -> None:
    number = UVERBS.stat().st_rdev
    other = os.makedev(os.major(number), os.minor(number) + 17)
    UVERBS.unlink()
    os.mknod(UVERBS, stat.S_IFCHR | 0o666, other)
    UVERBS.chmod(0o666)
    try:
        code, document = rdmadiag_json("preflight")
        _, devices = rdmadiag_json("devices")
    finally:
        UVERBS.unlink()  # the kernel removes the nodes that it made, and this is not one
    assert code == 2
    assert serious(document) == {"uverbs-node-stale": {"critical"}}
    assert sorted(map(str, fails_at(devices).values())) == ["None", "node_number"]


# --- locked memory of who started us -----------------------------------------------------------

RAISED = 'prlimit --memlock=unlimited:unlimited "$@"; exit $?'


class TestLaunchers:
    def test_a_parent_with_a_low_limit_is_named(self, rxe_pair: Pair, rdmadiag_json: Call) -> None:
        # "; exit" keeps bash from replacing itself by the program.
        above = ("prlimit", "--memlock=65536:unlimited", "bash", "-c", RAISED, "bash")
        code, document = rdmadiag_json("preflight", prefix=above)
        assert (code, serious(document)) == (0, {}), document["verdict"]["findings"]
        finding = the(document, "launcher-memlock-too-low")
        assert finding["severity"] == "info"
        assert finding["summary"].startswith("bash (")
        assert "64 KiB" in finding["summary"]

    @pytest.mark.other_kernels(0)
    def test_a_process_that_is_asked_for_is_judged(
        self, rxe_pair: Pair, rdmadiag_json: Call
    ) -> None:
        for limit, expected in (("65536", (2, "critical")), ("8388608", (1, "warn"))):
            program = ["prlimit", f"--memlock={limit}:{limit}", "sleep", "300"]
            with subprocess.Popen(program) as daemon:
                try:
                    until(lambda pid=daemon.pid: _is("sleep", pid), "sleep runs")  # type: ignore[misc]
                    code, document = rdmadiag_json("preflight", "--pid", str(daemon.pid))
                finally:
                    daemon.kill()
            finding = the(document, "launcher-memlock-too-low")
            assert (code, finding["severity"]) == expected
            assert finding["summary"].startswith(f"sleep ({daemon.pid}) is limited to ")

    def test_the_origin_of_an_own_low_limit_is_in_the_evidence(
        self, rxe_pair: Pair, rdmadiag_json: Call
    ) -> None:
        script = '"$@"; exit $?'
        above = ("prlimit", "--memlock=65536:65536", "bash", "-c", script, "bash")
        _, document = rdmadiag_json("preflight", prefix=above, user=NOBODY)
        subjects = [each["value"] for each in the(document, "memlock-too-low")["evidence"]]
        assert any(value.startswith("bash: soft 65536") for value in subjects)


def _is(name: str, pid: int) -> bool:
    return Path(f"/proc/{pid}/comm").read_text().strip() == name


# --- variables ---------------------------------------------------------------------------------


class TestVariables:
    @pytest.mark.other_kernels(0)
    def test_a_device_that_is_not_there(self, rxe_pair: Pair, rdmadiag_json: Call) -> None:
        code, document = rdmadiag_json("preflight", prefix=("env", "NCCL_IB_HCA==mlx5_0"))
        assert (code, serious(document)) == (2, {"env-names-absent-device": {"critical"}})
        code, document = rdmadiag_json("preflight", prefix=("env", "UCX_NET_DEVICES=rxe0:1,eth77"))
        assert (code, serious(document)) == (1, {"env-names-absent-device": {"warn"}})
        code, document = rdmadiag_json("preflight", prefix=("env", "NCCL_IB_HCA=rxe"))
        assert (code, serious(document)) == (0, {})

    def test_a_row_that_is_empty_is_one_that_no_queue_pair_connects_over(
        self, rxe_pair: Pair, rdmadiag_json: Call, run: Run
    ) -> None:
        code, document = rdmadiag_json("preflight", prefix=("env", "NCCL_IB_GID_INDEX=9"))
        assert (code, serious(document)) == (2, {"env-gid-index": {"critical"}})
        program = "timeout 20 ibv_rc_pingpong -d rxe0 -g 9 -n 10"
        script = f"{program} & sleep 2; {program} 127.0.0.1"
        assert run(["bash", "-c", script], timeout=60).returncode != 0

    @pytest.mark.other_kernels(0)
    def test_a_row_that_fits_is_well(self, rxe_pair: Pair, rdmadiag_json: Call) -> None:
        code, document = rdmadiag_json("preflight", prefix=("env", "NCCL_IB_GID_INDEX=1"))
        assert (code, serious(document)) == (0, {})
        code, document = rdmadiag_json("preflight", prefix=("env", "NCCL_IB_GID_INDEX=0"))
        assert (code, serious(document)) == (1, {"env-gid-index": {"warn"}})


# --- CPUs and the log --------------------------------------------------------------------------


@pytest.mark.other_kernels(0)
def test_what_the_kernel_wrote_is_read_by_root_and_not_by_all(
    rdmadiag_json: Call, do: Callable[..., str]
) -> None:
    # A netdev of its own: what is written here stays in the log for the tests that follow.
    port = Rxe("rxe7", "klog0", "203.0.113.1", "2001:db8:7::1")
    do("modprobe rdma_rxe", "ip link add klog0 type veth peer name klog1", "ip link set klog1 up")
    do(f"ip address add {port.ipv4}/24 dev klog0", f"ip address add {port.ipv6}/64 dev klog0 nodad")
    do("ip link set klog0 up", "rdma link add rxe7 type rxe netdev klog0")
    restricted = Path("/proc/sys/kernel/dmesg_restrict")
    before = restricted.read_text()
    try:
        wait_ready(port)
        assert serious(rdmadiag_json("preflight")[1]) == {}
        for way in ("up", "down", "up"):
            Path("/dev/kmsg").write_text(f"klog0: NIC Link is {way}\n")
        code, document = rdmadiag_json("preflight")
        assert (code, serious(document)) == (1, {"link-flaps-in-log": {"warn"}})
        finding = the(document, "link-flaps-in-log")
        assert (finding["device"], len(finding["evidence"])) == ("rxe7", 1)
        assert finding["evidence"][0]["value"].endswith("klog0: NIC Link is down")
        assert serious(rdmadiag_json("preflight", "--log-last", "1s")[1]) == {}
        restricted.write_text("1")
        _, document = rdmadiag_json("preflight", user=NOBODY)
        assert found(document)["kernel-log-unreadable"] == {"info"}
        restricted.write_text("0")
        _, document = rdmadiag_json("preflight", user=NOBODY)
        assert found(document)["link-flaps-in-log"] == {"warn"}
    finally:
        restricted.write_text(before)
        do("ip link del klog0")


def test_the_parents_are_those_that_ps_shows(rxe_pair: Pair, rdmadiag_json: Call) -> None:
    _, document = rdmadiag_json("preflight", prefix=("env",))  # started, and not forked
    pids = [each["pid"] for each in document["evidence"]["system"]["ancestors"]]
    # The first is the command itself: its collectors are children.
    assert pids[1:3] == [os.getpid(), os.getppid()]
    assert pids[-1] == 1
