"""What `fleet merge --html` writes of real reports, opened in a browser."""

import json
from collections.abc import Callable
from pathlib import Path

from lab.chromium import Browser

HOSTILE = "</script><script>window.hostile=1</script>"
IMAGE = '"><img src=x onerror=window.hostile=1>'


def test_a_folder_of_reports_becomes_a_page_that_names_every_host(
    browser: Browser, rdmadiag: Callable[..., tuple[int, str, str]], tmp_path: Path, out: Path
) -> None:
    reports = tmp_path / "reports"
    reports.mkdir()
    documents = {}
    for sample in ("roce-healthy", "infiniband-no-subnet-manager"):
        _, document, _ = rdmadiag("preflight", "--json", "--sample", sample)
        documents[sample] = json.loads(document)
    names = {f"node{number}": "roce-healthy" for number in range(1, 9)}
    names |= dict.fromkeys(("node9", HOSTILE, IMAGE), "infiniband-no-subnet-manager")
    for number, (name, sample) in enumerate(names.items()):
        document = documents[sample]
        document["host"]["hostname"] = name
        text = json.dumps(document)
        text = text.replace("mlx5_0", json.dumps(IMAGE)[1:-1]) if name == IMAGE else text
        (reports / f"{number}.json").write_text(text)
    file = tmp_path / "fleet.html"

    code, _, err = rdmadiag(
        *("fleet", "merge", str(reports), "--expect-hosts", "node[1-10]", "--html", str(file))
    )
    assert (code, err) == (2, "")

    browser.shape(1600, dark=False)
    browser.open(file)
    browser.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true })")
    browser.screenshot(out / "fleet-merge.png", whole=True)
    assert browser.evaluate("typeof window.hostile") == "undefined"
    said = browser.evaluate("document.querySelector('h1').textContent")
    assert said == "critical 8 of 12 hosts are fit"
    rows = browser.evaluate(
        "[...document.querySelectorAll('#rows tr')].map((row) => row.cells[0].textContent)"
    )
    assert set(rows) == {*names, "node10"}
    reasons = browser.evaluate("document.getElementById('reasons').innerText")
    assert "no-subnet-manager" in reasons
    assert "never_reported" in reasons
    complaints = ("Runtime.exceptionThrown", "Log.entryAdded")
    assert [event for event in browser.events if event.get("method") in complaints] == []
