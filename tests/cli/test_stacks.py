"""gids --explain, --stack, --env, --env-from and --peer; preflight --stack."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.machine import Machine
from lab.netdevs import NetDev
from lab.rdma_devices import Port, roce_rows
from lab.samples import infiniband_host, roce_host
from rdmadiag.host.recording import write_archive
from rdmadiag.samples import folder
from tests.fleet.record_pairs import other_host

# Children that read what a user names: tests/host/test_given_file.py, test_isolation.py.
pytestmark = pytest.mark.usefixtures("in_this_process")

Rdmadiag = Callable[..., Any]
SAMPLE = ("--sample", "container-without-uverbs")


def written(machine: Machine, path: Path) -> str:
    """As an archive: one file instead of a hundred."""
    name = f"{path}.tar.gz"
    write_archive(machine.snapshot(), name)
    return name


def with_rows(*addresses: str, host: str = "192.0.2.10") -> Machine:
    netdev = roce_host(host).netdevs[0]
    rows = roce_rows(netdev.name, netdev.mac, *addresses)
    held = tuple(f"{each}/{64 if ':' in each else 24}" for each in addresses)
    return (
        roce_host(host)
        .with_port(gids=rows)
        .change(
            netdevs=(
                NetDev(
                    netdev.name,
                    mac=netdev.mac,
                    mtu=9000,
                    addresses=(*held, "fe80::e42:a1ff:fe00:1/64"),
                ),
            )
        )
    )


def stacks(document: Any, port: int = 0) -> dict[tuple[str, str], Any]:
    return {(row["stack"], row["version"]): row for row in document["ports"][port]["stacks"]}


def test_explain_lists_every_rule_with_its_source(rdmadiag: Rdmadiag) -> None:
    outcome = rdmadiag("gids", "--explain", "--json", *SAMPLE)
    assert (outcome.code, outcome.err) == (0, "")
    found = stacks(outcome.document)
    nccl = found["nccl", "≥2.26.2"]
    assert (nccl["index"], nccl["outcome"], nccl["agrees"]) == (3, "entry", True)
    assert (nccl["type"], nccl["type_number"], nccl["netdev"]) == ("roce_v2", 2, "ens1f0np0")
    assert found["nccl", "≤2.20"]["index"] == 0
    assert found["rc-pingpong", "any"]["outcome"] == "fails"
    assert all("@" in row["source"] or row["stack"] == "mscclpp" for row in found.values())
    assert ("jaccl", "≥0.32.1") not in found, "not made for Ethernet"


def test_the_first_line_says_whether_all_agree(rdmadiag: Rdmadiag) -> None:
    first = rdmadiag("gids", "--explain", *SAMPLE).out.splitlines()[0]
    assert "not all agree on the route GID, index 3" in first
    alone = rdmadiag("gids", "--stack", "nccl@2.27", *SAMPLE).out.splitlines()
    assert "it uses the route GID, index 3 (::ffff:192.0.2.10, v2)" in alone[0]
    ib = rdmadiag("gids", "--explain", "--sample", "infiniband-two-hca").out.splitlines()[0]
    assert "agree on the LID, or GID 0" in ib


def test_a_stack_that_is_named_is_listed_where_it_does_not_run(rdmadiag: Rdmadiag) -> None:
    found = stacks(rdmadiag("gids", "--stack", "jaccl", "--json", *SAMPLE).document)
    assert {row["outcome"] for row in found.values()} == {"unsupported"}
    assert "not made for ethernet" in rdmadiag("gids", "--stack", "jaccl", *SAMPLE).out


def test_a_stack_that_is_not_known_is_refused_in_one_line(rdmadiag: Rdmadiag) -> None:
    for command in (("gids",), ("preflight",)):
        outcome = rdmadiag(*command, "--stack", "zzz", *SAMPLE)
        assert (outcome.code, outcome.out) == (64, "")
        assert outcome.err.startswith("rdmadiag: no stack 'zzz'; there are: brpc")
        assert outcome.err.count("\n") == 1


def test_variables_come_from_a_file_or_a_process(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    job = tmp_path / "job.env"
    job.write_text("export NCCL_IB_GID_INDEX=1\n")
    found = stacks(
        rdmadiag("gids", "--explain", "--json", "--env-from", str(job), *SAMPLE).document
    )
    row = found["nccl", "≥2.26.2"]
    assert (row["index"], row["pinned_by"], row["scope"]) == (1, "NCCL_IB_GID_INDEX", "link_local")
    assert found["mooncake", "≥0.3.12"]["index"] == 1, "it reads NCCL's"
    assert found["ucx", "≥1.21"]["index"] == 3
    child = subprocess.Popen(
        [sys.executable, "-c", "input()"],
        stdin=subprocess.PIPE,
        env={**os.environ, "UCX_IB_GID_INDEX": "2"},
    )
    try:
        outcome = rdmadiag("gids", "--explain", "--json", "--env-from", str(child.pid), *SAMPLE)
    finally:
        child.communicate(b"\n")
    assert stacks(outcome.document)["ucx", "≥1.21"]["index"] == 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("4194304", "no such process (a file of that name is ./4194304)"),
        ("/nowhere/job.env", "/nowhere/job.env: ENOENT"),
    ],
)
def test_a_process_or_file_that_is_not_there(rdmadiag: Rdmadiag, given: str, words: str) -> None:
    outcome = rdmadiag("gids", "--explain", "--env-from", given, *SAMPLE)
    assert (outcome.code, outcome.out) == (64, "")
    assert words in outcome.err


@pytest.mark.parametrize(
    "options",
    [
        ("--env-from", "1"),
        ("--env", "nccl", "--json"),
        ("--env", "nccl", "--stack", "ucx"),
    ],
)
def test_options_that_do_not_go_together(rdmadiag: Rdmadiag, options: tuple[str, ...]) -> None:
    outcome = rdmadiag("gids", *options, *SAMPLE)
    assert outcome.code == 64
    if "--json" in options:
        assert outcome.document["error"]["exit_code"] == 64
    else:
        assert outcome.out == ""


# --- --env -----------------------------------------------------------------------------------


def evaluated(lines: str, variable: str) -> str:
    """What a shell makes of the lines."""
    script = f'export {variable}=old\neval "$1"\nprintf %s "${{{variable}-unset}}"'
    return subprocess.run(
        ["sh", "-c", script, "sh", lines], capture_output=True, text=True, check=True, timeout=10
    ).stdout


@pytest.mark.parametrize(
    ("stack", "variable", "addresses", "value"),
    [
        ("nccl", "NCCL_IB_GID_INDEX", ("192.0.2.10",), "unset"),
        ("nccl@2.19", "NCCL_IB_GID_INDEX", ("192.0.2.10",), "3"),
        ("nccl", "NCCL_IB_ADDR_FAMILY", ("2001:db8::10",), "AF_INET6"),
        ("nccl", "NCCL_IB_GID_INDEX", ("2001:db8::10",), "unset"),
        ("ucx@1.21", "UCX_IB_GID_INDEX", ("2001:db8::10",), "unset"),
        ("ucx@1.20", "UCX_IB_GID_INDEX", ("2001:db8::10",), "3"),
        ("mooncake", "MC_GID_INDEX", ("10.0.0.10", "2001:db8::10"), "3"),
        ("libfabric-dgram", "FI_VERBS_GID_IDX", ("192.0.2.10",), "3"),
    ],
)
def test_the_lines_set_what_fits(
    rdmadiag: Rdmadiag,
    tmp_path: Path,
    stack: str,
    variable: str,
    addresses: tuple[str, ...],
    value: str,
) -> None:
    source = written(with_rows(*addresses), tmp_path / "host")
    outcome = rdmadiag("gids", "--env", stack, "--from", source)
    assert (outcome.code, outcome.err) == (0, "")
    assert evaluated(outcome.out, variable) == value


@pytest.mark.parametrize(
    ("stack", "expected"), [("mooncake", "3"), ("mooncake-tent", "3"), ("nccl", "unset")]
)
def test_a_variable_of_another_stack_that_is_read_too_is_overruled(
    rdmadiag: Rdmadiag, tmp_path: Path, stack: str, expected: str
) -> None:
    job = tmp_path / "job.env"
    job.write_text("NCCL_IB_GID_INDEX=1\n")
    outcome = rdmadiag("gids", "--env", stack, "--env-from", str(job), *SAMPLE)
    variable = "NCCL_IB_GID_INDEX" if stack == "nccl" else "MC_GID_INDEX"
    assert evaluated(outcome.out, variable) == expected
    assert ("unset NCCL_IB_GID_INDEX" in outcome.out) is (stack != "mooncake")


def test_where_no_single_value_fits_it_says_so_and_lists_one_a_port(
    rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    base = roce_host()
    rows = roce_rows("eth9", "0c:42:a1:00:00:02", "198.51.100.11")
    moved = Port(gids={0: rows[0], 1: rows[1], 5: rows[3]}, gid_table_length=256, netdev="eth9")
    device = base.devices[0]
    machine = base.change(
        devices=(replace(device, ports=(*device.ports, moved)),),
        netdevs=(
            *base.netdevs,
            NetDev("eth9", mac="0c:42:a1:00:00:02", addresses=("198.51.100.11/24",)),
        ),
    )
    source = written(machine, tmp_path / "host")
    outcome = rdmadiag("gids", "--env", "nccl@2.19", "--from", source)
    assert outcome.code == 1
    assert "no single NCCL_IB_GID_INDEX fits: 3 on mlx5_0/1; 5 on mlx5_0/2" in outcome.err
    assert "# mlx5_0:2   export NCCL_IB_GID_INDEX=5" in outcome.out
    assert evaluated(outcome.out, "NCCL_IB_GID_INDEX") == "old"
    one = rdmadiag("gids", "--env", "nccl@2.19", "--device", "mlx5_0:2", "--from", source)
    assert evaluated(one.out, "NCCL_IB_GID_INDEX") == "5"
    newer = rdmadiag("gids", "--env", "nccl", "--from", source)
    assert "3 on mlx5_0/1, 5 on mlx5_0/2 by itself" in newer.out


def test_a_program_without_a_variable_says_what_it_takes(rdmadiag: Rdmadiag) -> None:
    outcome = rdmadiag("gids", "--env", "perftest", *SAMPLE)
    assert outcome.code == 64
    assert "ib_send_lat -x INDEX" in outcome.err


def test_without_an_active_roce_port_there_is_nothing_to_set(rdmadiag: Rdmadiag) -> None:
    outcome = rdmadiag("gids", "--env", "nccl", "--sample", "infiniband-two-hca")
    assert (outcome.code, outcome.out) == (3, "")


HOSTILE = (
    pytest.param("$(touch ran)", id="a substitution"),
    pytest.param("`touch ran`", id="backticks"),
    pytest.param("a; touch ran #", id="a semicolon"),
    pytest.param("'; touch ran; '", id="single quotes"),
    pytest.param('"; touch ran; "', id="double quotes"),
    pytest.param("a' && touch ran", id="a quote that is not closed"),
    pytest.param("a\\", id="a backslash at the end"),
)
NO_NAME = (
    pytest.param("a\ntouch ran", id="a newline ends the comment"),
    pytest.param("a\rtouch ran", id="a carriage return"),
    pytest.param("\x1b]0;touch ran\x07", id="ESC"),
    pytest.param("a\x9b2J", id="a control character of eight bits"),
    pytest.param("a\u2028touch ran", id="a line separator"),
    pytest.param("m" * 64, id="longer than a kernel's name"),
)


def named(path: Path, *names: str) -> str:
    """A record of a host whose RDMA devices have these names, each with a GID index of its own."""
    base = roce_host()
    device = base.devices[0]
    rows = dict(device.ports[0].gids)
    best = rows.pop(3)
    devices = tuple(
        replace(
            device,
            name=name,
            uverbs=at,
            ports=(replace(device.ports[0], gids={**rows, 3 + 2 * at: best}),),
        )
        for at, name in enumerate(names)
    )
    return written(base.change(devices=devices), path)


def ran_in(folder: Path, lines: str) -> list[str]:
    """What stands in an empty folder after a shell has evaluated the lines in it."""
    folder.mkdir()
    ran = subprocess.run(
        ["sh", "-c", 'eval "$1"', "sh", lines],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=10,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", ""), lines
    return os.listdir(folder)


@pytest.mark.parametrize("stack", ["nccl", "nccl@2.19", "ucx@1.20"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_a_shell_would_run_is_quoted(
    rdmadiag: Rdmadiag, tmp_path: Path, name: str, stack: str
) -> None:
    """One device, and two whose indexes differ: the name then stands in a line of its own."""
    for others in ((), ("mlx5_7",)):
        source = named(tmp_path / f"host{len(others)}", name, *others)
        outcome = rdmadiag("gids", "--env", stack, "--from", source)
        assert outcome.out
        assert ran_in(tmp_path / f"shell{len(others)}", outcome.out) == []
        bare = "".join(f"{line.partition('# ')[2]}\n" for line in outcome.out.splitlines())
        for word in shlex.split(bare):
            assert "touch ran" not in word or name in word, "one word, comment or not"


@pytest.mark.parametrize("name", NO_NAME)
def test_a_name_that_no_kernel_gives_reaches_no_line_for_a_shell(
    rdmadiag: Rdmadiag, tmp_path: Path, name: str
) -> None:
    source = named(tmp_path / "host", "mlx5_7", name)
    outcome = rdmadiag("gids", "--env", "nccl", "--from", source)
    assert (outcome.code, outcome.out) == (3, "")
    assert "is no name that a kernel gives a device" in outcome.err
    assert outcome.err.count("\n") == 1
    assert outcome.err.rstrip("\n").isprintable()
    one = rdmadiag("gids", "--env", "nccl", "--device", "mlx5_7", "--from", source)
    assert one.code == 0


def test_a_report_whose_device_has_no_name_of_a_kernel_gives_no_line(
    rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    source = named(tmp_path / "host", "mlx5_0")
    document = rdmadiag("preflight", "--json", "--from", source).out
    for at, (name, code) in enumerate({"../x\\ntouch ran": 3, "$(touch ran)": 0}.items()):
        report = tmp_path / f"report{at}.json"
        report.write_text(document.replace("mlx5_0", name))
        outcome = rdmadiag("gids", "--env", "nccl@2.19", "--from", str(report))
        assert outcome.code == code
        assert bool(outcome.out) is (code == 0)
        assert ran_in(tmp_path / f"shell{at}", outcome.out) == []


# --- --peer ----------------------------------------------------------------------------------


def pairs(rdmadiag: Rdmadiag, here: str, there: str, *options: str) -> Any:
    return rdmadiag("gids", "--explain", "--json", "--from", here, "--peer", there, *options)


def talks(outcome: Any, stack: str) -> list[tuple[str, str]]:
    return [
        (each["talks"], each["why"])
        for pair in outcome.document["pairs"]
        for each in pair["stacks"]
        if each["stack"] == stack
    ]


def test_two_hosts_of_one_subnet_can_talk(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    here = written(with_rows("192.0.2.10"), tmp_path / "here")
    there = written(with_rows("192.0.2.11", host="192.0.2.11"), tmp_path / "there")
    outcome = pairs(rdmadiag, here, there)
    assert outcome.code == 0
    assert outcome.document["peer"]["recorded"] is True
    (pair,) = outcome.document["pairs"]
    assert (pair["local"], pair["remote"]) == (
        {"device": "mlx5_0", "port": 1},
        {"device": "mlx5_0", "port": 1},
    )
    assert talks(outcome, "ucx")[0] == ("yes", "same type, family and subnet")
    assert {word for word, _ in talks(outcome, "rc-pingpong")} == {"no"}


@pytest.mark.parametrize(
    ("there", "stack", "word", "why"),
    [
        (("198.51.100.10",), "nccl", "routed", "different subnets"),
        (("2001:db8::10",), "ucx", "no", "this end's GID is ipv4"),
        (("192.0.2.11", "2001:db8::11"), "mooncake", "yes", ""),
        (("10.0.0.11", "2001:db8::11"), "mooncake", "no", "ipv4"),
    ],
)
def test_what_keeps_two_hosts_apart(
    rdmadiag: Rdmadiag, tmp_path: Path, there: tuple[str, ...], stack: str, word: str, why: str
) -> None:
    here = written(with_rows("192.0.2.10"), tmp_path / "here")
    other = written(with_rows(*there), tmp_path / "there")
    found = talks(pairs(rdmadiag, here, other), stack)
    assert found[0][0] == word
    assert why in found[0][1]


def test_a_report_is_a_peer_too_and_the_exit_code_is_that_of_a_named_stack(
    rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    here = written(with_rows("192.0.2.10"), tmp_path / "here")
    there = written(with_rows("2001:db8::11"), tmp_path / "there")
    report = tmp_path / "there.json"
    report.write_text(rdmadiag("preflight", "--json", "--from", there).out)
    found = rdmadiag("gids", "--stack", "nccl", "--from", here, "--peer", str(report))
    assert found.code == 2
    assert "cannot talk" in found.out.splitlines()[0]
    assert "no packet was sent" in found.out
    near = written(with_rows("192.0.2.11"), tmp_path / "near")
    same = rdmadiag("gids", "--stack", "nccl@2.27", "--from", here, "--peer", near)
    assert same.code == 0
    assert "all can talk" in same.out.splitlines()[0]
    itself = rdmadiag("gids", "--stack", "nccl@2.27", "--from", here, "--peer", here)
    assert itself.code == 0, "no obstacle is known"
    assert "not known" in itself.out
    assert "one host, or an address given twice" in " ".join(itself.out.split())


def test_infiniband_pairs_by_lid(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    sample = str(folder("infiniband-two-hca"))
    outcome = pairs(rdmadiag, sample, written(other_host(infiniband_host()), tmp_path / "b"))
    assert talks(outcome, "perftest")[0] == ("yes", "one subnet prefix, by LID")
    mixed = rdmadiag("gids", "--explain", "--from", sample, "--peer", str(folder("roce-healthy")))
    assert "no active ports of one kind" in mixed.out


# --- preflight --stack -----------------------------------------------------------------------


def said(outcome: Any) -> dict[str, str]:
    return {each["rule"]: each["severity"] for each in outcome.document["verdict"]["findings"]}


def judged(rdmadiag: Rdmadiag, machine: Machine, path: Path, *options: str) -> Any:
    return rdmadiag("preflight", "--json", "--from", written(machine, path), *options)


def test_a_healthy_host_stays_healthy_for_a_stack_that_chooses_well(
    rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    outcome = judged(rdmadiag, with_rows("192.0.2.10"), tmp_path / "h", "--stack", "nccl@2.27")
    assert (outcome.code, said(outcome)) == (0, {})


def test_a_variable_of_the_job_is_judged(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    job = tmp_path / "job.env"
    job.write_text("NCCL_IB_GID_INDEX=9\nSECRET=x\n")
    machine = with_rows("192.0.2.10")
    outcome = judged(rdmadiag, machine, tmp_path / "h", "--env-from", str(job))
    assert said(outcome)["env-gid-index"] == "critical"
    assert "SECRET" not in outcome.out
    assert outcome.document["evidence"]["process"]["environment"] == {"NCCL_IB_GID_INDEX": "9"}


def test_explain_takes_a_stack_as_a_cause(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    source = written(with_rows("2001:db8::10"), tmp_path / "h")
    log = tmp_path / "job.log"
    log.write_text(
        "node1:1:2 [0] NCCL WARN Call to ibv_modify_qp failed with 110 Connection "
        "timed out, on dev mlx5_0:1, curr state INIT, next state RTR\n"
    )
    options = ("explain", "--json", "--log", str(log), "--from", source)
    with_stack = rdmadiag(*options, "--stack", "nccl").document["first"]["causes"]
    confirmed = {each["label"] for each in with_stack if each["standing"] == "confirmed"}
    assert "gid-does-not-route" in confirmed
    without = rdmadiag(*options).document["first"]["causes"]
    assert "gid-does-not-route" not in {
        each["label"] for each in without if each["standing"] == "confirmed"
    }


def test_plain_gids_imports_no_stack_but_x_rdma() -> None:
    code = (
        "import sys, json; from rdmadiag.cli import run; "
        f"run(['gids', '--json', '--sample', '{SAMPLE[1]}']); "
        "print(json.dumps([n for n in sys.modules if n.startswith('rdmadiag.gid.')]), "
        "file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    names = set(json.loads(done.stderr))
    assert {name for name in names if ".stacks." in name} == {"rdmadiag.gid.stacks.x_rdma"}
    assert "rdmadiag.gid.registry" not in names


def test_a_peer_whose_ports_were_not_read_is_not_known(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    here, report = str(folder("roce-healthy")), tmp_path / "peer.json"
    document = json.loads(rdmadiag("preflight", "--json", "--from", here).out)
    for name in ("sysfs", "nldev", "verbs"):
        document["evidence"][name] = {"why": "denied", "detail": "EACCES"}
    report.write_text(json.dumps(document))
    code, out, err = rdmadiag("gids", "--explain", "--from", here, "--peer", str(report))
    assert (code, out) == (3, "")
    assert "are not known: sysfs denied: EACCES" in err


def test_a_stack_cannot_talk_to_a_peer_without_a_port_of_its_kind(
    rdmadiag: Rdmadiag,
) -> None:
    ends = ("--from", str(folder("roce-healthy")), "--peer", str(folder("infiniband-two-hca")))
    code, out, _ = rdmadiag("gids", "--stack", "ucx", *ends)
    assert code == 2
    assert "no active ports of one kind" in out
    assert rdmadiag("gids", "--explain", *ends).code == 0


@pytest.mark.parametrize(
    ("sample", "why"),
    [
        ("infiniband-two-hca", "mlx5_0/1: InfiniBand routes by LID"),
        ("roce-empty-gid-table", "mlx5_0/1: every GID of the port is empty"),
        ("mac-ready", "rdma_en1/1: no stack sets one over thunderbolt"),
    ],
)
def test_where_there_is_no_index_to_set_the_reason_is_said(
    sample: str, why: str, rdmadiag: Callable[..., Any]
) -> None:
    done = rdmadiag("gids", "--env", "nccl", "--sample", sample)
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith(f"rdmadiag: no active RoCE port with a route GID; {why}")
