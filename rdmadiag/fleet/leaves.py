"""Which leaf switch each node is on: Slurm's topology.conf, or a file with a leaf a line."""

from rdmadiag.facts import Missing, Why
from rdmadiag.fleet.nodes import NotNodes, shown, spread

_LINES: int = 100_000


def parse_topology(content: bytes) -> dict[str, str] | Missing:
    """Node → leaf.

    Of topology.conf(5) the lines `SwitchName=leaf1 Nodes=node[001-032]`; those with Switches=
    are of switches above, and are passed over. Or `leaf1: node[001-032]`, a leaf a line. A
    node on two leaves has that of the first line. "#" begins a comment.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return Missing(Why.MALFORMED, "no text")
    found: dict[str, str] = {}
    for number, raw in enumerate(text.splitlines()[:_LINES], 1):
        line = raw.partition("#")[0].strip()
        if not line:
            continue
        leaf, nodes = _slurm(line) if "=" in line else _simple(line)
        if leaf is None:
            return Missing(Why.MALFORMED, f"line {number}: {shown(line)} names no leaf")
        if nodes is None:
            continue
        try:
            for node in spread(nodes):
                found.setdefault(node, leaf)
        except NotNodes as error:
            return Missing(Why.MALFORMED, f"line {number}: {error}")
    return found or Missing(Why.ABSENT, "no line with a leaf and its nodes")


def _slurm(line: str) -> tuple[str | None, str | None]:
    words = {}
    for word in line.split():
        key, _, value = word.partition("=")
        words[key.lower()] = value
    return words.get("switchname") or None, words.get("nodes")


def _simple(line: str) -> tuple[str | None, str | None]:
    leaf, colon, nodes = line.partition(":")
    return (leaf.strip() or None, nodes.strip()) if colon else (None, None)
