"""rdmadiag exercise, as far as it comes on a host without a device."""

from collections.abc import Callable

import pytest

Rdmadiag = Callable[..., "Outcome"]  # type: ignore[name-defined]  # noqa: F821  # tests/cli/conftest.py


def test_without_leave_nothing_is_looked_at(rdmadiag: Rdmadiag) -> None:
    code, out, err = rdmadiag("exercise")
    assert (code, err) == (3, "")
    assert out.startswith("NOT ATTEMPTED  ")
    assert "--allow-rtr" in out
    document = rdmadiag("exercise", "--json").document
    assert (document["outcome"], document["cells"], document["touched"]) == (
        "not_allowed",
        [],
        False,
    )


def test_leave_is_not_taken_from_a_variable(
    rdmadiag: Rdmadiag, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RDMADIAG_EXERCISE_ALLOW_RTR", "1")
    assert rdmadiag("exercise").code == 3


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (["--only", "send,fly"], "fly"),
        (["--qp", "dc"], "dc"),
        (["--only", "read", "--qp", "ud"], "read"),
        (["--device", "a", "--device", "b", "--device", "c"], "--device"),
        (["--accept-risk", "nonsense"], "nonsense"),
        (["--listen", "192.0.2.1", "192.0.2.2"], "--listen"),
        (["--listen", "0.0.0.0"], "never all of them"),
        (["--device", "a", "--device", "b", "192.0.2.2"], "--device"),
        (["--secret-file", "/nonexistent/secret", "192.0.2.2"], "/nonexistent/secret"),
        ([""], "empty"),
    ],
    ids=[
        "an operation",
        "a type",
        "no cell at all",
        "three devices",
        "a risk",
        "both ways to meet",
        "every address",
        "two devices and a peer",
        "a secret that is not there",
        "no address",
    ],
)
def test_what_makes_no_sense_is_one_line(argv: list[str], word: str, rdmadiag: Rdmadiag) -> None:
    code, _, err = rdmadiag("exercise", "--allow-rtr", *argv)
    assert (code, err.count("\n")) == (64, 1)
    assert word in err
