"""A page a rule, under rules/CODE.md: its address stays as long as its code does."""

from collections.abc import Mapping
from typing import Final

from docs.markdown import table
from docs.shown import built, live, recorded
from rdmadiag.preflight.rules import CATALOGUE
from rdmadiag.preflight.rules.rule import Rule
from rdmadiag.preflight.verdict import Finding

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Devices and access": ("discovery", "access", "kinds", "provider", "sources", "witnesses"),
    "Ports and links": (
        *("ports", "ethernet", "flow_control", "optics", "bonds", "vfs", "device_health"),
        *("kernel_log", "pci", "speed"),
    ),
    "GIDs and stacks": (
        *("gids", "stacks", "stack_capabilities", "environment", "lossless", "lossless_unknown"),
    ),
    "Network and peers": (
        *("netdevs", "connection_manager", "peer_route", "traffic", "packet_filter"),
        *("ends_addresses", "ends_neighbours", "ends_netdevs", "ends_ports", "ends_programs"),
        *("ends_classes", "ends_tcp"),
        *("ends_ways", "bootstrap", "fleet_size", "process_limits", "neighbours", "naming"),
        *("programs", "hop_limits", "xdp"),
    ),
    "GPUs": ("gpu", "topology", "access_control"),
    "Macs": (
        *("mac_host", "mac_log", "thunderbolt_address", "thunderbolt_link"),
        "thunderbolt_resources",
    ),
    "Counters and resources": ("counters", "resources"),
    "Expectations": ("expected",),
}
"""Heading → the files of rdmadiag/preflight/rules whose rules stand below it."""

_EXITS: Final = {"info": 0, "warn": 1, "critical": 2, "unknown": 3}


def group_of(rule: Rule) -> str:
    """The heading that a rule stands below."""
    family = rule.function.__module__.partition("rules.")[2].split(".")[0]
    return next(heading for heading, families in GROUPS.items() if family in families)


def rule_pages(examples: Mapping[str, tuple[str, Finding]]) -> dict[str, str]:
    """Place → page; `examples` has for some rules a sample, and the finding that it gives."""
    return {"rules/index.md": _index()} | {
        f"rules/{rule.code}.md": _page(rule, examples.get(rule.code)) for rule in CATALOGUE.values()
    }


def _index() -> str:
    head = (
        f"# Rules\n\n{len(CATALOGUE)} rules judge what was read. A rule's code, and the address of "
        "its page, stay as they are.\n\nWhat each severity means, and what a rule does whose "
        "evidence is missing: [Why unknown is not ok](../explanation/unknown.md).\n"
    )
    parts = [head]
    for heading in GROUPS:
        rows = [
            (f"[{rule.code}]({rule.code}.md)", str(rule.severity), rule.title)
            for rule in CATALOGUE.values()
            if group_of(rule) == heading
        ]
        parts.append(f"\n## {heading}\n\n{table(('rule', 'severity', 'says'), rows)}")
    return "".join(parts)


def _page(rule: Rule, example: tuple[str, Finding] | None) -> str:
    code = _EXITS[rule.severity]
    parts = [
        f"# {rule.code}\n\n**{rule.title}.**\n\n{rule.meaning}\n\n",
        table(
            ("severity", "exit code of preflight", "needs"),
            [(str(rule.severity), str(code), ", ".join(rule.needs) or "nothing")],
        ),
        "\n## What to do\n\nWords in capitals stand for names of your host; `rdmadiag` prints them "
        "filled in.\n\n```text\n" + "".join(f"{line}\n" for line in rule.remedy) + "```\n",
    ]
    if example is not None:
        parts.append(_example(*example))
    parts.append(f"\n## Where it was seen\n\n{_shown(rule.code)}")
    if rule.needs:
        parts.append(
            "\n## Without its evidence\n\nWhere one of the things that it needs could not be read, "
            "the rule is skipped there: it finds nothing, and does not pass either.\n"
        )
    if rule.references:
        links = "".join(f"- <{each}>\n" for each in rule.references)
        parts.append(f"\n## References\n\n{links}")
    return "".join(parts)


def _example(sample: str, finding: Finding) -> str:
    rows = "".join(
        f"  {proof.source} {proof.subject}: {proof.value}\n" for proof in finding.evidence[:6]
    )
    return (
        f"\n## On a sample\n\n`rdmadiag preflight --sample {sample}` finds:\n\n"
        f"```text\n{finding.severity}  {finding.summary}\n{rows}```\n"
    )


def _shown(code: str) -> str:
    rows = (
        ("live, on a kernel of the lab", live().get(code)),
        ("recorded", recorded().get(code)),
        ("built from the specification", built().get(code)),
    )
    shown = [(kind, f"`{node.removeprefix('tests/')}`") for kind, node in rows if node]
    return table(("how", "by"), shown) + (
        "\nNo rule was seen on hardware: live means an emulated device.\n"
    )
