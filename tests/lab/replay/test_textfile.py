"""promtool reads the textfile that the guest wrote, and the alerts beside it."""

from collections.abc import Callable
from typing import Any

from lab.deployed import DEPLOY
from lab.places import CHECKOUT
from lab.promtool import promtool

TEXTFILE = CHECKOUT / "lab" / "out" / "guest" / "recorded" / "rxe-healthy.prom"


def test_promtool_accepts_the_textfile(run: Callable[..., Any]) -> None:
    assert TEXTFILE.exists(), "run `python -m lab guest` first"
    script = f"{promtool()} check metrics < {TEXTFILE}"
    done = run(["sh", "-c", script], timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_promtool_accepts_the_alerts(run: Callable[..., Any]) -> None:
    rules = str(DEPLOY / "prometheus" / "rdmadiag.rules.yml")
    done = run([str(promtool()), "check", "rules", rules], timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
