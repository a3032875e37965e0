"""rdmadiag counters, end to end on recorded machines and on one that moves."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from lab import counted
from lab.machine import Machine, with_counters
from rdmadiag import SCHEMA_VERSION
from rdmadiag.cli import comparing
from rdmadiag.facts import Missing, Why
from rdmadiag.host.live import LiveHost

# Children that read what a user names: tests/host/test_given_file.py, test_isolation.py.
pytestmark = pytest.mark.usefixtures("in_this_process")

Rdmadiag = Callable[..., "Outcome"]  # type: ignore[name-defined]  # noqa: F821  # tests/cli/conftest.py


def busy(machine: Machine, lost: int, uptime: float = 1000.0) -> Machine:
    """With so many packets out of sequence on the first port."""
    return (
        with_counters(machine)
        .change(uptime=uptime)
        .with_port(
            0,
            0,
            counters=counted.PORT_COUNTERS | {"port_xmit_data": 1000 * lost},
            hw_counters=counted.MLX5_COUNTERS | {"out_of_sequence": lost},
        )
    )


@pytest.fixture
def record(roce: Machine, tmp_path: Path) -> Callable[..., str]:
    """Writes the machine down; its path."""

    def written(name: str, machine: Machine) -> str:
        folder = tmp_path / name
        machine.write(str(folder), "A machine with counters.")
        return str(folder)

    return written


@pytest.fixture
def base(roce: Machine, record: Callable[..., str], rdmadiag: Rdmadiag, tmp_path: Path) -> str:
    """A saved sample of it."""
    outcome = rdmadiag("counters", "--json", "--from", record("first", busy(roce, 10)))
    assert outcome.code == 0
    path = tmp_path / "base.json"
    path.write_text(outcome.out)
    return str(path)


def test_a_record_gives_values_alone_and_says_so(
    roce: Machine, record: Callable[..., str], rdmadiag: Rdmadiag
) -> None:
    code, out, err = rdmadiag("counters", "--from", record("one", busy(roce, 10)))
    assert (code, err) == (0, "")
    assert out.startswith("2 ports, values alone: one sample shows no rise  [roce, recorded]\n")
    assert "out_of_sequence              10" in out


def test_a_saved_sample_is_compared_with_a_later_record(
    base: str, roce: Machine, record: Callable[..., str], rdmadiag: Rdmadiag
) -> None:
    later = record("later", busy(roce, 150, uptime=1060.0))
    code, out, _ = rdmadiag("counters", "--from", later, "--since", base)
    assert code == 1
    assert out.startswith("WARN  mlx5_0/1 has packets lost or out of order: out_of_sequence rose")
    found = rdmadiag("counters", "--from", later, "--since", base, "--json").document
    assert found["seconds"] == 60.0
    assert found["since"]
    assert found["verdict"]["status"] == "warn"
    assert found["verdict"]["findings"][0]["rule"] == "packets-retransmitted"
    (lost,) = [each for each in found["changes"] if each["name"] == "out_of_sequence"]
    assert (lost["event"], lost["difference"], lost["seconds"]) == ("rose", 140, 60.0)
    (sent,) = [each for each in found["changes"] if each["name"] == "port_xmit_data"]
    assert (sent["difference"], sent["amount"], sent["unit"]) == (140_000, 560_000, "bytes")


def test_a_counter_that_was_set_back_is_not_said_to_stand_still(
    base: str, roce: Machine, record: Callable[..., str], rdmadiag: Rdmadiag
) -> None:
    argv = ("counters", "--from", record("later", busy(roce, 3, uptime=1060.0)), "--since", base)
    code, out, _ = rdmadiag(*argv)
    answer, *rest = out.splitlines()
    assert code == 0
    assert "; whether out_of_sequence did is not known  [" in answer
    assert not any("10 → 3" in line for line in rest), "a note's evidence is for --verbose"
    assert any("10 → 3" in line for line in rdmadiag(*argv, "--verbose").out.splitlines())


def test_two_saved_samples_are_compared_without_a_host(
    base: str, roce: Machine, record: Callable[..., str], rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    later = tmp_path / "later.json"
    host = record("later", busy(roce, 150, uptime=1060.0))
    later.write_text(rdmadiag("counters", "--json", "--from", host).out)
    assert rdmadiag("counters", "--from", str(later), "--since", base).code == 1
    narrowed = rdmadiag(
        "counters", "--from", str(later), "--since", base, "--device", "mlx5_1", "--json"
    )
    assert (narrowed.code, narrowed.document["changes"]) == (0, [])


def test_thresholds_and_fail_on_change_the_code(
    base: str, roce: Machine, record: Callable[..., str], rdmadiag: Rdmadiag
) -> None:
    argv = ("counters", "--from", record("x", busy(roce, 150, 1060.0)), "--since", base)
    assert rdmadiag(*argv, "--threshold", "retransmissions=200").code == 0
    assert rdmadiag(*argv, "--fail-on", "critical").code == 0
    assert rdmadiag(*argv, "--exit-zero").code == 0


def test_all_shows_what_stands_still_too(
    base: str, roce: Machine, record: Callable[..., str], rdmadiag: Rdmadiag
) -> None:
    argv = ("counters", "--from", record("x", busy(roce, 150, 1060.0)), "--since", base)
    assert "VL15_dropped" not in rdmadiag(*argv).out
    assert "VL15_dropped" in rdmadiag(*argv, "--all").out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"boot_id": "1" * 36}, "roce has been started since the first sample"),
        ({"boot_id": "1" * 36, "hostname": "b"}, "of two hosts, roce and b"),
        ({"uptime": 10.0}, "the younger one"),
    ],
    ids=["another boot", "another host", "the wrong way round"],
)
def test_a_difference_that_would_be_false_is_refused_in_one_line(
    change: dict[str, object],
    said: str,
    base: str,
    roce: Machine,
    record: Callable[..., str],
    rdmadiag: Rdmadiag,
) -> None:
    later = record("x", busy(roce, 150).change(**change))
    code, out, err = rdmadiag("counters", "--from", later, "--since", base)
    assert (code, out) == (64, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_report_of_preflight_is_no_sample(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(rdmadiag("preflight", "--json", "--sample", "infiniband-two-hca").out)
    for argv in (("--from", str(path)), ("--sample", "roce-healthy", "--since", str(path))):
        code, out, err = rdmadiag("counters", *argv)
        assert (code, out) == (64, "")
        assert "reads no counters" in err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--sample", "roce-healthy", "--watch"), "a record is one sample"),
        (("--sample", "roce-healthy", "--interval", "2"), "a record is one sample"),
        (("--since", "x.json", "--watch"), "without --watch and --interval"),
        (("--since", "x.json", "--interval", "3"), "without --watch and --interval"),
        (("--count", "3"), "--count is for --watch"),
        (("--watch", "--interval", "0"), "an interval above 0"),
        (("--interval", "nan"), "is no number of seconds"),
        (("--interval", "-1"), "not in the range"),
        (("--threshold", "nothing=1"), "no threshold 'nothing'; there are:"),
        (("--threshold", "link_downed"), "is not NAME=NUMBER"),
        (("--threshold", "link_downed=many"), "is not NAME=NUMBER"),
        (("--since", "/none/there.json"), "No such file"),
        (("--since", "", "--sample", "roce-healthy"), "No such file"),
        (("--expect", "", "--sample", "roce-healthy"), "No such file"),
        (("--from", ""), "--from: names no record"),
        (("--sample", ""), "no sample ''"),
    ],
)
def test_options_that_make_no_sense_are_one_line(
    argv: tuple[str, ...], said: str, rdmadiag: Rdmadiag
) -> None:
    code, out, err = rdmadiag("counters", *argv)
    assert (code, out) == (64, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_device_that_is_not_there_is_refused(
    roce: Machine, record: Callable[..., str], rdmadiag: Rdmadiag
) -> None:
    code, _, err = rdmadiag("counters", "--from", record("x", busy(roce, 1)), "--device", "mlx5_7")
    assert (code, err) == (64, "rdmadiag: no RDMA device 'mlx5_7'; there are: mlx5_0, mlx5_1\n")


def test_a_record_of_a_version_that_read_no_counters_is_unknown(rdmadiag: Rdmadiag) -> None:
    code, out, _ = rdmadiag("counters", "--from", "tests/fixtures/rxe-no-address")
    assert code == 3
    assert "this record holds no counters" in out.splitlines()[0]


# --- a host that moves -----------------------------------------------------------------------


@pytest.fixture
def live(roce: Machine, host_in_memory: type, monkeypatch: pytest.MonkeyPatch) -> LiveHost:
    """A live host of which out_of_sequence rises by 50 whenever somebody sleeps."""
    host = host_in_memory(busy(roce, 10).recording())
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        value = 10 + 50 * len(slept)
        file = "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence"
        host.recording.files[file] = f"{value}\n".encode()
        reply = counted.MLX5_COUNTERS | {"out_of_sequence": value}
        host.recording.netlink["nldev-stat-get-0-1"] = counted.statistics(0, 1, reply)

    monkeypatch.setattr("rdmadiag.cli.comparing.over", partial(comparing.over, sleep=sleep))
    monkeypatch.setattr("rdmadiag.cli.options.LiveHost", lambda: host)
    return host


def test_two_samples_of_a_live_host_are_compared(live: LiveHost, rdmadiag: Rdmadiag) -> None:
    found = rdmadiag("counters", "--json", "--interval", "5")
    assert found.code == 1
    (lost,) = [each for each in found.document["changes"] if each["name"] == "out_of_sequence"]
    assert lost["difference"] == 50
    assert found.document["since"] is None


def test_a_watch_prints_one_document_a_line(live: LiveHost, rdmadiag: Rdmadiag) -> None:
    code, out, _ = rdmadiag("counters", "--watch", "--count", "3", "--json")
    documents = [json.loads(line) for line in out.splitlines()]
    assert code == 1
    assert [each["verdict"]["status"] for each in documents] == ["warn"] * 3
    assert all(each["schema_version"] == SCHEMA_VERSION for each in documents)


def test_a_watch_in_a_pipe_prints_one_table_below_the_other(
    live: LiveHost, rdmadiag: Rdmadiag
) -> None:
    code, out, _ = rdmadiag("counters", "--watch", "--count", "2")
    assert code == 1
    assert out.count("WARN  mlx5_0/1 has packets lost") == 2


def test_a_watch_ends_with_the_worst_code_where_it_is_interrupted(
    live: LiveHost, rdmadiag: Rdmadiag, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = comparing.over

    def interrupted(*arguments: object, **options: object) -> Iterator[object]:
        yield from genuine(arguments[0], 0.1, 1, *arguments[3:])  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr("rdmadiag.cli.comparing.over", interrupted)
    assert rdmadiag("counters", "--watch").code == 1


def test_interval_0_takes_one_sample(live: LiveHost, rdmadiag: Rdmadiag) -> None:
    found = rdmadiag("counters", "--interval", "0", "--json")
    assert found.code == 0
    assert found.document["changes"]["why"] == "not_collected"
    assert found.document["sample"]["sets"]


def test_nothing_of_an_excluded_device_is_read(live: LiveHost, rdmadiag: Rdmadiag) -> None:
    found = rdmadiag("counters", "--json", "--exclude-device", "mlx5_0")
    assert found.code == 0
    assert {each["device"] for each in found.document["sample"]["sets"]} == {"mlx5_1"}
    text = rdmadiag("counters", "--exclude-device", "mlx5_0").out
    assert "not read: mlx5_0" in text


def test_a_refused_counter_is_a_missing_with_its_reason(live: LiveHost, rdmadiag: Rdmadiag) -> None:
    file = "/sys/class/infiniband/mlx5_0/ports/1/counters/VL15_dropped"
    live.recording.refuse("read", file, Missing(Why.UNSUPPORTED, f"{file}: EINVAL"))  # type: ignore[attr-defined]
    found = rdmadiag("counters", "--json", "--interval", "0").document
    (port,) = [
        each
        for each in found["sample"]["sets"]
        if (each["source"], each["device"]) == ("port", "mlx5_0")
    ]
    assert port["refused"] == {"VL15_dropped": {"why": "unsupported", "detail": f"{file}: EINVAL"}}
    assert found["verdict"]["status"] == "ok"


# --- snapshots -------------------------------------------------------------------------------


def test_a_snapshot_carries_counters_and_those_of_excluded_devices_are_not_there(
    live: LiveHost, rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    target = tmp_path / "snapshot"
    rdmadiag("snapshot", str(target), "--exclude-device", "mlx5_1")
    found = rdmadiag("counters", "--json", "--from", str(target)).document
    why = {(e["device"], e["source"]): e["values"].get("why") for e in found["sample"]["sets"]}
    assert why["mlx5_1", "hw"] == "not_collected"
    assert why["mlx5_0", "hw"] is None
    asked = [subject for _, subject in live.asked]  # type: ignore[attr-defined]
    assert not [each for each in asked if "mlx5_1/ports/1/hw_counters" in each]
