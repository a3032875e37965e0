"""The corpus is read as well as was promised: `make score` prints the table."""

import re
from pathlib import Path

import pytest

from rdmadiag.explain.causes import CAUSES
from rdmadiag.explain.kernel_messages import MESSAGES
from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.recognition.signs import SIGNS, drivers
from tests.explain.score import (
    AS_OK,
    CORPORA,
    FOLDER,
    excerpts,
    holds,
    main,
    read,
    score,
)

pytestmark = pytest.mark.once

ALL = [(name, each) for name in CORPORA for each in read(FOLDER / f"{name}.txt")]
FAILING = [each for _, each in ALL if each.causes]
OF_THREADS = [each for each in read(FOLDER / "public_threads.txt") if each.fails]
NOISE = [each for _, each in ALL if not each.fails]


def test_the_corpus_is_large_enough() -> None:
    assert len(FAILING) >= 120
    assert len(NOISE) >= 185 + 100
    assert len(OF_THREADS) >= 60
    assert len({each.name for _, each in ALL}) == len(ALL)


def test_few_failures_of_public_threads_pass_as_ok() -> None:
    passed = [each.name for each in OF_THREADS if score(each).as_ok]
    assert len(passed) <= AS_OK * len(OF_THREADS)


def test_every_label_of_the_corpus_is_in_the_registry() -> None:
    assert {label for each in FAILING for label in each.causes} <= set(CAUSES)


def test_every_line_of_noise_is_noise_among_failures_too() -> None:
    """Nothing is found in noise because failures stand around it."""
    noise = b"".join(each.log for each in NOISE)
    failing = next(each for each in FAILING if each.name == "nccl-rtr-110-new")
    alone, among = score(failing), score(type(failing)("both", failing.labels, noise + failing.log))
    assert [f.text for f in among.account.failures] == [f.text for f in alone.account.failures]
    assert among.account.unknown == ()


@pytest.mark.slow
def test_the_limits_are_kept_over_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Of failures most causes named and first, few as OK; nothing in noise."""
    assert main([]) == 0
    out = capsys.readouterr().out
    assert all(f"| {name} " in out for name in (*CORPORA, "all"))
    assert "false finding" not in out


def test_other_corpora_are_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.txt"
    other.write_text(
        "#= wrong errno=110 stage=rtr causes=memlock\nibv_modify_qp failed: errno 110\n"
        "#= noise\nibv_reg_mr failed: errno 12\n"
    )
    assert main([str(other)]) == 1
    out = capsys.readouterr().out
    assert re.search(r"^missed +wrong: memlock -> peer-unreachable", out, re.MULTILINE)
    assert re.search(r"^false finding +noise:", out, re.MULTILINE)


def test_a_corpus_is_read_with_its_labels_and_its_escapes() -> None:
    first, second = excerpts("# remark\n#= a tool=x causes=p,q\nl1\n#=esc \\x1b[1m\n#= b\nl2\n")
    assert (first.name, first.causes, first.log) == ("a", ("p", "q"), b"l1\n\x1b[1m\n")
    assert (second.name, second.causes, second.log) == ("b", (), b"l2\n")
    assert holds([])


def test_signs_have_words_that_are_labels_and_causes() -> None:
    for row in SIGNS:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", row.word)
        assert row.causes or row.kind is Kind.NOTE


def test_the_signs_of_the_kernel_log_have_their_wordings_in_its_table() -> None:
    words = {row.sign for row in MESSAGES if row.sign}
    assert words == {row.word for row in drivers.SIGNS}
