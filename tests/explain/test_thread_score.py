"""The score over threads: what counts, and that a guess is never learned from its own thread."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from rdmadiag.explain.log.ranking.learned.model import NOTHING
from rdmadiag.explain.log.ranking.learned.trouble import Weights
from tests.explain.learn_model import known
from tests.explain.learned import by_others, by_stack, by_thread, fold
from tests.explain.thread_files import Row, Thread, read
from tests.explain.thread_score import (
    Case,
    cells,
    commonest,
    explained,
    grepped,
    main,
    number_of,
    part_of,
    table,
)

pytestmark = pytest.mark.once

REFUSED = "node1:1:2 [0] NCCL WARN Call to ibv_modify_qp failed with error Connection timed out"
LIMIT = Row("a-1", "memlock", "ibv_reg_mr failed, errno 12", "stated", ("mr-exhausted",))


def thread(address: str, *rows: Row, seen: bool = False, held: bool = False) -> Thread:
    return Thread(Path("a.toml"), address, "ucx", "title", held, rows, seen)


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        ("completion with status=12", "status 12"),
        ("IBV_WC_RETRY_EXC_ERR", "status IBV_WC_RETRY_EXC_ERR"),
        ("failed, errno 12", "errno 12"),
        ("ENOMEM from it", "errno ENOMEM"),
        ("error 22", "status 22"),
        ("nothing", ""),
    ],
)
def test_a_number_is_taken_as_it_is_written(lines: str, number: str) -> None:
    assert number_of(lines) == number


def test_a_label_that_is_as_true_counts() -> None:
    case = Case(thread("a", LIMIT), LIMIT, ("no-path", "mr-exhausted"), found=True, false=True)
    assert (case.named, case.first) == (True, False)


def test_the_own_thread_teaches_nothing() -> None:
    one, other = thread("a", LIMIT), thread("b", LIMIT)
    rows = [(one, LIMIT), (other, LIMIT)]
    assert [each.causes for each in commonest(rows, lambda t: t.address)] == [("memlock",)] * 2
    assert [each.causes for each in commonest(rows, lambda t: t.stack)] == [(), ()]


def test_what_teaches_is_of_other_threads_or_of_other_stacks() -> None:
    threads = list(read())[:40]
    some = known(threads)
    for by in (by_thread, by_stack):
        teaching = by_others(by, some, list)
        for each in threads[:8]:
            others = teaching(each)
            assert not [e for e in others if e.thread and by(e.thread) == by(each)]
            assert len(others) == sum(
                not e.thread or fold(by(e.thread)) != fold(by(each)) for e in some
            )


def test_a_row_is_explained_as_a_log_is() -> None:
    row = Row("a-1", "no-path", REFUSED, "stated")
    assert explained(thread("a", row), row).found
    assert grepped(thread("a", row), row).found


def test_parts_and_cells() -> None:
    noise = Row("a-2", "noise", "all is well")
    held = thread("a", LIMIT, noise, held=True)
    cases = [
        Case(held, LIMIT, ("memlock",), found=True, false=True),
        Case(held, noise, (), found=False, false=False),
    ]
    assert part_of(held) == "held apart"
    assert part_of(thread("b", seen=True, held=True)) == "known before"
    assert part_of(thread("b")) == "open"
    assert part_of(replace(held, path=Path("fresh/a.toml"))) == "fresh"
    assert part_of(replace(thread("b", seen=True), path=Path("fresh/a.toml"))) == "known before"
    assert part_of(replace(held, path=Path("exam/a.toml"))) == "exam"
    assert part_of(replace(held, path=Path("second/a.toml"))) == "second"
    assert cells("all", cases)[2:5] == ("1", "1 (100 %)", "1 (100 %)")
    assert cells("all", cases)[-2:] == ("1", "0 (0 %)")
    assert table([cells("all", cases)]).count("\n") == 2


def test_the_tables_are_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.explain.learn_model.taught", lambda _: NOTHING)
    monkeypatch.setattr("tests.explain.learn_trouble.texts", lambda _: ())
    monkeypatch.setattr("tests.explain.learn_trouble.taught", lambda _: Weights(0.0, {}))
    some = [each for each in read() if not each.seen][:4]
    monkeypatch.setattr("tests.explain.thread_score.read", lambda: some)
    some.append(replace(some[0], address="https://b", path=Path("exam/a.toml")))
    assert main(["exam"]) == 0
    assert re.search(r"\| explain, other threads, exam +\| 1 ", capsys.readouterr().out)
    assert main(["open", "rows"]) == 0
    printed = capsys.readouterr().out
    assert "explain, other stacks, open" in printed
    assert f"| {sum(part_of(each) == 'open' for each in some)} " in printed
