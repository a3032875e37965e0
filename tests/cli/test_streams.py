"""stdout and stderr that cannot be written to, in any locale: one line, a code, no traceback."""

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest

from lab.samples import roce_host
from rdmadiag.cli import COMMANDS, run

REPORT = Path(__file__).parents[1] / "redact" / "report.json"
PROGRAM = (sys.executable, "-m", "rdmadiag")
ARGUMENTS = {
    "preflight": ("--sample", "roce-empty-gid-table"),
    "gids": ("--sample", "roce-healthy"),
    "devices": ("--sample", "roce-healthy"),
    "counters": ("--sample", "infiniband-two-hca"),
    "resources": ("--sample", "infiniband-two-hca"),
    "capabilities": ("--sample", "infiniband-two-hca"),
    "route": ("192.0.2.2", "--sample", "infiniband-two-hca"),
    "lossless": ("--sample", "roce-healthy"),
    "topology": ("--sample", "infiniband-two-hca"),
    "deploy": (),
    "exercise": (),
    "job": (str(os.getpid()), "--interval", "0"),
    "explain": ("errno", "110"),
    "help": (),
    "pingpong": (),
    "diff": ("rdmadiag/samples/roce-healthy", "rdmadiag/samples/roce-empty-gid-table"),
    "compat": ("rdmadiag/samples/roce-healthy", "rdmadiag/samples/roce-empty-gid-table"),
    "fleet": ("merge", "-"),
    "expect": ("--sample", "roce-healthy"),
    "snapshot": ("--sample", "roce-healthy"),
    "redact": (str(REPORT),),
    "samples": (),
    "mcp": ("--tools",),
    "watch": ("--for", "0"),
    "schema": ("gids",),
}
PROCESSES = ("exercise", "fleet", "job", "mcp", "pingpong", "watch")
"""Those that start processes, or wait for input: each runs in a process of its own here."""

UNWRITABLE = {
    "full": lambda: os.open("/dev/full", os.O_WRONLY),
    "read-only": lambda: os.open("/dev/null", os.O_RDONLY),
}


def rdmadiag(
    *argv: str, environment: dict[str, str] | None = None, limit: int | None = None, **streams: int
) -> subprocess.CompletedProcess[bytes]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        (*PROGRAM, *argv),
        stdin=subprocess.DEVNULL,
        stdout=streams.get("stdout", subprocess.PIPE),
        stderr=streams.get("stderr", subprocess.PIPE),
        env=kept | (environment or {}),
        timeout=120,
        check=False,
        preexec_fn=None if limit is None else lambda: _limit(limit),
    )


def _limit(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def test_every_command_is_here() -> None:
    assert set(ARGUMENTS) == set(COMMANDS)


@pytest.mark.once
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux alone has /dev/full")
@pytest.mark.parametrize("command", [each for each in ARGUMENTS if each not in PROCESSES])
def test_a_document_that_cannot_be_written_is_one_line_and_exit_74(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    place = (str(tmp_path / "record"),) if command == "snapshot" else ()
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        code = run((command, *place, *ARGUMENTS[command]))
    said = capfd.readouterr().err
    assert (code, said.count("\n")) == (74, 1)
    assert said.startswith("rdmadiag: stdout: ")


@pytest.mark.once
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux alone has /dev/full")
@pytest.mark.parametrize(
    ("command", "kind"),
    [*((each, "full") for each in ("preflight", *PROCESSES)), ("gids", "read-only")],
)
def test_so_it_is_for_a_shell(command: str, kind: str) -> None:
    """What is left in a buffer fails a second time where the interpreter ends."""
    stdout = UNWRITABLE[kind]()
    try:
        done = rdmadiag(command, *ARGUMENTS[command], stdout=stdout)
    finally:
        os.close(stdout)
    assert done.returncode == 74
    assert done.stderr.startswith(b"rdmadiag: stdout: ")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux alone has /dev/full")
@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("--help",), 74),
        (("--version",), 74),
        (("gids", "--help"), 74),
        (("gids", "--nonsense"), 64),
        (("gids", "--nonsense", "--json"), 64),
    ],
    ids=["help", "version", "a command's help", "a mistake", "a mistake as JSON"],
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_so_is_help_and_a_failure_keeps_its_code(
    argv: tuple[str, ...], code: int, unbuffered: str
) -> None:
    with open("/dev/full", "wb") as full:
        ended = rdmadiag(*argv, stdout=full.fileno(), environment={"PYTHONUNBUFFERED": unbuffered})
        both = rdmadiag(*argv, stdout=full.fileno(), stderr=full.fileno())
    assert (ended.returncode, ended.stderr.count(b"\n")) == (code, 1)
    assert both.returncode == code


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux alone has /dev/full")
def test_a_stderr_that_takes_nothing_costs_no_document_and_no_code() -> None:
    with open("/dev/full", "wb") as full:
        done = rdmadiag("gids", "--sample", "roce-healthy", "--verbose", stderr=full.fileno())
    assert (done.returncode, done.stdout.count(b"use index 1")) == (0, 2)


def test_help_for_a_closed_pipe_ends_quietly() -> None:
    script = f"{' '.join(PROGRAM)} --help | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == (b"0\n", b"")


# --- locales -----------------------------------------------------------------------------------

ENCODINGS = ("ascii", "iso-8859-1", "utf-8")  # `make campaign` has more of them
READ: dict[str, Callable[[bytes, str], object]] = {
    "json": lambda document, encoding: json.loads(document),
    "junit": lambda document, encoding: fromstring(document),
    "prometheus": lambda document, encoding: document.decode("utf-8"),
    "nagios": lambda document, encoding: document.decode(encoding),
    "github": lambda document, encoding: document.decode(encoding),
    "text": lambda document, encoding: document.decode(encoding),
}
"""Bytes on stdout → the document, as who reads that form reads it."""


@pytest.mark.once
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("form", READ)
def test_a_document_is_whole_in_every_locale(
    form: str,
    encoding: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    roce_host().change(hostname="knoten-ü-節点-\U0001f41d").write(str(tmp_path / "x"), "far away")
    stream = TextIOWrapper(BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    code = run(("preflight", "-o", form, "--from", str(tmp_path / "x")))
    written = stream.buffer.getvalue()  # type: ignore[attr-defined]  # of the BytesIO
    assert (code, capfd.readouterr().err) == (0, "")
    document = READ[form](written, encoding)
    if form == "json":
        assert document["host"]["hostname"] == "knoten-ü-節点-\U0001f41d"  # type: ignore[index]
        # A terminal of another encoding takes bytes of UTF-8 for letters, and C1 for commands.
        assert encoding == "utf-8" or written.isascii()


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-1"])
def test_what_a_locale_lacks_is_spelt_in_ascii(encoding: str) -> None:
    argv = ("gids", "--sample", "roce-healthy")
    done = rdmadiag(*argv, environment={"PYTHONIOENCODING": encoding})
    marked = [line for line in done.stdout.splitlines() if line.startswith(b">")]
    assert [line.split()[1] for line in marked] == [b"1", b"1"]


def test_the_spelling_is_for_what_is_not_encodable_alone() -> None:
    from rdmadiag.cli.output import prepare_streams

    prepare_streams()
    assert "→ é ≥ 節 \udcff".encode("latin-1", "rdmadiag") == (
        rb"> " + "é".encode("latin-1") + rb" >= \u7bc0 \udcff"
    )


# --- limits ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -v is Linux's")
def test_too_little_memory_is_no_bug_of_ours_and_no_verdict() -> None:
    """From where Python itself starts on: what is too little for the rest ends in one line."""
    endings = set()
    for megabytes in range(40, 120, 10):
        done = rdmadiag("preflight", "--sample", "roce-healthy", limit=megabytes << 20)
        if b"rdmadiag" not in done.stderr and done.returncode and not done.stdout:
            continue  # the interpreter did not start
        assert b"Traceback" not in done.stderr, done.stderr
        assert b"a bug of ours" not in done.stderr, done.stderr
        endings.add(done.returncode)
    assert endings <= {0, 3}


# --- what this user may not do -------------------------------------------------------------------

_ORDINARY = "--bounding-set=-dac_override,-dac_read_search"


@pytest.mark.slow
@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="only root makes what it then may not read, and setpriv takes its rights",
)
def test_what_this_user_may_not_do_is_exit_77(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "file").write_text("x")
    secret = tmp_path / "secret"
    secret.write_text("x")
    for each in (closed, secret):
        os.chown(each, 65534, 65534)
        each.chmod(0o700 if each.is_dir() else 0o600)
    sample = ("--sample", "roce-healthy")
    asked = (
        ("gids", "--from", str(closed)),
        ("gids", "--from", f"{closed}/file"),
        ("gids", "--from", str(secret)),
        ("preflight", "--from", f"{closed}/x.json"),
        ("explain", "--log", str(secret)),
        ("preflight", *sample, "--expect", str(secret)),
        ("preflight", *sample, "--output", f"{closed}/x"),
        ("gids", *sample, "--env", "nccl", "--env-from", str(secret)),
        ("snapshot", *sample, f"{closed}/x"),
    )
    for argv in asked:
        ran = subprocess.run(
            ("setpriv", _ORDINARY, _ORDINARY.replace("bounding-set", "inh-caps"), *PROGRAM, *argv),
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert (ran.returncode, ran.stdout, ran.stderr.count(b"\n")) == (77, b"", 1), argv
