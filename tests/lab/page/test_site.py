"""The documentation site in a real browser: no page scrolls sideways, at any width, light or dark.

Each is kept as a picture, to be looked at.
"""

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from lab.chromium import Browser
from lab.places import CHECKOUT

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None, reason="no MkDocs here: pip install --group site"
)

BUILD_SECONDS = 600
TALLEST = 12_000  # pixels of a picture

WIDTHS = (400, 900, 1600)
PAGES = (
    "index",
    "tutorials/linux",
    "tutorials/kubernetes",
    "how-to/diff",
    "how-to/fleet",
    "rules/index",
    "rules/no-ipv4-gid",
    "stacks/nccl",
    "errnos/ENODATA",
    "stages/index",
    "explanation/path",
    "not-run",
)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address; built, and served to this machine alone, as its search needs it."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "docs.site", str(folder)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder / "html")))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def elsewhere(browser: Browser, site: str) -> list[str]:
    """What the page asked of anybody else."""
    asked = [
        event["params"]["request"]["url"]
        for event in browser.events
        if event.get("method") == "Network.requestWillBeSent"
    ]
    return [url for url in asked if not url.startswith((site, "data:", "blob:"))]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_its_window_and_loads_nothing_from_elsewhere(
    browser: Browser, site: str, out: Path, page: str, width: int, dark: bool
) -> None:
    browser.shape(width, dark=dark)
    browser.open(f"{site}/{page}.html")
    assert browser.evaluate("document.querySelector('h1') !== null")
    scheme = browser.evaluate("document.body.getAttribute('data-md-color-scheme')")
    assert scheme == ("slate" if dark else "default")
    short = browser.evaluate("document.documentElement.scrollHeight") < TALLEST
    name = f"site-{page.replace('/', '-')}-{width}-{'dark' if dark else 'light'}.png"
    browser.screenshot(out / name, whole=short)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert elsewhere(browser, site) == []


def test_the_search_finds_a_rule(browser: Browser, site: str, out: Path) -> None:
    browser.shape(1600, dark=False)
    browser.open(f"{site}/index.html")
    browser.evaluate("document.querySelector('.md-search__input').focus()")
    browser.press(*"link-not-up")
    found = browser.evaluate(
        """new Promise((done) => {
          const look = () => {
            const found = document.querySelector(".md-search-result__item a");
            if (found) done(found.getAttribute("href")); else setTimeout(look, 50);
          };
          look();
        })"""
    )
    browser.screenshot(out / "site-search.png")
    assert "rules/link-not-up.html" in found
