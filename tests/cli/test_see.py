"""Where a finding's page is: its place in JSON, its address in text where this host knows one."""

from collections.abc import Callable
from typing import Any

import pytest

# Children that read what a user names: tests/host/test_given_file.py, test_isolation.py.
pytestmark = pytest.mark.usefixtures("in_this_process")

Rdmadiag = Callable[..., Any]
BASE = "https://docs.example.org/rdmadiag/"
PAGE = "https://docs.example.org/rdmadiag/rules/provider-wedged.html"
WEDGED = ("preflight", "--sample", "mac-wedged")


@pytest.fixture(autouse=True)
def without_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RDMADIAG_DOCS", raising=False)


def test_in_json_it_is_the_place_on_the_site_whoever_printed_it(
    rdmadiag: Rdmadiag, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = rdmadiag(*WEDGED, "--json").document["verdict"]["findings"]
    monkeypatch.setenv("RDMADIAG_DOCS", BASE)
    known = rdmadiag(*WEDGED, "--json").document["verdict"]["findings"]
    for findings in (plain, known):
        assert {each["see"] for each in findings} == {
            f"rules/{each['rule']}.html" for each in findings
        }


def test_text_has_the_address_where_it_is_known_and_nothing_that_leads_nowhere(
    rdmadiag: Rdmadiag, monkeypatch: pytest.MonkeyPatch
) -> None:
    for verbose in ((), ("--verbose",)):
        assert "  see rdmadiag explain provider-wedged\n" in rdmadiag(*WEDGED, *verbose).out
    assert rdmadiag("explain", "provider-wedged").code == 0, "it is there on every host"
    monkeypatch.setenv("RDMADIAG_DOCS", BASE)
    out = rdmadiag(*WEDGED).out
    assert out.count("  see ") == 1
    assert f"  see {PAGE}\n" in out
    monkeypatch.setenv("RDMADIAG_DOCS", " ")
    assert "  see rdmadiag explain provider-wedged\n" in rdmadiag(*WEDGED).out


def test_explain_ends_with_it(rdmadiag: Rdmadiag, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("explain", "provider-wedged"), ("explain", "errno", "ETIMEDOUT", "--platform", "linux")
    places = [rdmadiag(*each, "--json").document["answers"][0]["see"] for each in asked]
    assert places == ["rules/provider-wedged.html", "errnos/ETIMEDOUT.html"]
    assert "see " not in rdmadiag(*asked[0]).out.splitlines()[-1]
    monkeypatch.setenv("RDMADIAG_DOCS", "/srv/docs/index.html")
    for each, place in zip(asked, places, strict=True):
        assert rdmadiag(*each).out.endswith(f"see /srv/docs/{place}\n")
    reason = rdmadiag("explain", "route_netdev_down", "--json").document["answers"][0]
    assert reason.get("see") is None


def test_an_address_of_the_environment_is_shown_and_not_obeyed(
    rdmadiag: Rdmadiag, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RDMADIAG_DOCS", "https://docs.example.org/\x1b[31m")
    assert "\x1b" not in rdmadiag(*WEDGED).out
