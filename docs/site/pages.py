"""Every page of the site, and where it stands in the navigation."""

import re
from collections.abc import Callable, Mapping
from inspect import getdoc
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from docs.blocks import Block, blocks
from docs.markdown import table
from docs.site.drawings import with_drawings
from docs.site.errnos import errno_pages, stage_pages
from docs.site.links import outside_fences, relinked
from docs.site.rules import GROUPS, group_of, rule_pages
from docs.stacks import section
from rdmadiag.gid.registry import files, of_file
from rdmadiag.preflight.rules import CATALOGUE
from rdmadiag.preflight.verdict import Finding

DOCS: Final = Path(__file__).parents[1]
TEXT: Final = Path(__file__).parent / "text"

Nav = list[Any]
"""As mkdocs.yml has it: places of pages, and {heading: [...]}."""

PLACES: Final = {
    "diff.md": "how-to/diff.md",
    "redaction.md": "how-to/redaction.md",
    "expectations.md": "how-to/expectations.md",
    "fleet.md": "how-to/fleet.md",
    "pingpong.md": "how-to/pingpong.md",
    "mcp.md": "how-to/mcp.md",
    "watch.md": "how-to/watch.md",
    "deploy/install.md": "how-to/install.md",
    "deploy/slurm.md": "how-to/slurm.md",
    "deploy/watch.md": "how-to/watch_unit.md",
    "deploy/kubernetes.md": "how-to/kubernetes.md",
    "deploy/node_exporter.md": "how-to/node_exporter.md",
    "deploy/nagios.md": "how-to/nagios.md",
    "deploy/github.md": "how-to/github.md",
    "rules.md": "rules/index.md",
    "stacks.md": "stacks/index.md",
    "commands.md": "reference/commands.md",
    "exit_codes.md": "reference/exit_codes.md",
    "explain.md": "reference/explain.md",
    "python.md": "reference/python.md",
    "verbs.md": "reference/verbs.md",
    "object_chain.md": "reference/object_chain.md",
    "x_rdma.md": "reference/x_rdma.md",
    "counterparts.md": "reference/counterparts.md",
    "shown.md": "reference/shown.md",
}
"""Page of docs/ → where it stands on the site."""

_OF_THE_SITE: Final = ("rules.md", "stacks.md")
"""Pages of docs/ that the site has in many pieces."""

_WRITTEN: Final = {
    "Start": ("linux", "mac", "slurm", "kubernetes", "two-hosts"),
    "How to": ("what-failed", "gid-index"),
    "Understand": ("path", "gid-index", "rtr", "unknown"),
}
_FOLDERS: Final = {"Start": "tutorials", "How to": "how-to", "Understand": "explanation"}


def pages(
    run: Callable[[str, str], str] | None = None,
    examples: Mapping[str, tuple[str, Finding]] | None = None,
) -> dict[str, str]:
    """Place → Markdown. With `run` the command blocks are run, by page and text."""
    made = _source(examples or {}) | {"not-run.md": _not_run()}
    if run is not None:
        made = {place: run(place, text) for place, text in made.items()}
    return {place: with_drawings(outside_fences(text, _for_site)) for place, text in made.items()}


def command_blocks() -> list[Block]:
    """Those of every page, in the order of the pages; raises BlockFailed as `blocks` does."""
    return [block for place, text in _source().items() for block in blocks(place, text)]


def _source(examples: Mapping[str, tuple[str, Finding]] = MappingProxyType({})) -> dict[str, str]:
    """Place → Markdown with its blocks as they are written, of every page but that about them."""
    made = {"index.md": _read(TEXT / "index.md")}
    made |= {place: _read(TEXT / place) for place in _text_places()}
    made |= rule_pages(examples) | _stack_pages() | errno_pages() | stage_pages()
    for source, place in PLACES.items():
        if source not in _OF_THE_SITE:
            made[place] = relinked(_read(DOCS / source), source, place, PLACES)
    return made


def nav() -> Nav:
    """The navigation: every page stands in it once."""
    rules: Nav = ["rules/index.md"]
    for heading in GROUPS:
        codes = (rule.code for rule in CATALOGUE.values() if group_of(rule) == heading)
        rules.append({heading: [f"rules/{code}.md" for code in codes]})
    reference = [place for place in PLACES.values() if place.startswith("reference/")]
    lent = [place for place in PLACES.values() if place.startswith("how-to/")]
    return [
        {"Home": "index.md"},
        {"Start": _section("Start")},
        {"How to": [*_section("How to"), *lent]},
        {"Rules": rules},
        {"Stacks": _indexed("stacks", [f"stacks/{name}.md" for name in files()])},
        {
            "Errors": [
                {"Errnos": _indexed("errnos", sorted(set(errno_pages())))},
                {"Stages": _indexed("stages", list(stage_pages()))},
            ]
        },
        {"Understand": _section("Understand")},
        {"Reference": [*reference, "not-run.md"]},
    ]


def _indexed(folder: str, places: list[str]) -> Nav:
    index = f"{folder}/index.md"
    return [index, *(place for place in places if place != index)]


def _section(heading: str) -> Nav:
    return [f"{_FOLDERS[heading]}/{name}.md" for name in _WRITTEN[heading]]


def _text_places() -> tuple[str, ...]:
    return tuple(
        f"{_FOLDERS[heading]}/{name}.md" for heading, names in _WRITTEN.items() for name in names
    )


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _stack_pages() -> dict[str, str]:
    whole = _read(DOCS / "stacks.md")
    found = {}
    rows = []
    for name in files():
        place = f"stacks/{name}.md"
        text = section(name).strip().removeprefix("## ")
        found[place] = f"# {text}\n"
        titles = ", ".join(stack.title for stack in of_file(name))
        rows.append((f"[{titles}]({name}.md)", _first_line(name)))
    head = relinked(whole.partition("\n## ")[0], "stacks.md", "stacks/index.md", PLACES)
    title, _, rest = head.partition("\n\n")
    found["stacks/index.md"] = f"{title}\n\n{table(('stack', 'picks'), rows)}\n{rest}\n"
    return found


def _first_line(name: str) -> str:
    from importlib import import_module

    text = (getdoc(import_module(f"rdmadiag.gid.stacks.{name}")) or "").partition("\n")[0]
    return text.partition(": ")[2] or text


def _not_run() -> str:
    rows = [
        (
            f"[{block.page.removesuffix('.md')}]({block.page})",
            "<br>".join(map(_code, block.commands)),
            block.needs,
        )
        for block in command_blocks()
        if block.needs
    ]
    return (
        "# What is not run, and not asked\n\nEvery other block of commands on this site is run "
        "when it is built, and what it printed stands below it; examples in Python are run by "
        "tests. These need something that a build has not:\n\n"
        f"{table(('page', 'commands', 'needs'), rows)}\n"
        "Remedies, on the pages of rules, errnos and stages, are lines for a host with that fault: "
        "none of them is run.\n\n## Links\n\nLinks within the site are checked when it is "
        "built, headings included. Links to other sites are not: a build fetches nothing. "
        "Those to files on GitHub were looked up by hand in November 2026.\n"
    )


def _code(command: str) -> str:
    """In a cell of a table, where a bar ends it."""
    return f"`{command}`".replace("|", "\\|")


_BEFORE_LIST: Final = re.compile(r"^(?![-*|#> ]|\d+\. )(.+)\n(?=(?:[-*]|\d+\.) )", re.MULTILINE)


_ROW: Final = re.compile(r"^\|.*$", re.MULTILINE)
_SPAN: Final = re.compile(r"`[^`]*`")


def _for_site(text: str) -> str:
    """What Python-Markdown takes otherwise than GitHub does: lists, bars in the code of a table."""

    def row(found: re.Match[str]) -> str:
        return _SPAN.sub(lambda span: span[0].replace("\\|", "|"), found[0])

    return _ROW.sub(row, _BEFORE_LIST.sub(r"\1\n\n", text))
