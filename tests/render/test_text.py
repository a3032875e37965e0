"""Text as a person reads it, at 80 and 140 columns."""

import re
from collections.abc import Callable
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from lab.machine import Machine
from lab.rdma_devices import V1, V2, GidRow
from lab.samples import infiniband_host, roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import DriverId, LinkLayer, PortState
from rdmadiag.gid.registry import chosen
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.verdict import Finding, Severity
from rdmadiag.render import devices as devices_text
from rdmadiag.render import gids as gids_text
from rdmadiag.render import preflight as preflight_text
from rdmadiag.render.console import console
from rdmadiag.render.findings import show_findings
from rdmadiag.render.stacks import show_stacks
from rdmadiag.view.gid_tables import tables
from rdmadiag.view.inventory import inventory
from rdmadiag.view.reconcile import devices
from rdmadiag.view.stack_picks import made_for, picks
from rdmadiag.view.unshown import without_ports

WIDTHS = (80, 140)
NO_SYSFS = Evidence(sysfs=Missing(Why.DENIED, "EACCES"))


def paper(width: int) -> tuple[Console, StringIO]:
    out = StringIO()
    return Console(file=out, width=width, color_system=None, highlight=False, markup=False), out


def preflight(machine: Machine, width: int = 100) -> str:
    to, out = paper(width)
    preflight_text.show(judge(machine.evidence()), machine.identity(), to)
    return out.getvalue()


def gids(subject: Machine | Evidence, width: int = 100) -> str:
    to, out = paper(width)
    evidence = subject.evidence() if isinstance(subject, Machine) else subject
    views = devices(evidence)
    gids_text.show(tables(views), without_ports(views, evidence), evidence, to)
    return out.getvalue()


def device_list(subject: Machine | Evidence, width: int = 100) -> str:
    to, out = paper(width)
    evidence = subject.evidence() if isinstance(subject, Machine) else subject
    devices_text.show(inventory(devices(evidence), evidence), evidence, to=to)
    return out.getvalue()


def test_the_first_line_of_a_healthy_host_is_ok() -> None:
    first = preflight(infiniband_host()).splitlines()[0]
    assert first == "OK  2 ports, 2 active, 2 ready for RTR  [ib-two-hca]"


def test_ports_that_connect_without_rtr_are_not_called_unready_for_it() -> None:
    efa = {"driver": DriverId.EFA, "pci_driver": "efa", "node_type": "7: unspecified"}
    machine = roce_host().with_device(**efa, protocol="").with_port(layer=None, gids={})
    assert preflight(machine).splitlines()[0] == "OK  1 port, 1 active  [roce]"


def test_the_first_line_of_a_broken_host_is_its_worst_finding() -> None:
    machine = roce_host().with_port(gids={}).change(memlock="8388608", capabilities=0)
    first = preflight(machine).splitlines()[0]
    assert first.startswith("CRITICAL  mlx5_0/1 has no GID: all 256 rows of its table are empty")
    assert "(and 1 more)" in first


def test_remedies_stand_alone_on_their_lines_so_that_they_can_be_pasted() -> None:
    text = preflight(roce_host().with_port(gids={}))
    assert "\n    ip address show dev ens1f0np0\n" in text


def test_a_long_remedy_is_never_wrapped() -> None:
    text = preflight(roce_host().change(nodes={}, container="/.dockerenv"), width=40)
    assert "    docker run --device=/dev/infiniband --cap-add=IPC_LOCK --ulimit memlock=-1" in text


def test_in_a_terminal_sentences_wrap_between_words_and_commands_do_not() -> None:
    out = StringIO()
    to = Console(file=out, width=60, color_system=None, force_terminal=True, highlight=False)
    machine = roce_host().change(nodes={}, container="/.dockerenv")
    preflight_text.show(judge(machine.evidence()), machine.identity(), to)
    lines = out.getvalue().splitlines()
    assert (
        "    docker run --device=/dev/infiniband --cap-add=IPC_LOCK --ulimit memlock=-1 IMAGE"
        in (lines)
    )
    assert len(lines[0]) <= 60
    assert not lines[0].endswith("-")


def test_findings_of_one_rule_are_told_once_and_then_listed() -> None:
    unmanaged = {"state": PortState.INIT, "lid": 0, "sm_lid": 0}
    text = preflight(infiniband_host().with_port(0, 0, **unmanaged).with_port(1, 0, **unmanaged))
    assert text.count("sudo systemctl enable --now opensm") == 1
    assert "\n  also: mlx5_1/1\n" in text, "it differs in its name alone"
    assert "    sudo sminfo -C mlx5_1 -P 1\n" in text, "a remedy of its own is not lost"


@pytest.mark.parametrize("width", WIDTHS)
def test_evidence_and_remedy_are_told_apart_without_colour(width: int) -> None:
    lines = preflight(roce_host().with_port(gids={}), width).splitlines()
    evidence, remedy = lines.index("  evidence:"), lines.index("  remedy:")
    assert evidence < remedy
    assert all(line.startswith("    ") for line in lines[evidence + 1 : remedy])
    assert lines[remedy + 1] == "    ip address show dev ens1f0np0"


def test_a_single_finding_is_said_once() -> None:
    text = preflight(roce_host().with_port(gids={}))
    assert text.count("mlx5_0/1 has no GID: all 256 rows of its table are empty") == 1
    assert "\ncritical  no-usable-gid\n" in text


def test_one_of_several_is_said_where_it_stands_too() -> None:
    machine = roce_host().with_port(gids={}).change(memlock="8388608", capabilities=0)
    text = preflight(machine)
    assert text.count("mlx5_0/1 has no GID: all 256 rows of its table are empty") == 2


def sixteen(**port: object) -> Machine:
    """A host with sixteen adapters that are alike."""
    (device,) = roce_host().devices
    (netdev,) = roce_host().netdevs
    devices = [
        replace(
            device,
            name=f"mlx5_{number}",
            uverbs=number,
            pci_address=f"0000:{8 + number:02x}:00.0",
            node_guid=f"0c42:a103:0000:{number:04x}",
            ports=(
                replace(
                    device.ports[0],
                    netdev=f"ens{number}f0np0",
                    gids={
                        index: replace(
                            row,
                            gid=row.gid.replace("192.0.2.10", f"192.0.{number}.10"),
                            netdev=f"ens{number}f0np0",
                        )
                        for index, row in device.ports[0].gids.items()
                    },
                    **port,
                ),
            ),
        )
        for number in range(16)
    ]
    netdevs = [
        replace(netdev, name=f"ens{number}f0np0", addresses=(f"192.0.{number}.10/24",))
        for number in range(16)
    ]
    return roce_host().change(devices=tuple(devices), netdevs=tuple(netdevs))


def test_the_same_of_sixteen_devices_is_said_once_with_their_names() -> None:
    text = preflight(sixteen(active_mtu=1024), 200)
    assert text.count("uses MTU 1024") == 2, "the answer, and the finding"
    (also,) = [line for line in text.splitlines() if line.startswith("  also: ")]
    assert also == "  also: mlx5_[1-15]/1"
    assert text.count("sudo ip link set dev ens") == 4
    assert "    # the same for the other 12: --verbose has their lines\n" in text


def test_places_that_have_no_range_end_after_twenty() -> None:
    def of(number: int) -> Finding:
        return Finding("r", Severity.WARN, f"dev{number:03}a", None, "says so", (), (), ())

    for verbose, end in ((False, "dev020a, and 9 more\n"), (True, "dev028a, dev029a\n")):
        to, out = paper(400)
        show_findings(to, map(of, range(30)), notes=verbose)
        assert end in out.getvalue()


def test_verbose_has_every_line_to_paste() -> None:
    to, out = paper(200)
    machine = sixteen(active_mtu=1024)
    preflight_text.show(judge(machine.evidence()), machine.identity(), to, verbose=True)
    pasted = re.findall(r"^    sudo ip link set dev (\S+) mtu 9000", out.getvalue(), re.MULTILINE)
    assert pasted == [f"ens{number}f0np0" for number in range(16)]


def test_findings_that_differ_in_more_than_names_keep_their_sentences() -> None:
    machine = sixteen(active_mtu=1024)
    first, *others = machine.devices
    odd = replace(others[-1], ports=(replace(others[-1].ports[0], active_mtu=512),))
    text = preflight(machine.change(devices=(first, *others[:-1], odd)), 200)
    assert "\n  also: mlx5_15/1 uses MTU 512, and ens15f0np0 (MTU 9000) allows 4096\n" in text


def test_devices_say_the_same_of_sixteen_once() -> None:
    text = device_list(sixteen().change(nodes={}), 300)
    assert text.count("no character device: udev has not made") == 1
    assert text.count("  also: mlx5_[1-15]\n") == 3


def test_the_port_table_has_rate_and_netdev() -> None:
    (line,) = [each for each in preflight(roce_host(), 80).splitlines() if "permitted" in each][:1]
    assert line.split()[:5] == ["mlx5_0/1", "Eth", "active", "100G", "ens1f0np0"]
    assert len(line) <= 80


@pytest.mark.parametrize("show", ["preflight", "gids", "devices", "stacks"])
@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_ends_with_a_blank(show: str, width: int) -> None:
    machine = sixteen().with_port(gids={})
    text = {
        "preflight": lambda: preflight(machine, width),
        "gids": lambda: gids(machine, width),
        "devices": lambda: device_list(machine, width),
        "stacks": lambda: explained(machine, width),
    }[show]()
    assert [line for line in text.splitlines() if line != line.rstrip()] == []


def screen(height: int, **machine: object) -> list[str]:
    """What a terminal of this height is given of a host."""
    out = StringIO()
    to = Console(file=out, width=100, height=height, color_system=None, force_terminal=True)
    changed = roce_host().with_port(gids={}).change(**machine)
    preflight_text.show(judge(changed.evidence()), changed.identity(), to)
    return out.getvalue().splitlines()


def test_a_report_that_is_longer_than_the_screen_ends_with_the_verdict() -> None:
    whole = screen(1000)
    assert whole[-1].startswith("RTR: ")
    assert screen(len(whole))[-2:] == ["", whole[0]]
    assert screen(len(whole) + 1) == whole, "and not where it is all in view"
    assert "CRITICAL" not in "".join(preflight(roce_host().with_port(gids={})).splitlines()[1:])


def test_no_color_takes_bold_and_dim_as_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    for value, steered in (("", True), ("1", False)):
        monkeypatch.setenv("NO_COLOR", value)
        preflight_text.show(judge(roce_host().evidence()), roce_host().identity(), console())
        assert ("\x1b" in capsys.readouterr().out) is steered


def test_the_header_names_the_sample() -> None:
    machine = roce_host()
    sample = replace(machine.identity(), sample="roce-healthy", recorded=True)
    to, out = paper(100)
    preflight_text.show(judge(machine.evidence()), sample, to)
    evidence = machine.evidence()
    devices_text.show(inventory(devices(evidence), evidence), evidence, to=to, host=sample)
    gids_text.show(tables(devices(evidence)), {}, evidence, to, host=sample)
    heads = [
        line for line in out.getvalue().splitlines() if line.endswith("  [sample roce-healthy]")
    ]
    assert len(heads) == 3


def test_reasons_against_rtr_name_their_ports_and_the_caveat_is_always_there() -> None:
    text = preflight(roce_host().change(openable=False))
    assert "no RTR on mlx5_0/1: this user may not open the device's node" in text
    for machine in (roce_host(), infiniband_host()):
        assert "(necessary, not sufficient)" in preflight(machine)


def test_of_a_host_without_a_port_the_codes_of_its_reasons_are_the_last_line() -> None:
    assert preflight(Machine("bare")).endswith("\nRTR: no attempt is permitted: no_rdma_port.\n")


def test_gids_say_the_index_first_and_mark_it() -> None:
    lines = gids(roce_host()).splitlines()
    assert lines[0].startswith("mlx5_0/1  ethernet active: use index 3 (::ffff:192.0.2.10)")
    marked = [line for line in lines if line.startswith("→")]
    assert [line.split()[1] for line in marked] == ["3"]
    assert "x-rdma" not in lines[-1]


def test_gids_do_not_advise_an_entry_that_cannot_work() -> None:
    without = roce_host().change(netdevs=(), netns_mode=None)
    for machine in (without, roce_host().with_port(state=PortState.DOWN)):
        first = gids(machine).splitlines()[0]
        assert "would use index 3" in first


def test_on_thunderbolt_x_rdmas_own_choice_is_told() -> None:
    from dataclasses import replace

    evidence = roce_host().evidence()
    device = evidence.sysfs.devices[0]  # type: ignore[union-attr, index]
    port = replace(device.ports[0], link_layer=LinkLayer.THUNDERBOLT)
    sysfs = replace(evidence.sysfs, devices=(replace(device, ports=(port,)),))  # type: ignore[type-var]
    apple = replace(evidence, sysfs=sysfs, nldev=Missing(Why.NOT_COLLECTED))
    assert "x-rdma would pick index 2" in gids(apple)


@pytest.mark.parametrize(
    ("rows", "gaps"),
    [
        pytest.param({0: V2, 1: V2}, ["2-15"], id="empty rows at the end"),
        pytest.param({0: V2, 5: V2, 15: V2}, ["1-4", "6-14"], id="a hole in the middle"),
        pytest.param({1: V1, 15: V2}, ["0", "2-14"], id="an empty first row"),
        pytest.param(dict.fromkeys(range(15), V2), ["15"], id="one empty row at the end"),
    ],
)
def test_a_hole_in_a_table_is_visible_and_empty_rows_are_not(
    rows: dict[int, str], gaps: list[str]
) -> None:
    table = {i: GidRow(f"2001:db8::{i}", kind, "ens1f0np0") for i, kind in rows.items()}
    text = gids(roce_host().with_port(gids=table, gid_table_length=16))
    found = re.findall(r"^\s+([0-9-]+)\s+empty\s*$", text, re.MULTILINE)
    assert found == gaps
    assert len(text.splitlines()) <= len(rows) + len(gaps) + 3


def test_a_netdev_that_is_down_or_elsewhere_is_marked() -> None:
    assert " not here" in gids(roce_host().change(netdevs=()))


def test_infiniband_is_told_that_lids_route() -> None:
    assert "InfiniBand routes by LID" in gids(infiniband_host())
    assert "would pick" not in gids(infiniband_host())


def test_iwarp_is_not_told_to_use_an_index() -> None:
    text = gids(roce_host().with_device(node_type="4: RNIC", protocol="iw"))
    assert "use index" not in text
    assert "rdma_cm" in text.splitlines()[0]


@pytest.mark.parametrize(
    ("show", "words"),
    [(gids, "no GID table"), (device_list, "cannot tell")],
    ids=["gids", "devices"],
)
def test_not_being_able_to_look_is_not_an_empty_list(
    show: Callable[[Evidence], str], words: str
) -> None:
    assert words in show(NO_SYSFS)
    assert "denied" in show(NO_SYSFS)
    nothing = show(Machine("bare").evidence())
    assert "no RDMA device" in nothing
    assert "denied" not in nothing


def test_devices_say_how_many_and_where_each_is_seen() -> None:
    text = device_list(infiniband_host(), 120)
    first, _, *table = text.splitlines()
    assert first == "2 RDMA devices, 2 ports, 2 active; seen by sysfs, nldev, verbs, /dev"
    assert [line.split()[0] for line in table] == ["PORT", "mlx5_0/1", "mlx5_1/1"]


def planes() -> Machine:
    """A multi-plane adapter: what a job uses, and a device for subnet management (Linux 6.11)."""
    (device, _) = infiniband_host().devices
    plane = replace(device.ports[0], rate="200 Gb/sec (1X XDR)")
    smi = replace(device, name="smi1", ports=(plane,) * 4, uverbs=None, smi_of="mlx5_0")
    return infiniband_host().change(devices=(device, smi))


def test_a_device_for_subnet_management_alone_is_none_that_a_program_misses() -> None:
    lines = device_list(planes(), 120).splitlines()
    assert lines[0] == "1 RDMA device, 1 port, 1 active; seen by sysfs, nldev, verbs, /dev"
    assert lines[1] == "smi1: subnet management of mlx5_0 alone: no program opens it"
    assert "\nsmi1/1" not in "\n".join(lines)
    assert judge(planes().evidence()).findings == ()
    without = planes().change(devices=planes().devices[:1])
    assert "smi1" not in device_list(without, 120)


def test_the_pci_link_of_a_virtual_function_is_not_known_and_not_shown() -> None:
    link = roce_host().with_device(link=("8.0 GT/s PCIe", "8"))
    assert "8.0GT/s x8 of 16.0GT/s x16" in device_list(link, 120)
    assert "GT/s" not in device_list(roce_host().with_device(link=("Unknown", "0")), 120)


def test_a_device_not_seen_somewhere_is_explained_above_the_table() -> None:
    lines = device_list(roce_host().change(nodes={}), 120).splitlines()
    assert lines[0].endswith("not seen everywhere: mlx5_0")
    assert "mlx5_0: no character device: udev has not made /dev/infiniband/uverbs0" in lines
    assert (
        "mlx5_0: verbs gets no further than step 3 of 12, node: /dev/infiniband/uverbs0: not there"
        in lines
    )
    assert lines[-1].split()[-2:] == ["verbs", "/dev"]


def test_a_function_without_a_device_is_told_above_the_table() -> None:
    from dataclasses import replace

    from rdmadiag.view.discovery_path import functions_without_device

    evidence = roce_host().evidence()
    (own,) = evidence.sysfs.candidates  # type: ignore[union-attr, misc]
    lost = replace(own, address="0000:0a:00.0")
    changed = replace(evidence, sysfs=replace(evidence.sysfs, candidates=(own, lost)))  # type: ignore[type-var]
    for views in (devices(changed), ()):
        to, out = paper(120)
        without = functions_without_device(devices(changed), changed)
        devices_text.show(inventory(views, changed), changed, without, to)
        assert (
            "PCI 0000:0a:00.0 has no RDMA device: fails at kernel: /sys/class/infiniband: "
            "no device of 0000:0a:00.0" in out.getvalue().splitlines()
        )


def test_a_degraded_pci_link_is_shown_beside_its_address() -> None:
    slow = roce_host().with_device(link=("8.0 GT/s PCIe", "8"))
    assert "0000:08:00.0 8.0GT/s x8 of 16.0GT/s x16" in device_list(slow, 160)
    assert "GT/s" not in device_list(roce_host(), 160)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("show", [gids, device_list], ids=["gids", "devices"])
def test_tables_fit_the_terminal(show: Callable[[Machine, int], str], width: int) -> None:
    machine = roce_host().with_port(layer=LinkLayer.ETHERNET)
    text = show(machine, width)
    table = [line for line in text.splitlines() if not line.startswith("mlx5_0/1  eth")]
    assert all(len(line.rstrip()) <= width for line in table)
    assert "ens1f0np0" in text, "a cell is left out whole, never broken"


def test_rows_that_could_not_be_read_are_listed() -> None:
    from dataclasses import replace

    evidence = roce_host().evidence()
    device = evidence.sysfs.devices[0]  # type: ignore[union-attr, index]
    port = device.ports[0]
    table = replace(port.gids, unreadable={9: Missing(Why.MALFORMED, "x")})
    device = replace(device, ports=(replace(port, gids=table),))
    changed = replace(evidence, sysfs=replace(evidence.sysfs, devices=(device,)))  # type: ignore[type-var]
    assert "  9: could not be read (malformed: x)" in gids(changed)
    unread = replace(port, gids=Missing(Why.DENIED, "EACCES"))
    device = replace(device, ports=(unread,))
    changed = replace(
        evidence,
        sysfs=replace(evidence.sysfs, devices=(device,)),  # type: ignore[type-var]
        verbs=Missing(Why.NOT_COLLECTED),
    )
    assert "GID table not read (denied: EACCES)" in gids(changed)


def test_the_console_writes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    console().print("x [bold]y[/bold] 0x1")
    assert capsys.readouterr().out == "x [bold]y[/bold] 0x1\n"


def test_what_a_host_wrote_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from rdmadiag.facts import Identity
    from rdmadiag.preflight.verdict import Finding, Proof, Severity, Status, Verdict
    from rdmadiag.render.preflight import show

    evil = "x\x1b[2Jy\x07"
    proof = Proof("mac_log", evil, evil)
    finding = Finding("r", Severity.CRITICAL, None, None, evil, (proof,), (evil,), ())
    show(Verdict(Status.CRITICAL, False, (), (finding, finding)), Identity("h", "darwin", ""))
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "x\\x1b[2Jy" in out


def test_a_devices_name_cannot_steer_the_terminal_either() -> None:
    odd = replace(infiniband_host().devices[0], name="mlx5\u2028\x1b[2J")
    shown = preflight(infiniband_host().change(devices=(odd,)))
    assert "mlx5\\u2028\\x1b[2J/1" in shown
    assert shown.replace("\n", "").isprintable()


# --- what stacks would pick ------------------------------------------------------------------


def explained(machine: Machine, width: int, *names: str) -> str:
    to, out = paper(width)
    evidence = machine.evidence()
    views = devices(evidence)
    listed = tables(views, lambda port: picks(port, made_for(chosen(names), port), {}))
    show_stacks(listed, without_ports(views, evidence), evidence, to)
    return out.getvalue()


@pytest.mark.parametrize("width", WIDTHS)
def test_disagreements_come_first_and_those_that_agree_are_one_line(width: int) -> None:
    lines = explained(roce_host(), width).splitlines()
    assert "not all agree on the route GID, index 3" in lines[0]
    assert lines[1] == "  fail"
    agreeing = [number for number, line in enumerate(lines) if line.startswith("  index 3: ")]
    others = [number for number, line in enumerate(lines) if line.startswith("      NCCL ≤2.20")]
    assert len(agreeing) == len(others) == 1
    assert others[0] < agreeing[0]
    assert "NCCL but ≤2.20" in " ".join(line.strip() for line in lines[agreeing[0] :])
    pasted = [line for line in lines if line.startswith("    export ")]
    assert "    export NCCL_IB_GID_INDEX=3   # NCCL ≤2.20" in pasted


def test_a_port_that_is_like_one_above_says_so() -> None:
    text = explained(sixteen(), 200)
    assert text.count("  each stack as on mlx5_0/1; --verbose has all of it\n") == 15
    assert text.count("export NCCL_IB_GID_INDEX=3") == 1


def test_a_port_that_all_leave_out_says_why() -> None:
    text = explained(roce_host().with_port(gids={}), 100, "ucx", "psm3")
    assert "no route GID, every GID of the port is empty" in text
    assert "leave the port out" in text
    assert "row 0 is empty" in text


def test_what_could_not_be_read_is_no_agreement() -> None:
    to, out = paper(100)
    show_stacks((), {"mlx5_0": "no port"}, NO_SYSFS, to)
    show_stacks((), {}, NO_SYSFS, to)
    text = out.getvalue()
    assert "mlx5_0  no port" in text
    assert "no GID table: " in text


def test_a_protocol_without_gids_has_no_stacks() -> None:
    machine = roce_host().with_device(node_type="4: RNIC", protocol="iw")
    assert "iWARP connects by rdma_cm" in explained(machine, 100)
