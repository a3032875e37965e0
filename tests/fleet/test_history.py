"""What is kept of merges, and that nothing of it is lost, doubled or half there."""

import multiprocessing
import os
import signal
import sqlite3
import stat
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import Missing, Why
from rdmadiag.fleet.history import (
    DAY,
    Change,
    HistoryError,
    PairFigures,
    Past,
    Said,
    Seen,
    add,
    past,
    span,
)
from rdmadiag.host.history_file import history_file
from rdmadiag.preflight.verdict import Status

START = 1_790_000_000
GONE = Missing(Why.DENIED, "EACCES")
OK, WARN, CRITICAL = Status.OK, Status.WARN, Status.CRITICAL


def said(status: Status | None = OK, *reasons: str, odd=None, pairs=None, **facts) -> Said:
    return Said(status, reasons, odd or {}, {"kernel": "6.1", **facts}, pairs)


def added(path: Path, day: float, merge: dict[str, Said]) -> bool:
    with history_file(str(path), 20, create=True) as connection:
        return add(connection, START + int(day * DAY), merge)


def asked(path: Path, *nodes: str) -> dict[str, Past]:
    with history_file(str(path), 20, create=False) as connection:
        return past(connection, nodes)


def rows(path: Path, table: str) -> int:
    with history_file(str(path), 20, create=False) as connection:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "fleet.db"


def test_what_was_added_comes_back_in_the_order_of_time(file: Path) -> None:
    assert added(file, 0, {"n1": said(), "n2": said(WARN, "arp-flux")})
    assert added(file, 1, {"n1": said(CRITICAL, "link-not-up", odd={"kernel": "5.4"})})
    found = asked(file, "n1", "n2", "n3")
    assert sorted(found) == ["n1", "n2"]
    assert found["n1"].seen == (
        Seen(START, OK, (), {}),
        Seen(START + DAY, CRITICAL, ("link-not-up",), {"kernel": "5.4"}),
    )
    assert found["n2"].seen == (Seen(START, WARN, ("arp-flux",), {}),)


def test_a_node_that_never_reported_was_in_the_merge(file: Path) -> None:
    added(file, 0, {"n1": said()})
    added(file, 1, {"n1": Said(None, ("never_reported",), {}, {})})
    assert [each.status for each in asked(file, "n1")["n1"].seen] == [OK, None]
    added(file, 2, {"n1": said()})
    assert asked(file, "n1")["n1"].changes == ()


def test_what_stays_as_it_is_takes_no_row(file: Path) -> None:
    every = {f"n{at}": said() for at in range(50)}
    for day in range(10):
        added(file, day, every)
    assert (rows(file, "said"), rows(file, "changes"), rows(file, "member_sets")) == (50, 0, 1)
    assert len(asked(file, "n7")["n7"].seen) == 10


def test_merges_of_others_say_nothing_of_a_node(file: Path) -> None:
    added(file, 0, {"n1": said(), "n2": said()})
    added(file, 1, {"n2": said(CRITICAL)})
    added(file, 2, {"n1": said(), "n2": said()})
    found = asked(file, "n1", "n2")
    assert [each.at for each in found["n1"].seen] == [START, START + 2 * DAY]
    assert [each.status for each in found["n2"].seen] == [OK, CRITICAL, OK]


def test_the_same_merge_again_is_not_another_one(file: Path) -> None:
    merge = {"n1": said(), "n2": said(WARN, "x")}
    assert added(file, 0, merge)
    assert not added(file, 0, merge)
    assert added(file, 0, {**merge, "n2": said(WARN, "y")})
    assert rows(file, "runs") == 2


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ({"firmware": "28"}, {"firmware": "29"}, ("firmware", "28", "29")),
        ({"firmware": "28"}, {"firmware": GONE}, None),
        ({"firmware": GONE}, {"firmware": "28"}, ("firmware", "(not there)", "28")),
        ({"firmware": "28"}, {}, None),
        (
            {"variable.NCCL_DEBUG": "INFO"},
            {},
            ("variable.NCCL_DEBUG", "INFO", "(not set)"),
        ),
        ({"variable.NCCL_DEBUG": "INFO"}, {"variables": GONE}, None),
        (
            {"adapters": "2", "adapter[1].name": "mlx5_1"},
            {"adapters": "2", "adapter[1].name": GONE},
            None,
        ),
    ],
    ids=[
        "another value",
        "one that cannot be read any more is no change",
        "one that was not known before",
        "a fact that an older version does not report is no change",
        "a variable that is not set any more",
        "variables that cannot be read are no change",
        "nor is an adapter's name",
    ],
)
def test_what_changed_between_two_merges(file: Path, before, after, change) -> None:
    added(file, 0, {"n1": said(**before)})
    added(file, 1, {"n1": said(**after)})
    expected = () if change is None else (Change(START + DAY, *change),)
    assert asked(file, "n1")["n1"].changes == expected


def test_a_value_stays_known_while_it_cannot_be_read(file: Path) -> None:
    for day, value in enumerate(["28", GONE, "28", GONE, "29"]):
        added(file, day, {"n1": said(firmware=value)})
    assert asked(file, "n1")["n1"].changes == (Change(START + 4 * DAY, "firmware", "28", "29"),)


def test_an_adapter_that_is_lost_and_comes_back(file: Path) -> None:
    whole = {"adapters": "2", "adapter[0].name": "a", "adapter[1].name": "b"}
    lost = {"adapters": "1", "adapter[0].name": "a"}
    for day, facts in enumerate([whole, lost, lost, whole]):
        added(file, day, {"n1": said(**facts)})
    assert [(each.at, each.fact, each.after) for each in asked(file, "n1")["n1"].changes] == [
        (START + DAY, "adapter[1].name", "(not there)"),
        (START + DAY, "adapters", "1"),
        (START + 3 * DAY, "adapter[1].name", "b"),
        (START + 3 * DAY, "adapters", "2"),
    ]


def test_nodes_of_several_kinds_keep_their_own(file: Path) -> None:
    kinds = [{f"f{kind}.{at}": str(at) for at in range(20)} for kind in range(3)]
    before = {f"n{at}": said(**kinds[at % 3], own=str(at)) for at in range(30)}
    after = {f"n{at}": said(**kinds[(at + 1) % 3], own=str(at)) for at in range(30)}
    added(file, 0, before)
    assert rows(file, "bases") == 3
    added(file, 1, after)
    added(file, 2, {name: said(**dict(each.facts) | {"own": "x"}) for name, each in after.items()})
    found = asked(file, *before)
    for name, past_of in found.items():
        last = [each for each in past_of.changes if each.at == START + 2 * DAY]
        assert [(each.fact, each.before, each.after) for each in last] == [("own", name[1:], "x")]


TEXTS = st.sampled_from(["", "1", "2", GONE])
FACTS = st.fixed_dictionaries(
    {"kernel": st.just("6.1")},
    optional={
        **{f"f{at}": TEXTS for at in range(5)},
        "adapters": TEXTS,
        "adapter[1].name": TEXTS,
        "variable.NCCL_DEBUG": TEXTS,
        "variables": st.just(GONE),
    },
)


def followed(days: list[dict[str, str | Missing]]) -> list[tuple[int, str, str, str]]:
    """The changes of a node by the words of the module, on plain dictionaries."""
    known: dict[str, str] = {}
    found = []
    for day, facts in enumerate(days):
        now = {name: text for name, text in facts.items() if isinstance(text, str)}
        for name in known.keys() - facts.keys():
            if name.startswith("variable.") and "variables" not in facts:
                now[name] = "(not set)"
            if name.startswith("adapter[") and isinstance(facts.get("adapters"), str):
                now[name] = "(not there)"
        if known:
            found += [
                (day, name, known.get(name, "(not there)"), now[name])
                for name in sorted(now)
                if known.get(name, "(not there)") != now[name]
            ]
        known |= now
        known = {name: text for name, text in known.items() if text != "(not there)"}
    return found


@given(st.lists(st.tuples(FACTS, FACTS), min_size=1, max_size=6))
def test_changes_are_those_of_the_facts_that_are_known(days) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for day, (one, other) in enumerate(days):
            merge = {"n1": Said(OK, (), {}, one), "n2": Said(OK, (), {}, other)}
            add(connection, START + day * DAY, merge)
        found = past(connection, ["n1", "n2"])
    for node, seen in zip(("n1", "n2"), zip(*days, strict=True), strict=True):
        changes = [
            ((each.at - START) // DAY, each.fact, each.before, each.after)
            for each in found[node].changes
        ]
        assert changes == followed(list(seen))


def test_figures_of_pairs_are_kept_when_they_are_news(file: Path) -> None:
    for day, (failed, gbps) in enumerate(
        [(0, 390.0), (0, 385.0), (0, 340.0), (1, 341.0), (1, 0.0)]
    ):
        figures = PairFigures(3, failed, 2.1, gbps)
        added(file, day, {"n1": said(pairs=figures)})
    assert [(at, each.failed, each.gbps) for at, each in asked(file, "n1")["n1"].pairs] == [
        (START, 0, 390.0),
        (START + 2 * DAY, 0, 340.0),
        (START + 3 * DAY, 1, 341.0),
        (START + 4 * DAY, 1, 0.0),
    ]


def test_a_merge_of_the_same_day_counts_as_of_the_newest_and_an_older_one_is_refused(
    file: Path,
) -> None:
    added(file, 5, {"n1": said()})
    assert added(file, 4.5, {"n1": said(WARN)})
    assert [each.at for each in asked(file, "n1")["n1"].seen] == [START + 5 * DAY] * 2
    with pytest.raises(HistoryError, match="in the order of their times"):
        added(file, 3, {"n1": said(CRITICAL)})
    assert rows(file, "runs") == 2


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["a", "b", "c\udc80", "d"]),
            st.tuples(
                st.sampled_from([OK, WARN, CRITICAL, None]), st.sampled_from(["x", "y", "\udc80"])
            ),
        ),
        max_size=8,
    )
)
def test_every_merge_that_was_added_is_found_as_it_was(tmp_path_factory, merges) -> None:
    file = tmp_path_factory.mktemp("h") / "fleet.db"
    kept = []
    for day, merge in enumerate(merges):
        now = {node: said(status, reason) for node, (status, reason) in merge.items()}
        assert added(file, day, now)
        kept.append(merge)
    if not kept:
        return
    found = asked(file, "a", "b", "c\udc80", "d")
    for node in ("a", "b", "c\udc80", "d"):
        expected = [
            (START + day * DAY, *merge[node]) for day, merge in enumerate(kept) if node in merge
        ]
        seen = found[node].seen if node in found else ()
        assert [(each.at, each.status, each.reasons[0]) for each in seen] == expected


# --- the file ---------------------------------------------------------------------------


def test_a_new_file_is_for_its_owner_alone(file: Path) -> None:
    old = os.umask(0)
    try:
        added(file, 0, {"n1": said()})
    finally:
        os.umask(old)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in file.parent.iterdir()] == ["fleet.db"]


def refusal(use: Callable[[], object]) -> str:
    """What is said against it; "" where it goes."""
    try:
        use()
    except HistoryError as error:
        return str(error)
    return ""


def _foreign(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as connection:
        for each in statements:
            connection.execute(each)
    connection.close()


OWN = "PRAGMA application_id = 1919184225"  # 0x72646D61


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_bytes(b"<html>" * 999), "no history"),
        (lambda path: path.write_text("{}"), "no history"),
        (lambda path: _foreign(path, "CREATE TABLE t (a)"), "no history of rdmadiag's"),
        (lambda path: _foreign(path, OWN, "CREATE TABLE t (a)"), "of version 0"),
        (
            lambda path: _foreign(path, OWN, "PRAGMA user_version = 2", "CREATE TABLE t (a)"),
            "of version 2, and this rdmadiag reads 1",
        ),
        (
            lambda path: _foreign(path, OWN, "PRAGMA user_version = 1", "CREATE TABLE t (a)"),
            "other tables",
        ),
    ],
    ids=[
        "bytes of something else",
        "a short text",
        "another program's database",
        "of no version",
        "of a later version",
        "of other tables",
    ],
)
def test_foreign_files_are_refused_in_one_line_and_stay_as_they_are(
    file: Path, make, message: str
) -> None:
    make(file)
    before = file.read_bytes()
    for use in (lambda: added(file, 0, {"n1": said()}), lambda: asked(file, "n1")):
        with pytest.raises(HistoryError, match=message) as caught:
            use()
        assert "\n" not in str(caught.value)
    assert file.read_bytes() == before


def test_a_trigger_in_the_file_is_refused_and_does_not_run(file: Path) -> None:
    added(file, 0, {"n1": said()})
    _foreign(file, "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM nodes; END")
    with pytest.raises(HistoryError, match="other tables"):
        added(file, 1, {"n2": said()})
    assert rows(file, "nodes") == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE said SET status = 'splendid'",
        "UPDATE said SET reasons = '{'",
        "UPDATE said SET reasons = replace(hex(zeroblob(30000)), '0', '[')",
        "UPDATE said SET odd = '[]'",
        "UPDATE runs SET at = 'soon'",
        "UPDATE runs SET at = 9e15",
        "UPDATE member_sets SET bits = 5",
        "UPDATE pairs SET gbps = 'fast'",
        "UPDATE said SET status = CAST(x'ff' AS TEXT)",
    ],
)
def test_values_of_another_shape_are_refused_in_one_line(file: Path, statement: str) -> None:
    added(file, 0, {"n1": said(pairs=PairFigures(1, 0, 1.0, 2.0))})
    _foreign(file, statement)
    refused = refusal(lambda: asked(file, "n1"))
    assert refused or asked(file, "n1")["n1"].seen == ()  # a set of members that has none
    assert "\n" not in refused


@pytest.mark.slow
def test_facts_that_unpack_to_no_end_are_refused(file: Path) -> None:
    import zlib

    added(file, 0, {"n1": said()})
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE bases SET packed = ?", (zlib.compress(bytes(1 << 27)),))
    connection.close()
    start = time.monotonic()
    with pytest.raises(HistoryError):
        added(file, 1, {"n1": said(firmware="29")})
    assert time.monotonic() - start < 20
    assert rows(file, "runs") == 1


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_file_is_one_line_or_an_answer(file: Path, seed: int) -> None:
    import random

    for day in range(3):
        added(file, day, {f"n{at}": said(OK if at % 2 else WARN, str(day)) for at in range(40)})
    content = bytearray(file.read_bytes())
    picked = random.Random(seed)
    for _ in range(30):
        content[picked.randrange(100, len(content))] = picked.randrange(256)
    file.write_bytes(content)
    for use in (lambda: asked(file, "n1", "n2"), lambda: added(file, 9, {"n1": said()})):
        assert "\n" not in refusal(use)


def test_a_folder_or_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(OSError, match="no regular file"):
            asked(place, "n1")
    with pytest.raises(FileNotFoundError):
        asked(tmp_path / "none", "n1")
    assert not (tmp_path / "none").exists()


def test_an_empty_file_becomes_a_history_and_says_that_it_is_none_yet(file: Path) -> None:
    file.touch()
    with pytest.raises(HistoryError, match="nothing was ever written"):
        asked(file, "n1")
    assert added(file, 0, {"n1": said()})


def test_a_file_that_may_not_be_written_is_asked_all_the_same(file: Path) -> None:
    added(file, 0, {"n1": said()})
    file.chmod(0o400)
    assert asked(file, "n1")["n1"].seen


# --- writers at once, and one that is killed ----------------------------------------------


def _write(path: Path, writer: int, count: int) -> None:
    for number in range(count):
        merge = {f"w{writer}n{at}": said(WARN, f"{writer}.{number}") for at in range(20)}
        assert added(path, 0, merge | {"shared": said(OK, f"{writer}.{number}")})


def test_writers_at_once_lose_nothing(file: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(file, at, 5)) for at in range(4)]
    for each in writers:
        each.start()
    for each in writers:
        each.join(120)
    assert [each.exitcode for each in writers] == [0] * 4
    assert rows(file, "runs") == 20
    found = asked(file, "shared", *(f"w{writer}n7" for writer in range(4)))
    reasons = sorted(each.reasons[0] for each in found["shared"].seen)
    assert reasons == sorted(f"{writer}.{number}" for writer in range(4) for number in range(5))
    for writer in range(4):
        own = [each.reasons[0] for each in found[f"w{writer}n7"].seen]
        assert own == [f"{writer}.{number}" for number in range(5)]


def _killed_in_the_middle(path: Path) -> None:
    def merge():
        yield from ((f"n{at}", said(CRITICAL, firmware="29")) for at in range(200))

    with history_file(str(path), 20, create=True) as connection:
        connection.set_trace_callback(
            lambda statement: (
                os.kill(os.getpid(), signal.SIGKILL) if statement.startswith("COMMIT") else None
            )
        )
        add(connection, START + DAY, dict(merge()))


def test_a_writer_that_is_killed_leaves_what_was_there(file: Path) -> None:
    added(file, 0, {f"n{at}": said(firmware="28") for at in range(200)})
    process = multiprocessing.get_context("fork").Process(
        target=_killed_in_the_middle, args=(file,)
    )
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert [each.status for each in asked(file, "n199")["n199"].seen] == [OK]
    assert added(file, 1, {"n199": said(firmware="29")})
    assert rows(file, "runs") == 2


def test_a_file_that_another_writes_to_for_long_is_one_line(file: Path) -> None:
    added(file, 0, {"n1": said()})
    with history_file(str(file), 1, create=True) as other:
        other.execute("BEGIN IMMEDIATE")
        with (
            history_file(str(file), 0.2, create=True) as connection,
            pytest.raises(HistoryError, match="locked"),
        ):
            add(connection, START + DAY, {"n1": said(WARN)})
        assert asked(file, "n1")["n1"].seen  # readers need not wait


def test_what_it_spans(file: Path) -> None:
    added(file, 0, {"n1": said()})
    added(file, 3, {"n2": said()})
    with history_file(str(file), 1, create=False) as connection:
        assert span(connection) == (2, START, START + 3 * DAY)
