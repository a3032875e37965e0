"""`rdmadiag mcp`, by the SDK's own client: in memory, and once over stdin and stdout."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from rdmadiag.cli.mcp import command, server
from rdmadiag.cli.mcp.tools import TOOLS
from rdmadiag.samples import FOLDER as SAMPLES

FAILED = "Got completion from peer 192.0.2.7<48128> with status=12 opcode=0 len=0 vendor err 129"
LONG = "\x01é" * 7900 + "\n"
"""Of letters that take six bytes each in JSON, and the most of them."""

Answer = tuple[bool, str]
"""Whether it is an error, and its text."""


def talk(
    of: Any,
    *calls: tuple[str, dict[str, Any]],
    then: Callable[[Client], Awaitable[Any]] | None = None,
) -> list[Any]:
    """What a client of the server gets for its calls."""

    async def conversation() -> list[Any]:
        async with Client(of) as client:
            found: list[Any] = []
            for name, arguments in calls:
                answer = await client.call_tool(name, arguments)
                found.append((answer.is_error, answer.content[0].text))  # type: ignore[union-attr]
            if then is not None:
                found.append(await then(client))
            return found

    return asyncio.run(conversation())


def here(seconds: float = 100.0) -> Any:
    return server.server(SAMPLES, seconds)


def test_every_tool_says_that_it_only_reads() -> None:
    (listed,) = talk(here(), then=lambda client: client.list_tools())
    assert {tool.name: tool.description for tool in listed.tools} == TOOLS
    for tool in listed.tools:
        assert tool.annotations.read_only_hint is True
        assert tool.annotations.destructive_hint is False


def test_a_client_asks_each_tool() -> None:
    records, verdict, table, meaning, failed = talk(
        here(),
        ("records", {}),
        ("preflight", {"record": "mac-wedged"}),
        ("gids", {"record": "roce-healthy", "devices": ["rxe0:1"], "stacks": ["ucx"]}),
        ("explain", {"what": "errno 110", "platform": "linux"}),
        ("explain", {"text": LONG + FAILED, "record": "roce-healthy"}),
    )
    assert not any(is_error for is_error, _ in (records, verdict, table, meaning, failed))
    assert json.loads(failed[1])["first"]["completion"]["name"] == "RETRY_EXC_ERR"
    assert "roce-healthy" in json.loads(records[1])["records"]
    assert json.loads(verdict[1])["verdict"]["status"] == "critical"
    assert json.loads(table[1])["ports"][0]["route"]["index"] == 1
    assert json.loads(meaning[1])["answers"][0]["name"] == "ETIMEDOUT"


def test_what_is_refused_is_told_in_one_line() -> None:
    outside, unknown, long = talk(
        here(),
        ("preflight", {"record": "../roce-healthy"}),
        ("explain", {"what": "frob"}),
        ("explain", {"what": "x" * 201}),
    )
    assert outside[0]
    assert "not the name of a record" in outside[1]
    assert unknown[0]
    assert "nothing that is known" in unknown[1]
    assert long[0]


def test_without_a_folder_there_is_this_host_alone() -> None:
    records, refused = talk(
        server.server(None), ("records", {}), ("diff", {"before": "roce-healthy"})
    )
    assert json.loads(records[1]) == {"records": [], "logs": [], "more": False}
    assert refused[0]
    assert "without --records" in refused[1]


def test_a_call_ends_at_its_deadline() -> None:
    (late,) = talk(here(seconds=0.05), ("preflight", {"record": "roce-healthy"}))
    assert late[0]
    assert "deadline" in late[1]


def test_no_call_starts_after_its_deadline() -> None:
    (late,) = talk(here(seconds=0.0), ("preflight", {"record": "roce-healthy"}))
    assert late[0]
    assert "deadline had passed" in late[1]


def test_a_child_that_answers_nothing_is_a_bug_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_CHILD", "raise SystemExit('boom')")
    (failed,) = talk(here(), ("explain", {"what": "wc 12"}))
    assert failed[0]
    assert "a bug of ours, exit 1: boom" in failed[1]


@pytest.mark.slow
def test_a_client_asks_each_tool_on_stdin_and_stdout() -> None:
    arguments = ["-m", "rdmadiag", "mcp", "--records", SAMPLES]
    started = stdio_client(StdioServerParameters(command=sys.executable, args=arguments))
    before, after = "roce-healthy", "roce-empty-gid-table"
    records, verdict, table, meaning, refused, changed, listed = talk(
        started,
        ("records", {}),
        ("preflight", {"record": after}),
        ("gids", {"record": before, "devices": ["rxe0"], "stacks": ["nccl"]}),
        ("explain", {"what": "wc 12"}),
        ("explain", {"what": "rule"}),
        ("diff", {"before": before, "after": after}),
        then=lambda client: client.list_tools(),
    )
    assert {before, after} <= set(json.loads(records[1])["records"])
    assert json.loads(verdict[1])["verdict"]["status"] == "critical"
    assert json.loads(table[1])["ports"][0]["route"]["index"] == 1
    assert json.loads(meaning[1])["answers"][0]["name"] == "RETRY_EXC_ERR"
    assert refused[0]
    assert "worse" in {each["kind"] for each in json.loads(changed[1])["changes"]}
    assert [tool.name for tool in listed.tools] == list(TOOLS)


def test_records_that_are_not_there_are_one_line_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name, why in (("nosuch", "No such file or directory"), ("file", "is no folder")):
        done = subprocess.run(
            [sys.executable, "-m", "rdmadiag", "mcp", "--records", str(tmp_path / name)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stdout) == (64, "")
        assert done.stderr == f"rdmadiag: --records {tmp_path / name}: {why}\n"


def test_the_tools_are_listed_without_the_sdk() -> None:
    script = (
        "import sys; sys.modules['mcp'] = None\n"
        "from rdmadiag.cli import run\n"
        "sys.exit(run(sys.argv[1:]))"
    )
    listed, refused = (
        subprocess.run(
            [sys.executable, "-c", script, "mcp", *options],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        for options in (("--tools",), ())
    )
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == list(TOOLS)
    assert (refused.returncode, refused.stdout) == (64, "")
    assert refused.stderr.count("\n") == 1
    assert "pip install 'rdmadiag[mcp]'" in refused.stderr


def test_a_folder_that_is_none_is_told_with_each_answer_about_it() -> None:
    listed, here_alone = talk(
        server.server("/nowhere"), ("records", {}), ("explain", {"what": "wc 12"})
    )
    assert listed[0]
    assert "'/nowhere': no such folder" in listed[1]
    assert not here_alone[0]


def test_a_folder_without_a_name_is_a_mistake() -> None:
    done = CliRunner().invoke(command, ["--records", ""], standalone_mode=False)
    assert "names no folder" in str(done.exception)


def test_the_command_serves_what_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[str | None] = []
    monkeypatch.setattr(server, "serve", served.append)
    assert CliRunner().invoke(command, [], standalone_mode=False).return_value == 0
    CliRunner().invoke(command, ["--records", SAMPLES], standalone_mode=False)
    assert served == [None, SAMPLES]
