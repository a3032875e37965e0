"""Every pure parser, as a function of bytes, with the errors that it may raise.

Functions named `parse_*` in the rooms below are found by their name; those that take more
than what they parse have a row in _MORE. What parses under another name has a row in _OTHERS.
"""

import importlib
import inspect
import io
import json
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from types import ModuleType
from typing import Any, Final

from campaign.corpus import logs
from lab.transceivers import SPANS
from rdmadiag.facts import Missing
from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.exercise import Operation, Via, Wanted
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import GidType, LinkLayer, PortState, QpType
from rdmadiag.sources.module_memory import Memory, Span
from rdmadiag.verbs import protocol, side_calls
from rdmadiag.verbs.work import Work
from rdmadiag.watch.ring import decode
from rdmadiag.watch.route import Links

_ROOMS: Final = ("rdmadiag.sources", "rdmadiag.view", "rdmadiag.watch")

_MORE: Final[Mapping[str, tuple[Any, ...]]] = {
    "parse_netdevs": ({},),
    "parse_routes": ({},),
    "parse_neighbours": ({},),
    "parse_soliciting": ({},),
    "parse_address_labels": ({},),
    "parse_qdiscs": ({},),
    "parse_queue": ("bfifo",),
    "parse_shaped_rate": ("fq",),
    "parse_filters": ({}, "in"),
    "parse_packet_filter": (b"",),
    "parse_elements": (2, True),
    "parse_gid_type": (Missing("absent", ""),),  # type: ignore[arg-type]
    "parse_registry": ("AppleThunderboltRDMAInterface",),
    "parse_log": ("1m",),
    "parse_panic": ("x.panic",),
    "parse_entries": ("mr",),
    "parse_notifications": (Links(),),
}


@dataclass(frozen=True)
class Parser:
    """One parser."""

    name: str
    parse: Callable[[bytes], Any]
    may_raise: tuple[type[Exception], ...] = ()
    seeds: tuple[bytes, ...] = ()  # beside those of the machines that it understands


@cache
def parsers() -> dict[str, Parser]:
    """All of them by name, in its order; made once, since `explain`'s patterns are among them."""
    found = [*_by_name(), *_others()]
    return {each.name: each for each in sorted(found, key=lambda each: each.name)}


def _by_name() -> Iterator[Parser]:
    for room in _ROOMS:
        package = importlib.import_module(room)
        for each in pkgutil.walk_packages(package.__path__, f"{room}."):
            module = importlib.import_module(each.name)
            for name, function in vars(module).items():
                if name.startswith("parse_") and getattr(function, "__module__", "") == each.name:
                    yield _parser(module, name, function)


def _parser(module: ModuleType, name: str, function: Callable[..., Any]) -> Parser:
    first, *more = inspect.signature(function, eval_str=True).parameters.values()
    values = _MORE.get(name, ())
    if len(values) < sum(each.default is each.empty for each in more):
        raise TypeError(f"campaign.pure: {name} takes more than bytes, and has no row")
    parse = _TAKES.get(first.annotation, _lines)
    short = module.__name__.removeprefix("rdmadiag.")
    return Parser(f"{short}.{name}", partial(parse, function, values))


def _bytes(function: Callable[..., Any], values: tuple[Any, ...], raw: bytes) -> Any:
    return function(raw, *values)


def _text(function: Callable[..., Any], values: tuple[Any, ...], raw: bytes) -> Any:
    return function(raw.decode("utf-8", "replace"), *values)


def _lines(function: Callable[..., Any], values: tuple[Any, ...], raw: bytes) -> Any:
    return function(raw.decode("utf-8", "replace").splitlines(), *values)


def _memory(function: Callable[..., Any], values: tuple[Any, ...], raw: bytes) -> Any:
    spans: dict[Span, bytes | Missing] = {}
    for span in SPANS:
        spans[span], raw = raw[: span.length], raw[span.length :]
    return function(Memory(spans), *values)


_TAKES: Final = {bytes: _bytes, str: _text, Memory: _memory}


def _others() -> Iterator[Parser]:
    yield from _handshake()
    yield from _netlink()
    yield from _files()
    yield from _explain()
    yield from _environment()


# --- what a peer says ------------------------------------------------------------------------


def _handshake() -> Iterator[Parser]:
    from rdmadiag.verbs import records

    messages = (
        protocol.hello(_NONCE, with_secret=True),
        protocol.hello(_NONCE, with_secret=False),
        {"number": 17, "psn": 99},
        side_calls.call("write", Stage.DATA, {"offset": 8, "content": b"abc"}),
        side_calls.call("post", Stage.DATA, {"works": (Work(),)}),
        {"cells": side_calls.cells_message([(_CELL, None)])},
        _LOCAL.message(),
    )
    frames = tuple(protocol.frame(each) for each in messages)
    proven = tuple(protocol.frame(each, _seal()) for each in messages)
    bodies = tuple(each[4:] for each in frames)
    refused = (protocol.ProtocolError,)
    yield Parser("verbs.protocol, a stream", _received, refused, (*frames, b"".join(frames)))
    yield Parser("verbs.protocol, a stream that is proven", _proven, refused, proven)
    yield Parser("verbs.protocol, a message", _message, refused, bodies)
    yield Parser("verbs.records.parse", records.parse)


_CELL: Final = Wanted(Operation.SEND, "rc", Via.POLL)
_CANARY: Final = b"canary"
_NONCE: Final = bytes(range(32))
_LOCAL: Final = protocol.End(
    device="mlx5_0",
    port=1,
    link_layer=LinkLayer.ETHERNET,
    state=PortState.ACTIVE,
    active_mtu=4096,
    mtu=4096,
    gid_index=3,
    gid=Gid(b"\0" * 10 + b"\xff\xff\xc0\0\2\1"),
    gid_type=GidType.ROCE_V2,
    prefix_length=24,
    lid=0,
    qp_type=QpType.RC,
    payload_bytes=64,
    iterations=100,
    permitted=True,
)


def _received(raw: bytes, seal: protocol.Seal | None = None) -> None:
    """As a connection gives it: in pieces."""
    inbox = protocol.Inbox()
    inbox.seal = seal
    for start, end in pairwise((0, 1, 4, 5, 40, len(raw))):
        inbox.add(raw[start:end])
        while (message := inbox.take()) is not None:
            for read in (_with_secret, _without_secret, protocol.queue_pair, _end, _side):
                with suppress(protocol.ProtocolError):
                    read(message)


def _proven(raw: bytes) -> None:
    _received(raw, _seal())


def _seal() -> protocol.Seal:
    return protocol.Seal(_CANARY, "connect", _NONCE, _NONCE)


def _message(raw: bytes) -> None:
    body = raw[: protocol.MESSAGE_LIMIT]
    _received(len(body).to_bytes(4, "big") + body)


def _with_secret(message: dict[str, Any]) -> None:
    protocol.read_hello(message, with_secret=True)


def _without_secret(message: dict[str, Any]) -> None:
    protocol.read_hello(message, with_secret=False)


def _side(message: dict[str, Any]) -> None:
    side_calls.read_cells(message.get("cells", []))
    name, _, _ = side_calls.read_call(message)
    side_calls.read_answer(name, message)


def _end(message: dict[str, Any]) -> None:
    remote = protocol.read_end(message)
    for mismatch in (*protocol.mismatches(_LOCAL, remote), *protocol.unusable(remote)):
        str(mismatch)
    protocol.path_mtu(_LOCAL, remote)


# --- what the kernel says --------------------------------------------------------------------


def _netlink() -> Iterator[Parser]:
    from rdmadiag.host import kmsg, netlink
    from rdmadiag.sources import netdev, netdev_counters, nldev_messages, pyroute2_messages

    def walk(raw: bytes) -> Any:
        for message in netlink.messages(raw):
            for _, content in netlink.attributes(netlink.body(raw, message)):
                netlink.number(content)
                netlink.text(content)
                for _ in netlink.attributes(content):
                    pass
        netlink.interrupted(raw)
        netlink.families(raw)

    yield Parser("host.netlink.messages", walk, (ValueError,))
    yield Parser("host.netlink.take", netlink.take, (ValueError, OSError))
    for module in (netdev, netdev_counters, nldev_messages, pyroute2_messages):
        for name, kind in vars(module).items():
            if isinstance(kind, type) and name in ("ifinfmsg", "ifaddrmsg"):
                of = f"{name}, {module.__name__.rpartition('.')[2]}"
                yield Parser(
                    f"sources.pyroute2_messages.decode({of})",
                    partial(_decode, pyroute2_messages.decode, kind),
                    (ValueError,),
                )
    yield Parser("host.kmsg._microseconds", kmsg._microseconds)  # noqa: SLF001
    yield Parser("watch.ring.decode", lambda raw: list(decode([raw])))


def _decode(decode: Callable[..., Any], kind: type, raw: bytes) -> Any:
    return [dict(message) for message in decode(raw, kind)]


# --- what a user names -----------------------------------------------------------------------


def _files() -> Iterator[Parser]:
    from rdmadiag.facts.toml_file import TomlFileError
    from rdmadiag.host.meta import Meta
    from rdmadiag.host.toml_file import parse_toml
    from rdmadiag.preflight.expectations.written import expectations

    written = (
        (
            b'[host]\ndevices = 2\nactive_ports = ">=1"\n[device."mlx5_*"]\nrate = ">=200 Gb/sec"\n'
            b'firmware = "20.31.1014"\n[device."mlx5_0/1"]\nstate = "active"\n[thresholds]\n'
            b"retransmissions = 100\n"
        ),
        b'[device."*"]\nlink_layer = ["ethernet", "infiniband"]\nmtu = 4096\n',
        b'timeout = 10\n[preflight]\nfail-on = "critical"\ndevice = ["mlx5_0", "mlx5_1:1"]\n',
    )

    def expected(raw: bytes) -> Any:
        return expectations(parse_toml(raw, "expect.toml"))

    yield Parser("preflight.expectations", expected, (TomlFileError,), written)
    yield Parser(
        "host.toml_file.parse_toml", partial(_named, parse_toml), (TomlFileError,), written
    )

    def meta(raw: bytes) -> Any:
        document = json.loads(raw)
        if isinstance(document, dict):
            Meta(document)

    damaged = (AttributeError, KeyError, TypeError, ValueError, RecursionError)
    yield Parser("host.meta.Meta", meta, damaged, tuple(_metas()))


def _named(parse: Callable[[bytes, str], Any], raw: bytes) -> Any:
    return parse(raw, "expect.toml")


def _metas() -> Iterator[bytes]:
    from campaign.corpus import machines

    for machine in machines():
        content = (machine / "meta.json").read_bytes()
        if len(content) < 20_000:
            yield content


# --- what a log says -------------------------------------------------------------------------


def _explain() -> Iterator[Parser]:
    from rdmadiag.explain.log.recognition.recognise import recognise
    from rdmadiag.explain.log.recognition.vocabulary import NEEDLES
    from rdmadiag.explain.log.scan import collect
    from rdmadiag.explain.lookup import NotUnderstood, lookup
    from rdmadiag.sieve.lines import Sieve

    sieves = Sieve(NEEDLES), Sieve(NEEDLES, library=None)

    def log(raw: bytes) -> Any:
        first, second = (
            [
                (each.number, each.line, each.after, each.above)
                for each in sieve.segments(io.BytesIO(raw), 1)
            ]
            for sieve in sieves
        )
        if first != second or sieves[0].lines != sieves[1].lines:
            raise AssertionError("the compiled sieve and the one in Python differ")
        again = sieves[0].segments(io.BytesIO(raw))
        return collect(again).account(sieves[0].lines, sieves[0].bytes)

    lines = logs()
    pages = tuple(b"\n".join(lines[at : at + 12]) for at in range(0, len(lines), 12))
    yield Parser("sieve and explain.log", log, (), pages)
    yield Parser("explain.log.recognition.recognise", partial(_recognised, recognise), (), lines)

    def words(raw: bytes) -> Any:
        several = raw.decode("utf-8", "replace").split()[:6] or ["x"]
        return lookup(several, "linux"), lookup(several, "darwin", "rtr", 129)

    asked = (
        b"errno 110",
        b"ETIMEDOUT",
        b"wc 12",
        b"RETRY_EXC_ERR",
        b"state INIT",
        b"env NCCL_IB_GID_INDEX=3",
        b"UCX_NET_DEVICES=mlx5_0:1",
        b"port-not-active",
        b"gid-does-not-route",
    )
    yield Parser("explain.lookup", words, (NotUnderstood,), asked)
    yield from _of_jobs()


def _of_jobs() -> Iterator[Parser]:
    """What stands beside the logs of a job."""
    from rdmadiag.explain.job.flight_recorder import NotADump, parse_dump
    from rdmadiag.explain.job.inspector import parse_inspector
    from rdmadiag.explain.job.plain_pickle import NotPlain, parse_plain_pickle
    from rdmadiag.explain.job.ras import NotRas, parse_ras

    dump = b'{"version": "2.5", "pg_config": {}, "pg_status": {}, "entries": []}'
    yield Parser("explain.job.parse_dump", partial(parse_dump, rank=3), (NotADump,), (dump,))
    pickled = b"\x80\x04}\x94(\x8c\x01a]\x94(K\x01K\x02eu."
    yield Parser("explain.job.parse_plain_pickle", parse_plain_pickle, (NotPlain,), (pickled,))
    answer = b"Job summary\n===\n\nDEAD\n  Process 8 on node n1 managing GPU 5\n"
    yield Parser("explain.job.parse_ras", parse_ras, (NotRas,), (answer,))
    record = b'{"header": {"id": "0x7", "rank": 2}, "metadata": {}, "coll_perf": {"coll_sn": 1}}'
    yield Parser("explain.job.parse_inspector", parse_inspector, (), (record,))


def _recognised(recognise: Callable[..., Any], raw: bytes) -> Any:
    line, _, after = raw.partition(b"\n")
    return recognise(line, after, after[::-1])


# --- what the environment says ---------------------------------------------------------------


def _environment() -> Iterator[Parser]:
    from rdmadiag.gid.c_number import atoi, has_number, strtol, to_int
    from rdmadiag.gid.registry import NoSuchStack, chosen
    from rdmadiag.gid.variables import VARIABLES
    from rdmadiag.view.select import Selector

    def values(raw: bytes) -> Any:
        text = raw.decode("utf-8", "backslashreplace").replace("\0", "")
        for row in VARIABLES:
            if row.judge:
                row.judge(text)
            if row.gid_index:
                row.gid_index(text)
            if row.devices and (choice := row.devices(row.name, text)):
                str(choice)

    def numbers(raw: bytes) -> Any:
        text = raw.decode("utf-8", "replace")
        has_number(text)
        to_int(atoi(text))
        return strtol(text)

    lists = (
        b"mlx5_0:1,mlx5_1:1",
        b"=mlx5_0,mlx5_1",
        b"^mlx5",
        b"^=mlx5_0:1",
        b"mlx5_*:1",
        b"all",
        b"3",
        b"-1",
        b"14",
        b"AF_INET6",
        b"192.0.2.0/24",
        b"fe80::/10",
        b"y",
    )
    yield Parser("gid.variables, device lists", values, (), lists)
    yield Parser("gid.c_number", numbers, (), lists)

    def selected(raw: bytes) -> Any:
        text = raw.decode("utf-8", "replace")
        return Selector.parse(text)

    def stack(raw: bytes) -> Any:
        return chosen([raw.decode("utf-8", "replace")])

    yield Parser("view.select.Selector", selected, (ValueError,), lists)
    yield Parser(
        "gid.registry.chosen", stack, (NoSuchStack,), (b"nccl@2.19", b"ucx", b"x-rdma@0.6")
    )
