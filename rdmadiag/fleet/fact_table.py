"""The facts of one host, out of its `preflight` document as JSON has it: short texts by name.

Adapters are numbered in the order of their PCI addresses, GPUs too: "adapter[0].firmware",
"adapter[0].port[1].rate". Their own names may be what differs, and so may the numbers of the
buses, which a card in another slot shifts; the order stands both. Devices without a PCI address
(soft RoCE, a Mac) come after them, by name.

It is called for ten thousand reports in a row, so that no class is made of a document. Nothing
in it is trusted: what has another shape than ours is a Missing, and lengths are bounded.
"""

from collections.abc import Callable, Iterator, Mapping
from sys import intern
from typing import Any, Final, NamedTuple

from rdmadiag.facts import NOT_IN_RECORD, Missing, Why
from rdmadiag.facts.address import packed_ipv4, packed_ipv6
from rdmadiag.facts.environment import WITHHELD
from rdmadiag.fleet.fact_rows import FACTS, Of
from rdmadiag.gid.variables import REPORTED

NONE: Final = "(none)"
"""Somebody looked, and there is no such thing: Why.ABSENT, and null."""

NOT_SET: Final = "(not set)"
"""Of a variable that other hosts have."""

VARIABLE: Final = "variable."
VARIABLES: Final = "variables"
"""There where a host's variables could not be read: a Missing."""

MOST_ADAPTERS: Final = 64
MOST_PORTS: Final = 128  # of all adapters together
MOST_GPUS: Final = 64
MOST_VARIABLES: Final = 256
MOST_LETTERS: Final = 200

Value = str | Missing


class HostFacts(Mapping[str, Value]):
    """The facts of one host; hosts of one shape share the names."""

    __slots__ = ("_at", "names", "texts")

    names: tuple[str, ...]
    texts: tuple[Value, ...]

    def __init__(self, found: Mapping[str, Value]) -> None:
        self.names, self._at = _shape(tuple(found))
        self.texts = tuple(found.values())

    def __getitem__(self, name: str) -> Value:
        return self.texts[self._at[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


_SHAPES: Final[dict[tuple[str, ...], tuple[tuple[str, ...], dict[str, int]]]] = {}
_MOST_SHAPES: Final = 4096  # of hosts that each have names of their own, the first


def _shape(names: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, int]]:
    shape = _SHAPES.get(names)
    if shape is None:
        shape = names, {name: index for index, name in enumerate(names)}
        if len(_SHAPES) < _MOST_SHAPES:
            _SHAPES[names] = shape
    return shape


def named_values(facts: Mapping[str, Value]) -> tuple[tuple[str, ...], tuple[Value, ...]]:
    """The names, and a value for each."""
    if isinstance(facts, HostFacts):
        return facts.names, facts.texts
    return tuple(facts), tuple(facts.values())


def value_of(facts: Mapping[str, Value], name: str) -> Value:
    """A variable that a host does not have is not set there, if its variables were read."""
    if name in facts:
        return facts[name]
    if not name.startswith(VARIABLE):
        return NOT_IN_RECORD
    unread = facts.get(VARIABLES)
    return unread if isinstance(unread, Missing) else NOT_SET


def facts_of(document: Mapping[str, Any], wholes: dict[str, Any] | None = None) -> HostFacts:
    """Every row that has a name, of every adapter, port and GPU; variables by their names.

    `wholes` gets, by the same names, the objects and lists that a text may be too short for.
    """
    evidence = document.get("evidence", _GONE)
    found: dict[str, Value] = {}
    _add(found, _HOST, "", (document,), wholes=wholes)
    _variables(found, _at(evidence, ("process", "environment")))
    _gpus(found, _at(evidence, ("topology", "gpus")), wholes)
    _adapters(found, document, evidence, wholes)
    return HostFacts(found)


# --- values -----------------------------------------------------------------------------

_GONE: Final = {"why": "not_collected", "detail": "not in this report"}
_ABSENT: Final = {"why": "absent", "detail": ""}
_ODD: Final = {"why": "malformed", "detail": "of another shape"}
_ROWS_LOST: Final = {"why": "malformed", "detail": "rows of the GID table could not be read"}
_WHYS: Final = {each.value: each for each in Why}


def _at(value: Any, steps: tuple[str, ...]) -> Any:
    """What stands there; a Missing on the way to it, as JSON has it, where there is one."""
    for step in steps:
        if type(value) is not dict:
            return _ABSENT if value is None else _ODD
        if "why" in value:
            return value
        value = value.get(step, _GONE)
    return value


def _missing(value: dict[str, Any]) -> Missing:
    """One object for all that are alike, as far as there are not too many."""
    why, detail = value.get("why"), value.get("detail")
    text = detail[:MOST_LETTERS] if type(detail) is str else ""
    key = (why if type(why) is str else "", text)
    made = _MADE.get(key)
    if made is None:
        made = Missing(_WHYS.get(key[0], Why.MALFORMED), text)
        if len(_MADE) < _MOST_MADE:
            _MADE[key] = made
    return made


_FEW: Final = 4096
_NUMBERS: Final = tuple(intern(str(number)) for number in range(_FEW))
_MADE: Final[dict[tuple[str, str], Missing]] = {}
_MOST_MADE: Final = 10_000


def _text(value: Any) -> Value:
    """One line; a long one is cut, and then its hash distinguishes two of them."""
    kind = type(value)
    if kind is str:
        return intern(value) if len(value) <= MOST_LETTERS else _cut(value)
    if kind is bool:
        return "yes" if value else "no"
    if kind is int or kind is float:
        return intern(_number(value))
    if value is None:
        return NONE
    if kind is dict and "why" in value:
        return NONE if value["why"] == "absent" else _missing(value)
    text = _joined(value, 0)
    return intern(text) if len(text) <= MOST_LETTERS else _cut(text)


def _number(value: float) -> str:
    try:
        return str(value)
    except ValueError:  # of more digits than Python writes
        return hex(int(value))


def _cut(text: str) -> str:
    from hashlib import sha256

    digest = sha256(text.encode(errors="backslashreplace")).hexdigest()
    return intern(f"{text[: MOST_LETTERS - 20]}… #{digest[:16]}")


_DEEPEST: Final = 8


def _joined(value: Any, depth: int) -> str:
    kind = type(value)
    if kind is str:
        return str(value)
    if depth > _DEEPEST:
        return "…"
    if kind is list:
        return ", ".join([_joined(each, depth + 1) for each in value]) or NONE
    if kind is dict:
        if "why" in value and len(value) == 2:
            return NONE if value["why"] == "absent" else f"({_joined(value['why'], depth + 1)})"
        parts = [
            f"{name}={_joined(each, depth + 1)}"
            for name, each in sorted(value.items())
            if not name.endswith("_number")
        ]
        return "{" + " ".join(parts) + "}"
    if kind is bool:
        return "yes" if value else "no"
    return NONE if value is None else _number(value)


def plain(value: Any) -> Value:
    """A value of a document as one short text; a Missing of what could not be looked at."""
    return _text(value)


# --- rows -------------------------------------------------------------------------------

_ADAPTER_ROOTS: Final = (
    "evidence.sysfs.devices[]",
    "evidence.nldev.devices[]",
    "evidence.verbs.devices[]",
    "evidence.sysfs.uverbs[]",
    "evidence.process.nodes[]",
    "evidence.devlink.devices[]",
    "evidence.topology.adapters[]",
    "evidence.system.paths[]",
    "evidence.pci.functions[]",
)
_PORT_ROOTS: Final = (
    "evidence.sysfs.devices[].ports[]",
    "evidence.nldev.devices[].ports[]",
    "evidence.verbs.devices[].ports[]",
    "verdict.ports[]",
    "evidence.netdev.netdevs[]",
    "evidence.sysfs.netdevs[]",
    "evidence.dcb.netdevs[]",
    "evidence.ethtool.netdevs[]",
    "evidence.mac_network.interfaces[]",
)
_GPU_ROOTS: Final = ("evidence.topology.gpus[]",)

Written = Callable[[Any, str], Any]
"""A value and its port's netdev → a list of words, or the value where it has another shape."""


class _Row(NamedTuple):
    """One fact, where it is looked up: the number of an object, its field, and steps below."""

    name: str
    places: tuple[tuple[int, str, tuple[str, ...]], ...]
    written: Written | None

    def text(self, value: Any, netdev: str, name: str, wholes: dict[str, Any] | None) -> Value:
        """The value as text; what that is made of is put into `wholes`."""
        whole = value if self.written is None else self.written(value, netdev)
        if wholes is not None:
            wholes[name] = whole
        return _text(whole)


def _rows(of: Of, roots: tuple[str, ...]) -> tuple[_Row, ...]:
    return tuple(
        _Row(fact.name, tuple(_place(path, roots) for path in fact.paths), _WRITTEN.get(fact.name))
        for fact in FACTS
        if fact.name is not None and fact.of is of
    )


def _place(path: str, roots: tuple[str, ...]) -> tuple[int, str, tuple[str, ...]]:
    at = max(
        (at for at, root in enumerate(roots) if path.startswith(root)),
        key=lambda at: len(roots[at]),
    )
    step, *rest = path[len(roots[at]) :].strip(".").split(".")
    return at, step, tuple(rest)


def _add(
    found: dict[str, Value],
    rows: tuple[_Row, ...],
    prefix: str,
    roots: tuple[Any, ...],
    netdev: str = "",
    wholes: dict[str, Any] | None = None,
) -> None:
    blank = [_blank(root) for root in roots]
    for row, name in zip(rows, _names(rows, prefix), strict=True):
        first: Value | None = None
        for at, step, rest in row.places:
            if blank[at] is not None:
                if first is None or first is NONE:
                    first = blank[at]
                continue
            value = roots[at].get(step, _GONE)
            if rest:
                value = _at(value, rest)
            kind = type(value)
            if kind is str and len(value) <= MOST_LETTERS:
                first = intern(value)
                break
            if kind is int and 0 <= value < _FEW:
                first = _NUMBERS[value]
                break
            if (kind is dict and "why" in value) or value is None:
                if first is None or first is NONE:
                    first = _text(value)
                continue
            first = row.text(value, netdev, name, wholes)
            break
        found[name] = NONE if first is None else first


def _blank(root: Any) -> Value | None:
    """What all facts of an object are that is itself a Missing; None of any other."""
    if type(root) is dict:
        return _text(root) if "why" in root else None
    return NONE if root is None else _missing(_ODD)


_NAMES: Final[dict[tuple[int, str], tuple[str, ...]]] = {}


def _names(rows: tuple[_Row, ...], prefix: str) -> tuple[str, ...]:
    """Made once for each prefix, of which there are few: their numbers are bounded."""
    names = _NAMES.get((len(rows), prefix))
    if names is None:
        names = _NAMES[len(rows), prefix] = tuple(intern(prefix + row.name) for row in rows)
    return names


def _indexed(items: Any, key: str) -> tuple[dict[Any, Any], Any]:
    """Items by name, and what stands for one that is not there."""
    if type(items) is list:
        named = {
            each[key]: each for each in items if type(each) is dict and _is_name(each.get(key))
        }
        return named, _ABSENT
    return {}, items if type(items) is dict and "why" in items else _ODD


def _is_name(value: Any) -> bool:
    return type(value) is str or type(value) is int


# --- adapters, ports, GPUs, variables ---------------------------------------------------


def _adapters(
    found: dict[str, Value],
    document: Mapping[str, Any],
    evidence: Any,
    wholes: dict[str, Any] | None,
) -> None:
    in_sysfs, no_sysfs = _indexed(_at(evidence, ("sysfs", "devices")), "name")
    in_nldev, no_nldev = _indexed(_at(evidence, ("nldev", "devices")), "name")
    in_verbs, no_verbs = _indexed(_at(evidence, ("verbs", "devices")), "name")
    uverbs, no_uverbs = _indexed(_at(evidence, ("sysfs", "uverbs")), "device")
    nodes, no_nodes = _indexed(_at(evidence, ("process", "nodes")), "name")
    places, no_places = _indexed(_at(evidence, ("topology", "adapters")), "device")
    paths, no_paths = _indexed(_at(evidence, ("system", "paths")), "device")
    functions, no_functions = _indexed(_at(evidence, ("pci", "functions")), "address")
    below, no_below = _below(_at(evidence, ("devlink", "devices")))
    ports = _Ports(document, evidence)
    addresses: dict[str, str] = {}
    for name in in_sysfs | in_nldev | in_verbs:
        address = _at(in_sysfs.get(name), ("pci", "address"))
        if type(address) is not str:
            address = _at(places.get(name), ("address",))
        addresses[name] = address if type(address) is str else ""
    listed = _ABSENT in (no_sysfs, no_nldev, no_verbs) or no_sysfs.get("why") == "absent"
    found["adapters"] = intern(str(len(addresses))) if listed else _missing(no_sysfs)
    order = sorted(addresses, key=lambda name: _by_address(addresses[name], str(name)))
    for number, name in enumerate(order[:MOST_ADAPTERS]):
        prefix = f"adapter[{number}]."
        shown = in_sysfs.get(name, no_sysfs)
        by_netlink = in_nldev.get(name, no_nldev)
        answered = in_verbs.get(name, no_verbs)
        character = uverbs.get(name, no_uverbs)
        node = _at(character, ("name",))
        if type(node) is not str:
            node = _at(by_netlink, ("chardev", "name"))
        roots = (
            shown,
            by_netlink,
            answered,
            character,
            nodes.get(node, no_nodes) if type(node) is str else node,
            below.get(name, no_below),
            places.get(name, no_places),
            paths.get(name, no_paths),
            functions.get(addresses[name], no_functions),
        )
        _add(found, _ADAPTER, prefix, roots, wholes=wholes)
        ports.add(found, prefix, name, (shown, by_netlink, answered), wholes)


def _by_address(address: str, name: str) -> tuple[bool, int, str, str]:
    """ "10000:01:00.0", a domain of its own, after all of four digits."""
    return not address, len(address), address, name


def _below(items: Any) -> tuple[dict[str, Any], Any]:
    """devlink devices by the RDMA devices on them."""
    if type(items) is not list:
        return {}, items if type(items) is dict and "why" in items else _ODD
    every = [each for each in items if type(each) is dict and type(each.get("devices")) is list]
    return {name: each for each in every for name in each["devices"] if type(name) is str}, _ABSENT


class _Ports:
    """What is looked up by the netdev of a port."""

    def __init__(self, document: Mapping[str, Any], evidence: Any) -> None:
        self._tables = tuple(
            _indexed(_at(evidence, (source, items)), key)
            for source, items, key in (
                ("netdev", "netdevs", "name"),
                ("sysfs", "netdevs", "name"),
                ("dcb", "netdevs", "netdev"),
                ("ethtool", "netdevs", "netdev"),
                ("mac_network", "interfaces", "name"),
            )
        )
        self._left = MOST_PORTS
        verdict = document.get("verdict", _GONE)
        every = _at(verdict, ("ports",))
        self._judged = {
            (each.get("device"), each.get("port")): each
            for each in (every if type(every) is list else ())
            if type(each) is dict and _is_name(each.get("device")) and _is_name(each.get("port"))
        }

    def add(
        self,
        found: dict[str, Value],
        adapter: str,
        device: str,
        witnesses: tuple[Any, ...],
        wholes: dict[str, Any] | None,
    ) -> None:
        every = [_indexed(_at(each, ("ports",)), "number") for each in witnesses]
        numbers = {each for table, _ in every for each in table if type(each) is int}
        for number in sorted(numbers)[: self._left]:
            self._left -= 1
            shown = tuple(table.get(number, otherwise) for table, otherwise in every)
            judged = self._judged.get((device, number), _GONE)
            netdev = _at(shown[1], ("netdev",))
            if type(netdev) is not str:
                netdev = _at(judged, ("netdev",))
            below = tuple(
                table.get(netdev, otherwise) if type(netdev) is str else netdev
                for table, otherwise in self._tables
            )
            name = netdev if type(netdev) is str else ""
            prefix = f"{adapter}port[{number}]."
            _add(found, _PORT, prefix, (*shown, judged, *below), name, wholes)
            if found[f"{prefix}gid_index"] is NONE and (unread := _unread_gids(shown)):
                for fact in ("gid_index", "route_gid"):
                    found[intern(prefix + fact)] = unread


def _unread_gids(shown: tuple[Any, ...]) -> Missing | None:
    """Why it means nothing that no GID was chosen: no witness read the whole table of a port."""
    in_sysfs, _, in_verbs = shown
    why: Value = NONE
    for place, rows, lost in (
        (_at(in_sysfs, ("gids",)), "entries", "unreadable"),
        (in_verbs, "gids", "gids_unreadable"),
    ):
        table = _at(place, (rows,))
        if type(table) is list:
            if not place.get(lost):
                return None
            table = _ROWS_LOST
        why = _text(table) if why is NONE else why
    return why if isinstance(why, Missing) else None


def _gpus(found: dict[str, Value], items: Any, wholes: dict[str, Any] | None) -> None:
    if type(items) is not list:
        found["gpus"] = _text(items) if type(items) is dict else _missing(_ODD)
        return
    every = [each for each in items if type(each) is dict]
    every.sort(key=lambda each: _by_address(str(each.get("address")), ""))
    found["gpus"] = intern(str(len(items)))
    for number, each in enumerate(every[:MOST_GPUS]):
        _add(found, _GPU, f"gpu[{number}].", (each,), wholes=wholes)


def _variables(found: dict[str, Value], environment: Any) -> None:
    """A value that a report does not carry by rdmadiag.gid.variables is not taken from one."""
    if type(environment) is not dict or _is_missing(environment):
        found[VARIABLES] = _missing(environment if type(environment) is dict else _ODD)
        return
    for name in sorted(environment)[:MOST_VARIABLES]:
        value = environment[name] if name in _VALUES else WITHHELD
        found[intern(VARIABLE + name[:MOST_LETTERS])] = _text(value)


def _is_missing(environment: dict[str, Any]) -> bool:
    return environment.keys() == {"why", "detail"} and environment["why"] in _WHYS


_VALUES: Final = frozenset(REPORTED)


# --- values that are written in words of their own ---------------------------------------


def _sorted(value: Any, _netdev: str) -> Any:
    if type(value) is not list:
        return value
    return [_joined(each, 0) for each in sorted(value, key=str)]


def _pkeys(value: Any, _netdev: str) -> Any:
    """ "0: 0xffff, 1: 0x8001"."""
    if type(value) is not dict or any(type(each) is not int for each in value.values()):
        return value
    return [f"{at}: {key:#06x}" for at, key in value.items()]


def _gid_table(value: Any, netdev: str) -> Any:
    """What decides on a choice in it: each row's type, family and scope, and no address.

    A netdev other than the port's own is named. Of InfiniBand the subnet prefix stands there.
    """
    if type(value) is not list:
        return value
    return [_gid_row(each, netdev) for each in value]


def _gid_row(row: Any, netdev: str) -> str:
    if type(row) is not dict:
        return "?"
    gid, kind, above = row.get("gid"), row.get("type"), row.get("netdev")
    word = kind if type(kind) is str else "?"
    other = f" of {above}" if type(above) is str and above != netdev else ""
    return f"{_joined(row.get('index'), 0)}: {word} {_scope(gid, word)}{other}"


def _scope(gid: Any, kind: str) -> str:
    if type(gid) is not str:
        return "?"
    if gid.startswith("::ffff:"):
        return "IPv4 link-local" if gid.startswith("::ffff:169.254.") else "IPv4"
    if kind.startswith("roce") and gid.startswith("fe80:"):
        return "link-local"
    try:
        raw = packed_ipv6(gid)
    except (OSError, ValueError):
        return "?"
    if kind.startswith("roce"):
        return "IPv6 private" if raw[0] & 0xFE == 0xFC else "IPv6"
    return raw[:8].hex()


def _networks(value: Any, _netdev: str) -> Any:
    """Of the addresses of a netdev but link-local ones: "198.18.0.0/24"."""
    if type(value) is not list:
        return value
    return sorted(filter(None, map(_network, value)))


def _network(row: Any) -> str:
    if type(row) is not dict:
        return "?"
    address, length = row.get("address"), row.get("prefix_length")
    if type(address) is not str or type(length) is not int:
        return "?"
    if address.startswith("fe80:"):
        return ""
    try:
        raw = (packed_ipv6 if ":" in address else packed_ipv4)(address)
    except (OSError, ValueError):
        return "?"
    bits = 8 * len(raw)
    kept = max(0, min(bits, length))
    number = int.from_bytes(raw) >> (bits - kept) << (bits - kept)
    text = ".".join(map(str, number.to_bytes(4))) if bits == 32 else number.to_bytes(16).hex(":", 2)
    unusable = row.get("duplicate") is True or row.get("tentative") is True
    return f"{text}/{kept}{' unusable' if unusable else ''}"


_WRITTEN: Final[dict[str, Written]] = {
    "modules": _sorted,
    "gpu_memory.clients": _sorted,
    "pkeys": _pkeys,
    "gid_table": _gid_table,
    "networks": _networks,
}
_HOST: Final = _rows(Of.HOST, ("",))
_ADAPTER: Final = _rows(Of.ADAPTER, _ADAPTER_ROOTS)
_PORT: Final = _rows(Of.PORT, _PORT_ROOTS)
_GPU: Final = _rows(Of.GPU, _GPU_ROOTS)
