"""The whole run with --cm on recorded machines: what the preflight says, and which address."""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.mac import ready_mac
from lab.machine import Machine
from lab.netdevs import NetDev
from lab.samples import infiniband_host, roce_host
from lab.transcript import script
from rdmadiag.facts.attempt import Outcome, Stage
from rdmadiag.facts.ib import QpType
from rdmadiag.preflight.candidate import Wanted
from rdmadiag.preflight.safety import Reason
from rdmadiag.render.json import text
from rdmadiag.render.pingpong import document
from rdmadiag.verbs import attempt as subject
from rdmadiag.verbs import child, watchdog
from rdmadiag.verbs.attempt import Meeting, Result
from rdmadiag.view.select import Selector
from tests.schema.described import assert_described

IPOIB = NetDev(
    "ib0",
    mac="00:00:11:c6:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:00:00:01",
    addresses=("203.0.113.5/24",),
)
"""The GID of infiniband_host's first port is fe80::c42:a103:0:1."""
IWARP = roce_host().with_device(node_type="4: RNIC", protocol="iw")
ADDRESSES = "address 192.0.2.10 mlx5_0 1\naddress 203.0.113.5 mlx5_0 1\n"

Run = Callable[..., "Came"]


class Came:
    """What came of a run."""

    def __init__(self, result: Result, calls: list[str]) -> None:
        self.result = result
        self.calls = calls

    @property
    def ended(self) -> tuple[Outcome, Stage]:
        return self.result.attempt.outcome, self.result.attempt.stage

    @property
    def document(self) -> dict[str, Any]:
        """As JSON, held to its schema."""
        found: dict[str, Any] = json.loads(text(document(self.result)))
        return found


@pytest.fixture
def run(fake_cm: Any, host_in_memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(
        watchdog, "program", lambda module: [sys.executable, "-m", f"rdmadiag.verbs.{module}"]
    )

    def attempt(
        machine: Machine,
        cm_rules: str = "",
        selectors: tuple[Selector, ...] = (),
        meeting: Meeting | None = None,
        seconds: float = 8.0,
        **wanted: Any,
    ) -> Came:
        fake = fake_cm(script(machine.transcribed()), ADDRESSES + cm_rules)
        node = tmp_path / "rdma_cm"
        node.touch()
        monkeypatch.setattr(child, "LIBRARY", {"linux": str(fake.verbs.library)})
        monkeypatch.setattr(child, "CM_LIBRARY", str(fake.library))
        monkeypatch.setattr(child, "CM_NODE", str(node))
        for name, value in fake.environ.items():
            monkeypatch.setenv(name, value)
        result = subject.run(
            host_in_memory(machine.recording(), "linux"),
            Wanted(**{"payload_bytes": 64, "iterations": 10, "by_cm": True} | wanted),
            selectors,
            meeting,
            None,
            time.monotonic(),
            seconds,
            lambda record: None,
        )
        return Came(result, fake.calls)

    return attempt


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param(roce_host(), id="RoCE"),
        pytest.param(IWARP, id="iWARP"),
        pytest.param(infiniband_host().change(netdevs=(IPOIB,)), id="InfiniBand with IPoIB"),
    ],
)
def test_a_healthy_host_verifies_data_both_ways(run: Run, machine: Machine) -> None:
    came = run(machine, selectors=(Selector("mlx5_0"),))
    assert came.ended == (Outcome.VERIFIED, Stage.DONE)
    assert came.result.accepted == ()


def test_a_port_without_an_address_is_refused(run: Run) -> None:
    came = run(infiniband_host())
    assert came.ended == (Outcome.NOT_SAFE, Stage.PREFLIGHT)
    assert came.result.chosen[0].blocking == (Reason.NO_IP_ADDRESS,)
    assert came.calls == []


def test_iwarp_is_looked_at_like_any_other_port(run: Run) -> None:
    came = run(IWARP.change(nodes={}))
    assert came.ended == (Outcome.NOT_SAFE, Stage.PREFLIGHT)
    assert came.result.chosen[0].blocking == (Reason.UVERBS_NODE_MISSING,)
    came = run(IWARP.change(nodes={}), by_cm=False)
    assert came.result.chosen[0].blocking == (Reason.IWARP_NEEDS_RDMA_CM,)


def test_a_mac_has_no_connection_manager(host_in_memory: Any) -> None:
    mac = host_in_memory(ready_mac().recording(), "darwin")
    wanted = Wanted(64, 10, qp_type=QpType.RC, by_cm=True)
    now = time.monotonic()
    result = subject.run(mac, wanted, (), None, None, now, 5.0, lambda record: None)
    assert (result.attempt.outcome, result.attempt.stage) == (Outcome.NOT_SAFE, Stage.GATE)


@pytest.mark.parametrize(
    ("near", "host", "address"),
    [
        ("192.0.2.10", "192.0.2.20", ""),  # what the kernel would take: it may
        ("198.51.100.1", "198.51.100.20", "192.0.2.10"),  # by another netdev: bound to this one
        (None, "198.51.100.20", ""),  # no route: the kernel is to say so
        (None, "peer.example", "192.0.2.10"),
    ],
)
def test_the_source_is_bound_where_the_kernel_would_take_another(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    near: str | None,
    host: str,
    address: str,
) -> None:
    sent: list[Any] = []
    watch = subject.watch

    def seen(request: Any, *arguments: Any) -> Any:
        sent.append(request)
        return watch(request, *arguments)

    monkeypatch.setattr(subject, "watch", seen)
    run(roce_host(), meeting=Meeting("connect", host, 4711, 1.0, near))
    assert sent[0].addresses == (address,)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "outcome"),
    [
        ("", Outcome.VERIFIED),
        ("instead ESTABLISHED REJECTED 8\n", Outcome.CM_EVENT),
        ("instead ADDR_RESOLVED ADDR_ERROR -110\n", Outcome.CM_EVENT),
        ("drop ROUTE_RESOLVED\n", Outcome.NO_EVENT),
    ],
)
def test_every_outcome_is_a_document_of_one_shape(run: Run, rules: str, outcome: Outcome) -> None:
    came = run(roce_host(), rules, seconds=8.0)
    found = came.document
    assert found["outcome"] == outcome
    host = {"hostname": "h", "platform": "linux", "kernel": "6", "machine": "x86_64"}
    head = {"schema_version": "1.1", "tool": {"name": "rdmadiag", "version": "0"}}
    when = {"generated_at": "2026-01-01T00:00:00Z"}
    more = {"host": host | {"recorded": False, "sample": None}}
    assert_described(head | when | more | found)
    assert found["connection"]["steps"]
    assert (found["connection"]["event"] is not None) is (outcome is Outcome.CM_EVENT)


def test_two_ports_of_one_host_may_be_the_two_ends(run: Run) -> None:
    machine = replace(infiniband_host(), netdevs=(IPOIB,))
    came = run(machine, selectors=(Selector("mlx5_0"), Selector("mlx5_1")))
    assert came.ended == (Outcome.NOT_SAFE, Stage.PREFLIGHT)  # the second has no address


# --- datagrams ---------------------------------------------------------------------------

UD = {"qp_type": QpType.UD}
GROUP = "239.255.7.7"


@pytest.mark.parametrize(
    ("machine", "wanted", "said"),
    [
        pytest.param(IWARP, UD, "iWARP has RC queue pairs alone", id="iWARP"),
        pytest.param(
            IWARP, UD | {"group": GROUP}, "iWARP has RC queue pairs alone", id="a group of iWARP"
        ),
        pytest.param(
            roce_host(), UD | {"payload_bytes": 4097}, "--bytes 4096 is the most", id="too long"
        ),
        pytest.param(
            infiniband_host().change(netdevs=(IPOIB,)),
            UD | {"group": "ff12::7"},
            "no IPv6 address leads to mlx5_0/1, and the group is of IPv6",
            id="a group of another family",
        ),
    ],
)
def test_what_no_datagram_can_do_is_refused_before_anything_is_made(
    run: Run, machine: Machine, wanted: dict[str, Any], said: str
) -> None:
    came = run(machine, selectors=(Selector("mlx5_0"),), **wanted)
    assert came.ended == (Outcome.NOT_SAFE, Stage.PREFLIGHT)
    assert said in came.result.attempt.summary
    assert came.calls == []


def test_members_are_given_an_address_of_the_groups_family(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    watch = subject.watch

    def noting(request: Any, *more: Any) -> Any:
        sent.append(request)
        return watch(request, *more)

    monkeypatch.setattr(subject, "watch", noting)
    run(roce_host(), selectors=(Selector("mlx5_0"),), group=GROUP, **UD)
    assert sent[0].group == GROUP
    assert sent[0].members == ("192.0.2.10", "192.0.2.10")
