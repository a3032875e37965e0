"""python -m docs.site [FOLDER]: builds the site there, in build/site by default.

Runs every command block, checks every link, builds with MkDocs Material (the dependency group
`site`), and refuses a page that would load anything from elsewhere. Needs no network.
"""

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import rdmadiag
from docs.blocks import BlockFailed, with_output
from docs.site.links import broken, elsewhere
from docs.site.pages import command_blocks, nav, pages
from rdmadiag.preflight.verdict import Finding
from rdmadiag.samples import samples

_ASSETS: Final = Path(__file__).parent / "assets"
_DEFAULT: Final = Path(__file__).parents[2] / "build" / "site"

_LOADED: Final = re.compile(
    r"""<(?:script|img|iframe|source|audio|video|embed)\b[^>]*\bsrc=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b[^>]*\brel=["']?(?:stylesheet|preconnect|preload|icon|dns-prefetch)[^>]*"""
    r"""\bhref=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|@import\s+(?:url\()?["']?((?:https?:)?//[^"'\s)]+)"""
    r"""|url\(["']?((?:https?:)?//[^"'\s)]+)"""
)
"""What a browser would fetch by itself; a link that a reader may follow is none."""


def main() -> int:
    """Builds; 1 with a line for each thing that is wrong."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else _DEFAULT
    start = time.monotonic()
    try:
        made = pages(with_output, _examples())
    except BlockFailed as error:
        print(error, file=sys.stderr)
        return 1
    wrong = list(broken(made))
    shutil.rmtree(folder, ignore_errors=True)
    source = folder / "pages"
    for place, text in made.items():
        (source / place).parent.mkdir(parents=True, exist_ok=True)
        (source / place).write_text(text, encoding="utf-8")
    shutil.copytree(_ASSETS, source / "assets")
    (folder / "mkdocs.yml").write_text(json.dumps(_config(), indent=1), encoding="utf-8")
    found = command_blocks()
    run = sum(not block.needs for block in found)
    print(f"{len(made)} pages; {run} command blocks run in {time.monotonic() - start:.0f} s")
    print(f"links: {len(wrong)} broken; {len(elsewhere(made))} of other sites, not fetched")
    for block in found:
        if block.needs:
            print(f"not run, needs {block.needs}: {block.page}: {'; '.join(block.commands)}")
    wrong += _built(folder) or _loaded(folder / "html")
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"built in {time.monotonic() - start:.0f} s. The search needs a server:")
    print(f"{sys.executable} -m http.server --bind 127.0.0.1 --directory {folder / 'html'}")
    return 1 if wrong else 0


def _examples() -> dict[str, tuple[str, Finding]]:
    """Rule → the first sample that has a finding of it, and that finding."""
    found: dict[str, tuple[str, Finding]] = {}
    for sample in samples():
        verdict = rdmadiag.judge(rdmadiag.collect(sample=sample))
        for finding in verdict.findings:
            found.setdefault(finding.rule, (sample, finding))
    return found


def _built(folder: Path) -> list[str]:
    ran = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", "mkdocs.yml"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if ran.returncode == 0:
        return []
    return [f"mkdocs exits {ran.returncode}", *(ran.stdout + ran.stderr).splitlines()]


def _loaded(html: Path) -> list[str]:
    """One line for each address outside the site that a page would load."""
    found = []
    for path in sorted(html.rglob("*")):
        if path.suffix in (".html", ".css"):
            for match in _LOADED.finditer(path.read_text(encoding="utf-8")):
                address = next(filter(None, match.groups()))
                found.append(f"{path.relative_to(html)} would load {address}")
    return found


def _config() -> dict[str, object]:
    # The first follows the system, also after the first visit, which Material remembers.
    palette = [
        {
            "media": f"(prefers-color-scheme{word})",
            "primary": "indigo",
            "accent": "deep orange",
            "toggle": {"icon": f"material/brightness-{icon}", "name": following},
            **scheme,
        }
        for word, scheme, icon, following in (
            ("", {}, "auto", "Light colours"),
            (": light", {"scheme": "default"}, "7", "Dark colours"),
            (": dark", {"scheme": "slate"}, "4", "The system's colours"),
        )
    ]
    return {
        "site_name": "rdmadiag",
        "site_description": "Says what will fail with RDMA on a host before it fails.",
        "docs_dir": "pages",
        "site_dir": "html",
        "use_directory_urls": False,
        "nav": nav(),
        "theme": {
            "name": "material",
            "font": False,
            "icon": {"logo": "material/lan-check"},
            "palette": palette,
            "features": [
                "content.code.copy",
                "navigation.indexes",
                "navigation.prune",
                "navigation.tabs",
                "navigation.top",
                "search.highlight",
                "search.suggest",
                "toc.follow",
            ],
        },
        "extra": {"generator": False},
        "extra_css": ["assets/site.css"],
        "plugins": ["search"],
        "validation": {"links": {"anchors": "warn"}},
        "markdown_extensions": [
            "tables",
            "attr_list",
            {"toc": {"permalink": True, "toc_depth": 3}},
            {"pymdownx.highlight": {"use_pygments": True, "pygments_lang_class": True}},
            "pymdownx.superfences",
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
