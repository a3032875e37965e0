"""Events as lines and on a screen: hostile text, what a person is spared, what moved."""

import io
import json

import pytest
from rich.console import Console

from rdmadiag.explain.watched import WatchedCause
from rdmadiag.facts import Identity
from rdmadiag.render.watch import Lines, Screen, document, line, show_span, span_members, unheard
from rdmadiag.watch.event import Action, Event, Happened, Kind, Source
from rdmadiag.watch.span import Span

HOST = Identity(hostname="node1", platform="linux", kernel="7.2", machine="x86_64")


def event(kind=Kind.LINK, action=Action.CHANGED, subject="eth0", before=None, /, **details):
    sources = {
        Kind.WATCH: Source.WATCH,
        Kind.LINE: Source.KERNEL,
        Kind.OBJECT: Source.UEVENT,
        Kind.TRAFFIC: Source.COUNTERS,
    }
    what = Happened(sources.get(kind, Source.ROUTE), kind, action, subject, details, before or {})
    return Event(1, 0.5, what)


def terminal(height=12, width=80):
    return Console(
        file=io.StringIO(), force_terminal=True, width=width, height=height, color_system=None
    )


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        pytest.param(
            event(Kind.LINK, Action.CHANGED, "eth0", {"carrier": True}, carrier=False, mtu=1500),
            "route    link eth0 changed: carrier yes > no",
            id="a link that changed",
        ),
        pytest.param(
            event(Kind.LINK, Action.REMOVED, "eth0", None, mtu=1500),
            "route    link eth0 removed",
            id="a link that went",
        ),
        pytest.param(
            event(
                Kind.ADDRESS, Action.ADDED, "192.0.2.1/24", None,
                netdev="eth0", tentative=False, duplicate=True,
            ),
            "route    address 192.0.2.1/24 added: netdev eth0, duplicate",
            id="an address",
        ),
        pytest.param(
            event(Kind.OBJECT, Action.ADDED, "rxe0", None, subsystem="infiniband", action="add"),
            "uevent   infiniband rxe0 add",
            id="a uevent",
        ),
        pytest.param(
            event(Kind.LINE, Action.LOGGED, "kernel", None, level=3, line="mlx5_core: \x1b[2Jdown"),
            r"kernel   mlx5_core: \x1b[2Jdown",
            id="a line of the log",
        ),
        pytest.param(
            event(Kind.LOSS, Action.LOST, "route", None, why="ENOBUFS"),
            "route    loss route lost: ENOBUFS",
            id="a loss",
        ),
        pytest.param(
            event(Kind.WATCH, Action.BEGAN, "node1", None, heard="route", last_alive="T"),
            "watch    watching node1: route; the run before it watched until T",
            id="the beginning",
        ),
        pytest.param(
            event(
                Kind.ASYNC_EVENT, Action.NOTIFIED, "a/1", None,
                event="IBV_EVENT_PORT_ERR", meaning="port error",
            ),
            "route    IBV_EVENT_PORT_ERR at a/1: port error",
            id="an asynchronous event",
        ),
        pytest.param(
            event(Kind.WATCH, Action.CHANGED, "node1", None, heard="rdma"),
            "watch    listening to rdma too",
            id="a source that came later",
        ),
        pytest.param(
            event(Kind.WATCH, Action.ENDED, "node1", None, why="SIGTERM", events=3, lost=1),
            "watch    ended (SIGTERM): 3 events, 1 times something was lost",
            id="the end",
        ),
    ],
)  # fmt: skip
def test_an_event_is_one_line(shown, text):
    assert line(shown).plain == f"1970-01-01 00:00:00.500  {text}"


def test_names_that_a_terminal_would_obey_are_escaped():
    shown = line(event(Kind.LINK, Action.ADDED, "e\x1b]0;x\x07\n\u202eth", None, kind="veth\x9b"))
    assert shown.plain.isprintable()


@pytest.mark.parametrize(
    ("hidden", "lines"),
    [
        (event(Kind.LINK, Action.NOTIFIED), 0),
        (event(Kind.TRAFFIC, Action.SAMPLED, "rxe0/1", None, sent=1), 0),
        (event(Kind.LINK, Action.REMOVED), 1),
    ],
    ids=["nothing new", "a sample", "news"],
)
def test_a_person_is_spared_what_says_nothing(hidden, lines):
    out = Console(file=io.StringIO(), width=80)
    Lines(to=out).show([hidden])
    assert out.file.getvalue().count("\n") == lines


LOCAL = event(
    Kind.ROUTE, Action.ADDED, "192.0.2.1/32", None, netdev="eth0", table=255, type="local"
)
UNICAST = event(
    Kind.ROUTE, Action.ADDED, "198.51.100.0/24", None, netdev="eth0", table=254, type="unicast"
)


def printed(what, width=80):
    paper = Console(file=io.StringIO(), width=width)
    paper.print(what)
    return paper.file.getvalue()


@pytest.mark.parametrize("wanted", [False, True], ids=["by default", "asked for"])
def test_routes_of_the_table_local_are_counted_and_shown_where_asked_for(wanted):
    out = Console(file=io.StringIO(), width=80)
    Lines(local_routes=wanted, to=out).show([LOCAL, UNICAST])
    lines = out.file.getvalue()
    screen = Screen(HOST, local_routes=wanted, to=terminal())
    screen.show([LOCAL, UNICAST])
    drawing = printed(screen.drawing())
    answer = Console(file=io.StringIO(), width=100)
    show_span(found(LOCAL, UNICAST), "/ring", local_routes=wanted, to=answer)
    for text in (lines, drawing, answer.file.getvalue()):
        assert "route 198.51.100.0/24 added" in text
        assert ("route 192.0.2.1/32 added" in text) is wanted
    assert "node1: 2 events" in drawing
    for text in (drawing, answer.file.getvalue()):
        assert ("1 route of the table local not shown" in text) is not wanted


def test_a_line_that_is_wider_than_the_screen_goes_on_below_while_there_is_room():
    details = {f"detail{number}": "x" * 10 for number in range(6)}
    long = event(Kind.ADDRESS, Action.ADDED, "2001:db8::77/64", None, **details)
    screen = Screen(HOST, to=terminal(height=12))
    screen.show([event(Kind.LINK, Action.REMOVED, "eth7"), long])
    text = printed(screen.drawing())
    assert "…" not in text
    assert all(name in text for name in details)
    _, *rest = text[text.index("00:00:00.500  route    address") :].splitlines()
    assert rest
    assert all(row.startswith("    ") for row in rest)
    screen.show([long] * 20)
    text = printed(screen.drawing())
    assert text.count("\n") <= 12
    assert "eth7" not in text
    assert text.rstrip().endswith("x" * 10), "the last event is whole"


def test_quiet_lines_are_the_hosts_alone():
    out = Console(file=io.StringIO(), width=80)
    quiet = Lines(quiet=True, to=out)
    quiet.show([event(Kind.WATCH, Action.BEGAN, "node1", None, heard="route")])
    quiet.show([event(Kind.LINK, Action.REMOVED)])
    assert "link eth0 removed" in out.file.getvalue()
    assert "watching" not in out.file.getvalue()


def test_what_is_not_listened_to_is_said():
    began = event(Kind.WATCH, Action.BEGAN, "n", None, heard="route", unheard_rdma="absent: none")
    assert unheard(began) == ["not listened to: rdma: absent: none"]


def test_the_screen_has_the_last_events_and_what_ports_move():
    out = terminal()
    with Screen(HOST, to=out) as screen:
        screen.show([event(Kind.WATCH, Action.BEGAN, "n", None, heard="route", unheard_rdma="old")])
        for number in range(40):
            screen.show([event(Kind.LINK, Action.ADDED, f"eth{number}")])
        for seconds, sent in ((0.0, 0), (5.0, 5_000_000_000), (10.0, None)):
            what = Happened(
                Source.COUNTERS, Kind.TRAFFIC, Action.SAMPLED, "mlx5_0/1",
                {"unit": "bytes", "sent": sent, "received": 0}, {},
            )  # fmt: skip
            screen.show([Event(2, seconds, what)])
            if sent:
                out.print(screen.drawing())
                assert "8 Gb/s" in out.file.getvalue()
        screen.show([event(Kind.LOSS, Action.LOST, "route", None, why="ENOBUFS")])
        assert screen.tick() is None
        screen.show([event(Kind.LINK, Action.REMOVED, "eth39")])
        assert screen.tick() is not None, "not drawn for each event"
    paper = Console(file=io.StringIO(), width=80)
    paper.print(screen.drawing())
    text = paper.file.getvalue()
    assert "node1: 42 events, 1 loss" in text
    assert "not listened to: rdma: old" in text
    assert "link eth39 removed" in text
    assert "eth20" not in text
    assert "█?" in text
    assert text.count("\n") <= out.height


def test_a_screen_to_which_nothing_came_is_not_drawn_again():
    screen = Screen(HOST, to=terminal())
    screen.tick()
    assert screen.tick() is None


def found(*events, unknown=(), unheard=()):
    return Span(0.0, 30.0, events, tuple(unknown), tuple(unheard))


def test_an_answer_that_is_whole_and_one_that_is_not():
    def shown(span, **options):
        out = Console(file=io.StringIO(), width=100)
        show_span(span, "/ring", to=out, **options)
        return out.file.getvalue()

    whole = shown(found(event(Kind.LINK, Action.REMOVED), unheard=["rdma: old"]))
    head, note, row = whole.splitlines()
    assert head == (
        "OK  1 event from 1970-01-01T00:00:00.000Z to 1970-01-01T00:00:30.000Z, of /ring"
    )
    assert note == "  not listened to: rdma: old"
    assert row.endswith("link eth0 removed")
    half = shown(found(unknown=["it was not watched all that time"]))
    assert half.splitlines()[0].startswith("UNKNOWN  0 events")
    assert "not known: it was not watched all that time" in half
    assert shown(found(unknown=["x"]), quiet=True).count("\n") == 1


def test_samples_in_an_answer_are_a_strip():
    def sample(seconds, sent):
        details = {"unit": "packets", "sent": sent, "received": 0}
        what = Happened(Source.COUNTERS, Kind.TRAFFIC, Action.SAMPLED, "rxe0/1", details, {})
        return Event(1, seconds, what)

    out = Console(file=io.StringIO(), width=100)
    show_span(found(sample(0.0, 0), sample(5.0, 50), sample(10.0, 150)), "/ring", to=out)
    text = out.file.getvalue()
    assert "rxe0/1  sent" in text
    assert "▄█" in text
    assert "20 /s" in text


def test_a_document_is_what_its_model_dumps():
    from rdmadiag.watch.ring import text
    from tests.schema.documents import dumped, problems

    line = document(
        HOST, text(event(Kind.LINK, Action.CHANGED, "eé\x9b\x7f\x1b", {"mtu": 1}, mtu=9))
    )
    assert line.isascii()
    assert line.isprintable()
    assert problems("watch", json.loads(line)) == []
    assert json.loads(dumped("watch", line)) == json.loads(line)


def test_members_are_what_the_document_has():
    document = span_members(found(event(), unknown=["x"]), "/ring")
    assert (document["ring"], document["unknown"]) == ("/ring", ("x",))
    assert document["events"][0]["time"] == "1970-01-01T00:00:00.500000Z"


def cause(number, **changes):
    known = {"label": "link-lost", "text": "the link went down", "subject": f"eth{number}"}
    later = {"number": number, "time": 100.25 + number, "count": 1, "mended": False, "next": ()}
    return WatchedCause(**{**known, **later, **changes})


def test_causes_stand_above_the_events_and_the_first_says_what_to_look_at():
    out = Console(file=io.StringIO(), width=100)
    many = [
        cause(1, next=("rdma link show",), count=2),
        cause(2, subject="a\x1b[31mb", mended=True),
        *map(cause, range(3, 8)),
    ]
    show_span(found(event()), "/ring", many, to=out)
    text = out.file.getvalue()
    assert "00:01:41.250Z  eth1: the link went down  [link-lost, 2 times]\n" in text
    assert "[link-lost, mended since]" in text
    assert "eth5" in text
    assert "eth6" not in text
    assert "and 2 more" in text
    assert "\n    rdma link show\n" in text
    assert "\x1b" not in text
    assert text.index("eth1") < text.index("link eth0 changed")


def test_causes_in_the_document_have_their_time_in_words():
    (one,) = span_members(found(), "/ring", [cause(1)])["causes"]
    assert (one["time"], one["label"]) == ("1970-01-01T00:01:41.250000Z", "link-lost")
