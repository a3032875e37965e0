"""A provider that hangs costs its own answer and nothing else."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from lab.mac import Mac, ready_mac
from lab.machine import Machine
from lab.samples import roce_host
from lab.transcript import Stop, script
from rdmadiag import cli
from rdmadiag.facts.evidence import LINUX_SOURCES, MACOS_SOURCES
from rdmadiag.verbs import child

SECONDS = 7.0  # of which the query gets 4.6, and a hang counts as one after 2
BUSY = 5.0  # seconds more that a busy machine takes

Outcome = tuple[int, dict[str, Any], float]


@pytest.fixture
def preflight(
    fake_verbs: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[Mac | Machine, str], Outcome]:
    """Exit code, document and seconds of `preflight --json` on a host with the fake library."""

    def run(machine: Mac | Machine, stop: str) -> Outcome:
        layout = "darwin" if isinstance(machine, Mac) else "linux"
        devices = machine.devices() if isinstance(machine, Mac) else machine.transcribed()
        fake = fake_verbs(script(devices) + stop, layout)
        for name, value in fake.environ.items():
            monkeypatch.setenv(name, value)
        recorded = machine.host()
        recorded.verbs = lambda rows, limit: child.ask(layout, str(fake.library), rows, limit)
        monkeypatch.setattr("rdmadiag.cli.options.LiveHost", lambda: recorded)
        began = time.monotonic()
        code = cli.run(["preflight", "--json", "--timeout", str(SECONDS)])
        took = time.monotonic() - began
        return code, json.loads(capsys.readouterr().out), took

    return run


def sources_that_failed(document: dict[str, Any], own: tuple[str, ...]) -> list[str]:
    return [name for name in own if "why" in document["evidence"][name]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "how"),
    [("ibv_get_device_list", "hang"), ("ibv_open_device", "spin"), ("ibv_query_port", "hang")],
)
def test_preflight_of_a_mac_ends_in_time_and_the_rest_is_whole(
    preflight: Callable[[Mac | Machine, str], Outcome], call: str, how: str
) -> None:
    code, document, took = preflight(ready_mac(), f"on {call} {how}\n")
    assert took < SECONDS + BUSY
    assert (code, document["verdict"]["status"]) == (2, "critical")
    assert document["verdict"]["findings"][0]["rule"] == "provider-wedged"
    assert document["verdict"]["safe_to_attempt_rtr"] is False
    assert document["evidence"]["verbs"]["unanswered"]["call"] == call
    assert sources_that_failed(document, MACOS_SOURCES) == []


@pytest.mark.slow
def test_what_was_answered_before_the_hang_is_kept(
    preflight: Callable[[Mac | Machine, str], Outcome],
) -> None:
    _, document, _ = preflight(ready_mac(), "on ibv_query_device rdma_en2 hang\n")
    first, second = document["evidence"]["verbs"]["devices"]
    assert first["ports"][0]["state"] == "active"
    assert second["ports"]["why"] == "not_collected"
    (port,) = document["verdict"]["ports"]
    assert (port["device"], port["reasons"]) == ("rdma_en1", ["provider_wedged"])


@pytest.mark.slow
def test_preflight_of_linux_ends_in_time_and_the_port_is_judged_by_the_others(
    preflight: Callable[[Mac | Machine, str], Outcome],
) -> None:
    code, document, took = preflight(roce_host(), "on ibv_query_port mlx5_0 hang\n")
    assert took < SECONDS + BUSY
    assert (code, document["verdict"]["findings"][0]["rule"]) == (2, "provider-wedged")
    assert sources_that_failed(document, LINUX_SOURCES) == []
    (port,) = document["verdict"]["ports"]
    assert (port["state"], port["reasons"]) == ("active", ["provider_wedged"])


def test_a_provider_that_crashes_is_not_one_that_hangs(
    preflight: Callable[[Mac | Machine, str], Outcome],
) -> None:
    code, document, _ = preflight(ready_mac(), "on ibv_open_device rdma_en1 crash\n")
    assert (code, document["verdict"]["findings"][0]["rule"]) == (2, "provider-died")
    assert "signal 11" in document["verdict"]["findings"][0]["summary"]


def test_a_provider_that_is_slow_is_not_called_wedged(
    preflight: Callable[[Mac | Machine, str], Outcome],
) -> None:
    code, document, _ = preflight(ready_mac(), "on ibv_query_port slow=300\n")
    assert (code, document["verdict"]["status"]) == (0, "ok")


def test_the_description_and_the_fake_library_agree(
    preflight: Callable[[Mac | Machine, str], Outcome],
) -> None:
    for machine in (ready_mac(), roce_host()):
        _, document, _ = preflight(machine, "")
        from rdmadiag.render.json import text
        from rdmadiag.sources.run import gather

        described = json.loads(text(gather(machine.host(), time.monotonic() + 20).verbs))
        found = document["evidence"]["verbs"]
        for device in (*found["devices"], *described["devices"]):
            del device["extended"], device["operations"]  # tests/verbs/test_extended.py has them
        assert {**found, "library": "", "pid": 0} == {**described, "library": "", "pid": 0}


def test_a_script_may_stop_where_a_transcript_does() -> None:
    text = script(ready_mac().devices(), [Stop("ibv_query_port", "rdma_en1")])
    assert text.endswith("on ibv_query_port rdma_en1 hang\n")
