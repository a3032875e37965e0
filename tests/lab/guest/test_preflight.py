"""The verdict on a real host, healthy and then broken in one way at a time."""

import os
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from lab.rxe import Rxe
from rdmadiag.facts.evidence import LINUX_SOURCES

NOBODY = 65534
Call = Callable[..., tuple[int, Any]]
Run = Callable[..., Any]


def rules(document: Any) -> dict[str, set[str]]:
    """Rule → severities, without what only informs."""
    found: dict[str, set[str]] = {}
    for finding in document["verdict"]["findings"]:
        if finding["severity"] != "info":
            found.setdefault(finding["rule"], set()).add(finding["severity"])
    return found


def port(document: Any, device: str) -> Any:
    (row,) = [row for row in document["verdict"]["ports"] if row["device"] == device]
    return row


def command(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True).stdout


def shown(netdev: str, flag: str) -> str:
    """The IPv6 addresses with that flag."""
    return command("ip", "-6", "address", "show", "dev", netdev, flag)


def set_ipv6(netdev: str, name: str, value: int) -> None:
    """A sysctl of that interface."""
    with open(f"/proc/sys/net/ipv6/conf/{netdev}/{name}", "w", encoding="ascii") as file:
        file.write(str(value))


def wait_until(holds: Callable[[], bool]) -> None:
    late = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < late
        time.sleep(0.1)


# The GIDs of an address that the kernel must not use are in the table all the same.


def test_a_duplicate_is_named_and_never_the_route(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call
) -> None:
    here, there = rxe_pair
    set_ipv6(here.netdev, "accept_dad", 1)  # lab/guest.sh has it off
    twin = "2001:db8::66"
    command("ip", "address", "add", f"{twin}/64", "dev", there.netdev, "nodad")
    command("ip", "address", "del", f"{here.ipv4}/24", "dev", here.netdev)
    command("ip", "address", "del", f"{here.ipv6}/64", "dev", here.netdev)
    command("ip", "address", "add", f"{twin}/64", "dev", here.netdev)
    wait_until(lambda: twin in shown(here.netdev, "dadfailed"))
    document = rdmadiag_json("gids", "--device", here.name)[1]
    (table,) = document["ports"]
    (row,) = [row for row in table["gids"] if row["gid"] == twin]
    assert row["unusable"] == "duplicate"
    assert table["route"]["gid"].startswith("fe80::")

    command("ip", "address", "add", f"{here.ipv6}/64", "dev", here.netdev, "nodad")
    code, document = rdmadiag_json("preflight", "--device", here.name)
    (finding,) = [
        each for each in document["verdict"]["findings"] if each["rule"] == "address-duplicate"
    ]
    assert (code, finding["severity"]) == (1, "warn")
    assert twin in finding["summary"]
    assert port(document, here.name)["route_gid"] == here.ipv6

    # What the remedy says, once the other host has given the address up.
    command("ip", "address", "del", f"{twin}/64", "dev", there.netdev)
    for line in finding["remedy"]:
        if line.startswith("sudo ip "):
            command(*line.split()[1:])
    wait_until(lambda: not shown(here.netdev, "tentative"))
    document = rdmadiag_json("preflight", "--device", here.name)[1]
    assert "address-duplicate" not in rules(document)


def test_an_address_that_is_still_tentative_is_not_the_route(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call
) -> None:
    here = rxe_pair[0]
    set_ipv6(here.netdev, "accept_dad", 1)  # lab/guest.sh has it off
    slow = "2001:db8::77"
    set_ipv6(here.netdev, "dad_transmits", 600)  # one a second
    for address in (f"{here.ipv4}/24", f"{here.ipv6}/64"):
        command("ip", "address", "del", address, "dev", here.netdev)
    command("ip", "address", "add", f"{slow}/64", "dev", here.netdev)
    table = rdmadiag_json("gids", "--device", here.name)[1]["ports"][0]
    (row,) = [row for row in table["gids"] if row["gid"] == slow]
    assert row["unusable"] == "tentative"
    assert table["route"]["gid"].startswith("fe80::")
    found = rdmadiag_json("preflight", "--device", here.name)[1]["verdict"]["findings"]
    (finding,) = [each for each in found if each["rule"] == "address-tentative"]
    assert finding["severity"] == "info"


class TestHealthy:
    def test_both_devices_are_ready_over_their_ipv4_gid(
        self, rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call
    ) -> None:
        code, document = rdmadiag_json("preflight")
        verdict = document["verdict"]
        assert (code, verdict["status"], rules(document)) == (0, "ok", {})
        assert verdict["safe_to_attempt_rtr"] is True
        assert [row["device"] for row in verdict["ports"]] == ["rxe0", "rxe1"]
        for device in rxe_pair:
            row = port(document, device.name)
            assert row["safe_to_attempt_rtr"] is True
            assert (row["state"], row["state_number"]) == ("active", 4)
            assert (row["route_gid_index"], row["route_gid"]) == (1, f"::ffff:{device.ipv4}")
            assert row["reasons"] == []

    def test_no_source_is_missing_but_those_of_a_mac(
        self, rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call
    ) -> None:
        evidence = rdmadiag_json("preflight")[1]["evidence"]
        found = {name for name, facts in evidence.items() if "why" not in facts}
        assert found == set(LINUX_SOURCES)
        others = {facts["detail"] for name, facts in evidence.items() if name not in found}
        assert others <= {"macOS only", "no option asks for it"}
        assert evidence["process"]["initial_netns"] is True

    def test_the_first_line_is_the_answer(
        self, rxe_pair: tuple[Rxe, Rxe], rdmadiag: Callable[..., tuple[int, str, str]]
    ) -> None:
        code, out, err = rdmadiag("preflight")
        assert (code, err) == (0, "")
        assert out.splitlines()[0].startswith("OK  2 ports, 2 active, 2 ready for RTR")

    def test_an_ordinary_user_with_the_distributions_limit_is_warned_of_it(
        self, rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call
    ) -> None:
        code, document = rdmadiag_json("preflight", user=NOBODY)
        assert (code, rules(document)) == (1, {"memlock-too-low": {"warn"}})
        assert document["verdict"]["safe_to_attempt_rtr"] is True

    def test_an_ordinary_user_with_64_kib_cannot_attempt_rtr(
        self, rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call
    ) -> None:
        limited = ("prlimit", "--memlock=65536:65536")
        code, document = rdmadiag_json("preflight", user=NOBODY, prefix=limited)
        assert (code, rules(document)) == (2, {"memlock-too-low": {"critical"}})
        assert document["verdict"]["safe_to_attempt_rtr"] is False
        assert port(document, "rxe0")["reasons"] == ["memlock_too_low"]

    def test_root_is_told_that_the_limit_binds_others(
        self, rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call
    ) -> None:
        limited = ("prlimit", "--memlock=65536:65536")
        code, document = rdmadiag_json("preflight", prefix=limited)
        assert (code, rules(document)) == (1, {"memlock-too-low": {"warn"}})
        assert document["verdict"]["safe_to_attempt_rtr"] is True

    def test_an_unlimited_ordinary_user_hears_notes_alone(
        self, rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call
    ) -> None:
        limited = ("prlimit", "--memlock=unlimited:unlimited")
        code, document = rdmadiag_json("preflight", user=NOBODY, prefix=limited)
        assert (code, rules(document)) == (0, {})

    def test_a_closed_node_stops_the_ordinary_user_and_names_the_node(
        self, rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call
    ) -> None:
        os.chmod("/dev/infiniband/uverbs0", 0)
        try:
            code, document = rdmadiag_json("preflight", user=NOBODY)
        finally:
            os.chmod("/dev/infiniband/uverbs0", 0o666)
        assert code == 2
        assert rules(document)["uverbs-node-not-openable"] == {"critical"}
        closed = [row for row in document["verdict"]["ports"] if not row["safe_to_attempt_rtr"]]
        assert [row["reasons"] for row in closed] == [["uverbs_node_not_openable"]]
        assert document["verdict"]["safe_to_attempt_rtr"] is True, "the other device is ready"

    def test_an_unknown_device_is_a_usage_error_that_names_the_known_ones(
        self, rxe_pair: tuple[Rxe, Rxe], rdmadiag: Callable[..., tuple[int, str, str]]
    ) -> None:
        code, out, err = rdmadiag("preflight", "--device", "mlx5_0")
        assert (code, out) == (64, "")
        assert err == "rdmadiag: no RDMA device 'mlx5_0'; there are: rxe0, rxe1\n"

    def test_another_network_namespace_does_not_have_the_netdevs(
        self, rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call, run: Run
    ) -> None:
        assert run(["ip", "netns", "add", "pod"], timeout=30).returncode == 0
        try:
            code, document = rdmadiag_json("preflight", prefix=("ip", "netns", "exec", "pod"))
            tried, proof = rdmadiag_json(
                "pingpong", "--allow-rtr", "--device", "rxe0", prefix=("ip", "netns", "exec", "pod")
            )
        finally:
            run(["ip", "netns", "del", "pod"], timeout=30)
        assert (tried, proof["data_verified"]) == (0, True), "the kernel routes where the netdev is"
        assert code == 1
        absent_and_down = {"route-netdev-absent": {"warn"}, "loopback-down": {"warn"}}
        assert rules(document) == absent_and_down, "a new namespace has lo, which is down"
        assert document["verdict"]["safe_to_attempt_rtr"] is True
        assert document["evidence"]["process"]["initial_netns"] is False


def test_a_netdev_that_is_down_is_the_cause_that_is_named(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call, run: Run
) -> None:
    run(["ip", "link", "set", "veth0", "down"], timeout=30)
    code, document = rdmadiag_json("preflight")
    assert code == 2
    assert rules(document) == {"link-not-up": {"critical"}}
    by_device = {each["device"]: each for each in document["verdict"]["findings"]}
    assert "veth0 is administratively down" in by_device["rxe0"]["summary"]
    assert by_device["rxe0"]["remedy"] == ["sudo ip link set dev veth0 up"]
    assert "veth1 has no carrier" in by_device["rxe1"]["summary"]
    assert document["verdict"]["safe_to_attempt_rtr"] is False


def test_the_remedy_for_a_netdev_that_is_down_repairs_it(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call, run: Run
) -> None:
    run(["ip", "link", "set", "veth0", "down"], timeout=30)
    findings = rdmadiag_json("preflight", "--device", "rxe0")[1]["verdict"]["findings"]
    (remedy,) = [each["remedy"][0] for each in findings if each["rule"] == "link-not-up"]
    assert run(["bash", "-c", remedy.removeprefix("sudo ")], timeout=30).returncode == 0
    run(["ip", "address", "add", "2001:db8::1/64", "dev", "veth0", "nodad"], timeout=30)
    code, document = rdmadiag_json("preflight")
    assert code == 0, document["verdict"]["findings"]


def test_without_addresses_there_is_no_usable_gid(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call, run: Run
) -> None:
    run(["ip", "address", "flush", "dev", "veth0"], timeout=30)
    code, document = rdmadiag_json("preflight")
    assert code == 2
    assert rules(document) == {"no-usable-gid": {"critical"}}
    assert port(document, "rxe0")["safe_to_attempt_rtr"] is False
    assert port(document, "rxe1")["safe_to_attempt_rtr"] is True
    (finding,) = [f for f in document["verdict"]["findings"] if f["rule"] == "no-usable-gid"]
    assert finding["device"] == "rxe0"
    assert "sudo ip address add ADDRESS/PREFIX dev veth0" in finding["remedy"]


def test_what_it_calls_no_usable_gid_is_one_that_no_queue_pair_connects_over(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call, run: Run
) -> None:
    run(["ip", "address", "flush", "dev", "veth0"], timeout=30)
    row = port(rdmadiag_json("preflight")[1], "rxe0")
    index = str(row["route_gid_index"])
    program = ["timeout", "20", "ibv_rc_pingpong", "-d", "rxe0", "-g", index, "-n", "10"]
    script = f"{' '.join(program)} & sleep 2; {' '.join(program)} 127.0.0.1"
    assert run(["bash", "-c", script], timeout=60).returncode != 0


def test_a_node_that_is_gone_hides_the_device(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call, run: Run
) -> None:
    os.unlink("/dev/infiniband/uverbs0")
    code, document = rdmadiag_json("preflight")
    assert code == 2
    assert rules(document) == {"uverbs-node-missing": {"critical"}}
    (finding,) = [f for f in document["verdict"]["findings"] if f["rule"] == "uverbs-node-missing"]
    listed = run(["ibv_devices"], timeout=30).stdout
    assert finding["device"] not in listed, "libibverbs drops exactly this one"


@pytest.mark.needs("modules")
class TestNoDevice:
    @pytest.fixture(autouse=True)
    def bare(self, run: Run) -> None:
        for module in ("rdma_rxe", "rdma_ucm", "rdma_cm", "ib_uverbs", "iw_cm", "ib_cm", "ib_core"):
            run(["modprobe", "-r", module], timeout=60)

    @pytest.mark.smoke
    def test_no_module_is_loaded_by_looking(
        self, rdmadiag: Callable[..., tuple[int, str, str]], run: Run
    ) -> None:
        assert not os.path.exists("/sys/module/ib_core")
        before = run(["lsmod"], timeout=30).stdout
        for command in ("preflight", "gids", "devices"):
            assert rdmadiag(command)[0] == 3
        assert not os.path.exists("/sys/module/ib_core")
        assert run(["lsmod"], timeout=30).stdout == before

    def test_the_missing_step_is_the_hardware(self, rdmadiag_json: Call) -> None:
        code, document = rdmadiag_json("preflight")
        assert (code, document["verdict"]["status"]) == (3, "unknown")
        assert rules(document) == {"no-rdma-device": {"unknown"}}
        (finding,) = document["verdict"]["findings"]
        assert "no PCI function known to an RDMA driver" in finding["summary"]

    def test_a_module_without_a_link_is_the_missing_step(
        self, rdmadiag_json: Call, run: Run
    ) -> None:
        run(["modprobe", "rdma_rxe"], timeout=60)
        code, document = rdmadiag_json("preflight")
        assert (code, rules(document)) == (3, {"no-rdma-device": {"unknown"}})
        assert (
            "rdma_rxe is loaded and no link was added"
            in (document["verdict"]["findings"][0]["summary"])
        )


@pytest.mark.needs("modules")
def test_removing_the_module_removes_the_devices(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call, run: Run
) -> None:
    assert run(["rdma", "link", "del", "rxe0"], timeout=60).returncode == 0
    assert run(["rdma", "link", "del", "rxe1"], timeout=60).returncode == 0
    assert run(["modprobe", "-r", "rdma_rxe"], timeout=60).returncode == 0
    code, document = rdmadiag_json("preflight")
    assert (code, rules(document)) == (3, {"no-rdma-device": {"unknown"}})
