"""Why a node gave no answer."""

import pytest

from rdmadiag.fleet.node_answer import Ending, NodeAnswer, ending_of


@pytest.mark.parametrize(
    ("code", "stdout", "stderr", "ending"),
    [
        (0, b"x", b"", Ending.ANSWERED),
        (2, b"", b"", Ending.ANSWERED),
        (-9, b"x", b"", Ending.KILLED),
        (127, b"", b"bash: line 1: rdmadiag: command not found\n", Ending.NOT_INSTALLED),
        (1, b"", b"rdmadiag: Command not found.\n", Ending.NOT_INSTALLED),  # csh
        (2, b"", b"slurmstepd: error: execve(): rdmadiag: No such file or directory\n",
         Ending.NOT_INSTALLED),
        (126, b"", b'OCI runtime exec failed: exec: "rdmadiag": executable file not found in $PATH',
         Ending.NOT_INSTALLED),
        (1, b"{}", b"rdmadiag: note: command not found", Ending.ANSWERED),
        (255, b"", b"ssh: Could not resolve hostname n1: Name or service not known",
         Ending.UNREACHABLE),
        (255, b"{}", b"", Ending.ANSWERED),
    ],
)  # fmt: skip
def test_codes_and_words_of_shells_and_launchers_are_known(
    code: int, stdout: bytes, stderr: bytes, ending: Ending
) -> None:
    assert ending_of(code, stdout, stderr, by_ssh=True) is ending


def test_every_ending_but_an_answer_has_a_line_that_a_terminal_may_see() -> None:
    for ending in Ending:
        why = NodeAnswer("n1", ending, 1, b"", b"first\n\x1b[31mlast\xff \n\n").why
        assert (why is None) is (ending is Ending.ANSWERED)
        assert why is None or why.isprintable()
    lost = NodeAnswer("n1", Ending.UNREACHABLE, 255, b"", b"Connection refused\n" + b"x" * 9999)
    assert lost.why is not None
    assert len(lost.why) < 250
