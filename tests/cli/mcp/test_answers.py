"""Answers of the tools: documents without evidence, without variables, and bounded."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmadiag
from rdmadiag.cli.mcp.answers import bounded, main
from rdmadiag.gid.variables import BY_NAME
from rdmadiag.samples import FOLDER

SECRET = "mlx5_s3cret"


def answer(
    capsys: pytest.CaptureFixture[str],
    tool: str,
    in_folder: str | None = FOLDER,
    **arguments: Any,
) -> dict[str, Any]:
    main(json.dumps({"tool": tool, "folder": in_folder} | arguments))
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_preflight_is_the_verdict_of_the_record(capsys: pytest.CaptureFixture[str]) -> None:
    record = "roce-empty-gid-table"
    found = answer(capsys, "preflight", record=record, devices=[], stacks=["nccl"])
    assert set(found) == {"schema_version", "tool", "generated_at", "host", "verdict"}
    assert found["host"]["recorded"] is True
    expected = rdmadiag.judge(rdmadiag.collect(sample="roce-empty-gid-table"))
    assert found["verdict"]["status"] == expected.status
    assert found["verdict"]["findings"][0]["rule"] == expected.findings[0].rule


def test_gids_are_those_of_the_device_and_the_stack(capsys: pytest.CaptureFixture[str]) -> None:
    record = "roce-healthy"
    found = answer(capsys, "gids", record=record, devices=["rxe0"], stacks=["nccl"])
    (port,) = found["ports"]
    assert (port["device"], port["route"]["index"]) == ("rxe0", 1)
    assert {each["stack"] for each in port["stacks"]} == {"nccl"}
    assert all("no variable is set" in each["assumed"][-1] for each in port["stacks"])


def test_gids_without_names_are_of_every_port_and_stack(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = answer(capsys, "gids", record="roce-healthy", devices=[], stacks=[])
    assert [port["device"] for port in found["ports"]] == ["rxe0", "rxe1"]
    assert len(found["ports"][0]["stacks"]) > 10


def test_this_host_is_meant_without_a_record(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "gids", record=None, devices=[], stacks=[])["host"]["recorded"] is False


def test_explain_says_what_a_status_means(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = answer(capsys, "explain", what="wc 12", platform=None)["answers"]
    assert found["name"] == "RETRY_EXC_ERR"


def test_an_errno_is_of_the_platform_that_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for platform, name in (("linux", "EPFNOSUPPORT"), ("darwin", "ENODATA")):
        (found,) = answer(capsys, "explain", what="errno 96", platform=platform)["answers"]
        assert name in json.dumps(found)


FAILED = (
    "[0] node7: Got completion from peer 192.0.2.7<48128> with status=12 opcode=0 len=0 "
    "vendor err 129"
)


def explained(capsys: pytest.CaptureFixture[str], top: str = FOLDER, **given: str) -> Any:
    return answer(capsys, "explain", top, **{"what": None, "platform": None, **given})


def test_a_log_is_explained_as_the_command_does(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "job.out").write_text(f"start\n{FAILED}\n")
    for found in (
        explained(capsys, text=f"start\n{FAILED}\n"),
        explained(capsys, str(tmp_path), log="job.out"),
    ):
        assert (found["first"]["completion"]["number"], found["first"]["lines"]) == (12, [2])
        assert (found["log"]["lines"], found["host"]) == (2, None)
        assert found["first"]["causes"]
    assert found["log"]["name"] == "job.out"
    assert explained(capsys, text="all is well")["first"] is None


def test_with_the_record_of_its_host_the_causes_of_a_log_are_ranked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = "ibv_modify_qp to RTR failed: errno 22 Invalid argument"
    plain = explained(capsys, text=line)
    found = explained(capsys, text=line, record="roce-empty-gid-table")
    assert {each["standing"] for each in plain["first"]["causes"]} == {"possible"}
    assert found["first"]["causes"][0]["standing"] == "confirmed"
    assert found["host"]["recorded"] is True


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "one of what, text and log"),
        ({"what": "wc 12", "text": "x"}, "one of what, text and log"),
        ({"what": "wc 12", "record": "roce-healthy"}, "record is for a log"),
        ({"log": "../job.out"}, "not the name of a record"),
        ({"log": "nothing.log"}, "no such record"),
        ({"log": "roce-healthy"}, "Is a directory"),
    ],
)
def test_what_is_no_log_is_refused(
    capsys: pytest.CaptureFixture[str], given: dict[str, str], why: str
) -> None:
    assert why in explained(capsys, **given)["refused"]


def test_diff_names_what_became_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    before, after = "roce-healthy", "roce-empty-gid-table"
    found = answer(capsys, "diff", before=before, after=after)
    assert {"before", "after", "changes"} <= set(found)
    assert any(each["kind"] == "worse" for each in found["changes"])


@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("explain", {"what": "frob", "platform": None}, "nothing that is known"),
        ("explain", {"what": " ", "platform": None}, "nothing to explain"),
        ("preflight", {"devices": ["nope"], "stacks": []}, "no RDMA device 'nope'"),
        ("preflight", {"devices": ["a:b"], "stacks": []}, "device"),
        ("preflight", {"devices": [], "stacks": ["nope"]}, "nope"),
        ("gids", {"devices": ["nope"], "stacks": []}, "no RDMA device 'nope'"),
    ],
)
def test_what_cannot_be_had_is_one_line(
    capsys: pytest.CaptureFixture[str], tool: str, arguments: dict[str, Any], why: str
) -> None:
    if tool != "explain":
        arguments = arguments | {"record": "roce-healthy"}
    found = answer(capsys, tool, **arguments)
    assert set(found) == {"refused"}
    assert why in found["refused"]
    assert "\n" not in found["refused"]


def test_so_is_a_record_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_text("[]")
    for name in ("x.json", "gone.tar.gz"):
        found = answer(capsys, "preflight", str(tmp_path), record=name, devices=[], stacks=[])
        assert name in found["refused"]


def test_no_answer_has_a_value_of_the_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in BY_NAME:
        monkeypatch.setenv(name, SECRET)
    whole = rdmadiag.collect(sample="roce-healthy")
    (tmp_path / "plain.json").write_text(whole.model_dump_json())
    document = whole.model_dump(mode="json")
    document["evidence"]["process"]["environment"] = dict.fromkeys(BY_NAME, SECRET)
    record = tmp_path / "report.json"
    record.write_text(json.dumps(document))
    # The secret would be told: the rules about variables have findings on this record.
    assert SECRET in str(rdmadiag.judge(rdmadiag.collect(record)).findings)
    top = str(tmp_path)
    for name in ("report.json", None):
        for tool in ("preflight", "gids"):
            found = answer(capsys, tool, top, record=name, devices=[], stacks=[])
            assert "host" in found
            assert SECRET not in json.dumps(found)
    for before, after in (("plain.json", "report.json"), ("report.json", None)):
        found = answer(capsys, "diff", top, before=before, after=after)
        assert "changes" in found
        assert SECRET not in json.dumps(found)


def test_a_long_answer_loses_rows_and_says_how_many() -> None:
    ports = [{"device": f"d{n}", "gids": [{"gid": "0" * 39}] * 200} for n in range(8)]
    found = bounded({"ports": ports, "verdict": {"status": "ok"}}, 4096)
    assert len(json.dumps(found)) <= 4096
    assert found["verdict"] == {"status": "ok"}
    kept = sum(len(port["gids"]) for port in found["ports"])
    gone = found["shortened"]
    assert set(gone) <= {".ports", ".ports[].gids"}
    assert kept + gone[".ports[].gids"] <= 8 * 200


def test_a_short_answer_is_whole() -> None:
    assert bounded({"ports": [1, 2, 3]}) == {"ports": [1, 2, 3]}


def test_a_long_text_is_cut() -> None:
    assert bounded({"text": "x" * 3000})["text"] == "x" * 2000 + "…"


def test_what_no_list_can_shorten_is_refused() -> None:
    found = bounded({f"name{n}": "x" * 100 for n in range(100)}, 2048)
    assert set(found) == {"refused"}


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=50),
        lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(), inner, max_size=5),
    )
)
def test_no_answer_is_longer_than_it_may_be(value: Any) -> None:
    assert len(json.dumps(bounded({"value": value}, 1024), separators=(",", ":"))) <= 1024
