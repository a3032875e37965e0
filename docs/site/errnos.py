"""A page an errno that has been traced to causes, and a page a stage of a connection."""

from collections.abc import Iterator
from typing import Final

from docs.markdown import table
from rdmadiag.explain.calls import ANY, after_call, known
from rdmadiag.explain.lookup import PLACES, STAGES
from rdmadiag.explain.remedies import fill
from rdmadiag.facts.errnos import ERRNOS, Platform, errno_name

_PLATFORMS: Final[tuple[Platform, ...]] = ("linux", "darwin")
_NAMES: Final = {"linux": "Linux", "darwin": "macOS"}

CALLS: Final = {
    "connect": ("TCP connect", "The two ends meet over TCP, before anything of RDMA."),
    "open": ("ibv_open_device", "The device is opened through its node in /dev/infiniband."),
    "event_channel": (
        "rdma_create_event_channel",
        "The connection manager is opened through /dev/infiniband/rdma_cm.",
    ),
    "bind": ("rdma_bind_addr", "A local address is taken: it decides the device."),
    "listen": ("rdma_listen", "An address and a port are waited at."),
    "resolve_address": (
        "rdma_resolve_addr",
        "The peer's address leads to a device, a source address and a MAC address.",
    ),
    "resolve_route": ("rdma_resolve_route", "The path to the peer is asked for."),
    "alloc_pd": ("ibv_alloc_pd", "A protection domain is made: what belongs together."),
    "reg_mr": ("ibv_reg_mr", "Memory is pinned and made known to the device."),
    "create_cq": ("ibv_create_cq", "A completion queue is made: where results arrive."),
    "create_qp": ("ibv_create_qp", "A queue pair is made, in the state RESET."),
    "init": ("ibv_modify_qp to INIT", "The queue pair gets a port, a partition and rights."),
    "rtr": (
        "ibv_modify_qp to RTR",
        "The queue pair gets its peer: the GID index, the path MTU, the peer's number.",
    ),
    "rts": ("ibv_modify_qp to RTS", "The queue pair gets its timers, and may send."),
    "establish": ("rdma_connect, rdma_accept", "The connection manager takes both ends to RTS."),
    "join": ("rdma_join_multicast", "A multicast group is joined."),
    "data": ("ibv_post_send, ibv_poll_cq", "Messages are sent, and completions read."),
    "disconnect": ("rdma_disconnect", "One end says that it ends."),
    "teardown": ("ibv_destroy_qp, …", "What was made is destroyed, the latest first."),
}
"""Stage → the call, and what happens in it."""


def traced() -> dict[str, set[tuple[Platform, int]]]:
    """Name of an errno → where it has that name and a known cause; 0 is no errno."""
    found: dict[str, set[tuple[Platform, int]]] = {}
    for platform in _PLATFORMS:
        for stage in (*STAGES, ANY):
            for number in known(stage, platform):
                if number:
                    found.setdefault(errno_name(number, platform), set()).add((platform, number))
    return found


def errno_pages() -> dict[str, str]:
    """Place → page."""
    pages = {"errnos/index.md": _errno_index()}
    return pages | {f"errnos/{name}.md": _errno(name) for name in sorted(traced())}


def stage_pages() -> dict[str, str]:
    """Place → page."""
    return {"stages/index.md": _stage_index()} | {
        f"stages/{stage}.md": _stage(stage) for stage in STAGES
    }


def _errno_index() -> str:
    with_page = set(traced())
    names: dict[str, dict[str, tuple[int, str]]] = {}
    for platform in _PLATFORMS:
        for number, (name, text) in ERRNOS[platform].items():
            names.setdefault(name, {})[platform] = (number, text)
    rows = [
        (
            f"[{name}]({name}.md)" if name in with_page else name,
            *(str(at[each][0]) if each in at else "" for each in _PLATFORMS),
            next(iter(at.values()))[1],
        )
        for name, at in sorted(names.items())
    ]
    return (
        "# Errnos\n\nThe same number means other things on Linux and on macOS: 96 is `ENODATA` "
        "on a Mac, `EPFNOSUPPORT` on Linux. Those with a page have been traced to causes, by "
        "[stage](../stages/index.md). `rdmadiag explain errno NUMBER` says the same.\n\n"
        f"{table(('name', 'Linux', 'macOS', 'text'), rows)}"
    )


def _errno(name: str) -> str:
    places = sorted(traced()[name], reverse=True)
    numbers = ", ".join(f"{number} on {_NAMES[platform]}" for platform, number in places)
    text = next(ERRNOS[platform][number][1] for platform, number in places)
    parts = [f"# {name}\n\n**{text}**: {numbers}.\n"]
    for platform, number in places:
        asked = f"rdmadiag explain errno {number} --platform {platform}"
        parts.append(f"\n## On {_NAMES[platform]}\n\n`{asked}` says the same on a host.\n")
        for stage in (*STAGES, ANY):
            if number in known(stage, platform):
                parts += _causes(platform, stage, number, f"### {_stage_link(stage, '../')}")
    return "".join(parts)


def _stage_link(stage: str, up: str) -> str:
    return "At any call" if stage == ANY else f"At [{stage}]({up}stages/{stage}.md)"


def _causes(platform: Platform, stage: str, number: int, heading: str) -> Iterator[str]:
    rows = [(each.text, f"`{each.label}`") for each in known(stage, platform)[number]]
    yield f"\n{heading}\n\n{table(('likely cause', 'label'), rows)}"
    lines = () if stage == "connect" else after_call(number, stage, platform)
    if lines:
        yield "\n```text\n" + "".join(f"{line}\n" for line in fill(lines, PLACES)) + "```\n"


def _stage_index() -> str:
    rows = [
        (str(number), f"[{stage}]({stage}.md)", f"`{CALLS[stage][0]}`", CALLS[stage][1])
        for number, stage in enumerate(STAGES, start=1)
    ]
    return (
        "# Stages\n\nA connection is made step by step, and a failure belongs to the step that it "
        "happened in: the same errno means other things at another one. `rdmadiag pingpong` names "
        "the stage, `rdmadiag explain --stage` takes it.\n\n"
        "![[qp-states]]\n\n"
        f"{table(('', 'stage', 'call', 'what happens'), rows)}"
    )


def _stage(stage: str) -> str:
    call, text = CALLS[stage]
    parts = [f"# {stage}\n\n**`{call}`** {text[0].lower()}{text[1:]}\n".replace("** ", "**: ", 1)]
    count = 0
    for platform in _PLATFORMS:
        found = known(stage, platform)
        if found:
            parts.append(f"\n## On {_NAMES[platform]}\n")
        for number in sorted(found):
            count += 1
            name = errno_name(number, platform)
            heading = f"### [{name}](../errnos/{name}.md)" if number else "### Without an errno"
            parts += _causes(platform, stage, number, heading)
    if not count:
        parts.append("\nNo errno of this stage has been traced to a cause of its own.\n")
    return "".join(parts)
