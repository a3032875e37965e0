"""Exit codes: every profile, whatever happened, as a table."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.machine import Machine
from lab.samples import roce_host
from rdmadiag.cli.exits import FAILS_ON, PLAIN, PROFILES

# Children that read what a user names: tests/host/test_given_file.py, test_isolation.py.
pytestmark = pytest.mark.usefixtures("in_this_process")

Rdmadiag = Callable[..., "Outcome"]  # type: ignore[name-defined]  # noqa: F821  # tests/cli/conftest.py

TABLE = {
    # profile: ok, warn, critical, unknown, usage, bug, a document that cannot be written,
    # not permitted, a critical verdict that cannot be written, out of memory
    None: (0, 1, 2, 3, 64, 70, 74, 77, 74, 3),
    "nagios": (0, 1, 2, 3, 3, 3, 3, 3, 2, 3),
    "slurm": (0, 0, 1, 0, 0, 0, 0, 0, 1, 0),
    "npd": (0, 0, 1, 2, 2, 2, 2, 2, 1, 2),
    "k8s": (0, 0, 1, 1, 1, 1, 1, 1, 1, 1),
}
CASES = (
    *("ok", "warn", "critical", "unknown", "usage", "bug"),
    *("unwritten", "denied", "critical unwritten", "memory"),
)


@pytest.fixture
def machine(tmp_path: Path) -> Callable[[str], tuple[str, ...]]:
    """The options that give a verdict, or a mistake."""

    def options(case: str) -> tuple[str, ...]:
        if case == "warn":
            limited = roce_host().change(memlock="8388608", capabilities=0)
            limited.write(str(tmp_path / "warn"), "warned")
            return ("--from", str(tmp_path / "warn"))
        if case == "unknown":
            Machine("bare").write(str(tmp_path / "unknown"), "nothing")
            return ("--from", str(tmp_path / "unknown"))
        if case == "denied":
            return ("--sample", "roce-healthy", "--output", str(tmp_path / "denied"))
        if case == "usage":
            return ("--sample", "roce-healthy", "--nonsense")
        return ("--sample", "roce-empty-gid-table" if "critical" in case else "roce-healthy")

    return options


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("profile", TABLE, ids=str)
def test_the_code_of_each_case_in_each_profile(
    profile: str | None,
    case: str,
    machine: Callable[[str], tuple[str, ...]],
    rdmadiag: Rdmadiag,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures = {"bug": KeyError("oops"), "memory": MemoryError()}
    if case in failures:
        monkeypatch.setattr("rdmadiag.preflight.judge.judge", raising(failures[case]))
    if case == "denied":
        refused = PermissionError(errno.EPERM, "Operation not permitted")
        monkeypatch.setattr("rdmadiag.cli.output_file.replace_file", raising(refused))
    if "unwritten" in case:
        full = OSError(errno.ENOSPC, "No space left on device")
        monkeypatch.setattr("rdmadiag.cli.preflight._Shown._to", raising(full))
    options = ("--profile", profile) if profile else ()
    outcome = rdmadiag("preflight", *machine(case), *options)
    assert outcome.code == TABLE[profile][CASES.index(case)]
    went_wrong = case not in ("ok", "warn", "critical", "unknown")
    assert outcome.err.count("\n") == went_wrong, "what went wrong is said all the same"


def raising(error: Exception) -> Callable[..., None]:
    def broken(*_: object, **__: object) -> None:
        raise error

    return broken


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        SystemError("error return without exception set"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ValueError("field 'target' is required for AnnAssign"),  # of CPython's own parser
    ],
    ids=repr,
)
@pytest.mark.parametrize("also", ["", "_form_and_profile", "printing"], ids="and {}".format)
def test_too_little_memory_keeps_the_profile_s_code_whatever_fails_of_it_next(
    error: Exception, also: str, rdmadiag: Rdmadiag, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rdmadiag.preflight.judge.judge", raising(error))
    if also:
        monkeypatch.setattr(f"rdmadiag.cli.failure.{also}", raising(MemoryError()))
    outcome = rdmadiag("preflight", "--sample", "roce-healthy", "--profile", "k8s")
    assert outcome.code == TABLE["k8s"][CASES.index("memory")]
    assert outcome.err == "rdmadiag: out of memory: this process may have no more of it\n"


@pytest.mark.parametrize(
    ("profile", "fail_on", "status", "code"),
    [
        ("slurm", "warn", "warn", 1),
        ("slurm", "unknown", "unknown", 1),
        ("slurm", "unknown", "warn", 0),
        ("npd", "warn", "warn", 1),
        ("npd", "critical", "unknown", 0),
        ("k8s", "critical", "unknown", 0),
        ("nagios", "critical", "warn", 0),
        ("nagios", "critical", "critical", 2),
    ],
)
def test_what_counts_can_be_chosen_in_every_profile(
    profile: str, fail_on: str, status: str, code: int
) -> None:
    assert PROFILES[profile].code(status, fail_on) == code


def test_a_status_that_counts_has_a_code_in_every_profile() -> None:
    for profile in (*PROFILES.values(), PLAIN):
        for counts in FAILS_ON.values():
            assert counts <= set(profile.codes)
            assert all(profile.codes[each] for each in counts)


def test_exit_zero_is_stronger_than_a_profile(rdmadiag: Rdmadiag) -> None:
    sample = ("--sample", "roce-empty-gid-table")
    assert rdmadiag("preflight", *sample, "--profile", "k8s", "--exit-zero").code == 0


@pytest.mark.parametrize(
    "argv",
    [
        ("--profile=slurm",),
        ("--profile", "slurm"),
        ("--profile", "k8s", "--profile", "slurm"),
    ],
    ids=" ".join,
)
def test_a_prolog_with_a_mistake_drains_no_node(argv: tuple[str, ...], rdmadiag: Rdmadiag) -> None:
    outcome = rdmadiag("preflight", "--nonsense", *argv, "--sample", "roce-healthy")
    assert (outcome.code, outcome.err.count("\n")) == (0, 1)


@pytest.mark.parametrize(
    ("options", "code"), [(("-o", "nagios"), 3), (("-o", "nagios", "--profile", "slurm"), 0)]
)
def test_a_mistake_is_one_of_nagios_codes_where_its_form_is_asked_for(
    options: tuple[str, ...], code: int, rdmadiag: Rdmadiag
) -> None:
    outcome = rdmadiag("preflight", "--nonsense", *options)
    assert outcome.code == code
    assert outcome.out.startswith("RDMA UNKNOWN - ")


def test_a_variable_sets_the_profile_too(
    rdmadiag: Rdmadiag, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RDMADIAG_PREFLIGHT_PROFILE", "nagios")
    refused = rdmadiag("preflight", "--from", "/nowhere")
    assert refused.code == 3
    assert refused.out.startswith("RDMA UNKNOWN - /nowhere")
