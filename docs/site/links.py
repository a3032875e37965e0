"""Links of the pages: made to fit where each page stands on the site, and looked at."""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

_FENCE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_HEADING: Final = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
_ELSEWHERE: Final = re.compile(r"[a-z]+:")
_ADDRESS: Final = re.compile(r"(?:\]\(|<)(https?://[^()<>\s]+)[)>]")


def relinked(text: str, source: str, place: str, places: Mapping[str, str]) -> str:
    """A page of docs/ that stands at `place` on the site.

    `source` is its name in docs/, `places` has where each other page of docs/ stands. What is not
    on the site, such as a test, is named and no link.
    """

    def link(found: re.Match[str]) -> str:
        label, target = found[1], found[2]
        if _ELSEWHERE.match(target) or target.startswith("#"):
            return found[0]
        path, _, anchor = target.partition("#")
        name = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if name == "rules.md" and anchor:
            return f"[{label}]({relative(place, f'rules/{anchor}.md')})"
        if name not in places:
            return label
        return f"[{label}]({relative(place, places[name])}{anchor and f'#{anchor}'})"

    return outside_fences(text, lambda part: _LINK.sub(link, part))


def relative(place: str, target: str) -> str:
    """`target` as a page at `place` links to it."""
    return posixpath.relpath(target, posixpath.dirname(place) or ".")


def outside_fences(text: str, change: Callable[[str], str]) -> str:
    """`change` of the text between the blocks of code, which stay."""
    parts: list[str] = []
    end = 0
    for fence in _FENCE.finditer(text):
        parts += [change(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(text[end:])])


def broken(pages: Mapping[str, str]) -> Iterator[str]:
    """One line for each link that leads to no page, or to no heading of one."""
    headings = {place: set(_anchors(text)) for place, text in pages.items()}
    for place, text in pages.items():
        for _, target in _LINK.findall(_FENCE.sub("", text)):
            if _ELSEWHERE.match(target):
                continue
            path, _, anchor = target.partition("#")
            there = posixpath.normpath(posixpath.join(posixpath.dirname(place), path))
            there = there if path else place
            if there not in pages:
                yield f"{place}: {target}: no such page"
            elif anchor and anchor not in headings[there]:
                yield f"{place}: {target}: no such heading"


def elsewhere(pages: Mapping[str, str]) -> set[str]:
    """The addresses of other sites that pages link to; nobody asks whether they are there."""
    return {
        address for text in pages.values() for address in _ADDRESS.findall(_FENCE.sub("", text))
    }


def _anchors(text: str) -> Iterator[str]:
    """The ids that Python-Markdown's toc gives, whose slugify this is."""
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        plain = re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower()
        yield re.sub(r"[-\s]+", "-", plain)
