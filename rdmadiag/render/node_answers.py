"""What nodes answered: alike ones together as text, or a JSON document a line."""

import json
import re
from collections.abc import Collection
from typing import Any

from rich.console import Console

from rdmadiag.fleet.node_answer import Ending, NodeAnswer
from rdmadiag.fleet.nodes import fold
from rdmadiag.render import json as as_json
from rdmadiag.render.console import Text, console, say, steps
from rdmadiag.render.plain import counted


def show(
    answers: Collection[NodeAnswer], name: str, with_copy: str = "", to: Console | None = None
) -> None:
    """How many answered, why others did not, and each text once with its nodes.

    `with_copy`: the command line that needs no rdmadiag there.
    """
    out = to or console()
    silent = [answer for answer in answers if answer.why is not None]
    said = len(answers) - len(silent)
    say(out, Text(f"{said} of {counted(len(answers), 'node')} answered {name}"))
    whys: dict[str, list[NodeAnswer]] = {}
    for answer in silent:
        assert answer.why is not None
        whys.setdefault(_without_name(answer.why, answer.node), []).append(answer)
    for why, nodes in _largest_first(whys):
        say(out, f"no answer from {fold(each.node for each in nodes)}: {why}")
    if with_copy and any(answer.ending is Ending.NOT_INSTALLED for answer in silent):
        steps(out, [with_copy])
    texts: dict[str, list[NodeAnswer]] = {}
    for answer in answers:
        if answer.why is None:
            text = answer.stdout.decode("utf-8", "backslashreplace")
            texts.setdefault(text, []).append(answer)
    for text, nodes in _largest_first(texts):
        out.print()
        count = f" ({len(nodes)})" if len(nodes) > 1 else ""
        say(out, f"{fold(each.node for each in nodes)}{count}:")
        for line in text.splitlines():
            out.print(Text(f"  {line}"), soft_wrap=True)


def _largest_first(groups: dict[str, list[NodeAnswer]]) -> list[tuple[str, list[NodeAnswer]]]:
    return sorted(groups.items(), key=lambda item: -len(item[1]))


def _without_name(text: str, node: str) -> str:
    """One sentence for all that differ in their name alone."""
    return re.sub(rf"(?<![\w.-]){re.escape(node)}(?![\w-])", "it", text)


def write(answers: Collection[NodeAnswer]) -> None:
    """A line of JSON for each node."""
    for answer in answers:
        document = _document(answer.stdout)
        text = answer.stdout.decode("utf-8", "backslashreplace")
        as_json.write(
            {
                "node": answer.node,
                "ending": answer.ending,
                "exit_code": answer.code,
                "why": answer.why,
                "document": document,
                "text": text if document is None and text else None,
                "stderr": answer.stderr.decode("utf-8", "backslashreplace"),
            }
        )


def _document(stdout: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(stdout)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
