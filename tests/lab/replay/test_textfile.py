"""promtool reads the textfile that the guest wrote, and tries the alerts beside it."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.deployed import DEPLOY
from lab.places import CHECKOUT
from lab.promtool import promtool

TEXTFILE = CHECKOUT / "lab" / "out" / "guest" / "recorded" / "rxe-healthy.prom"
RULES = str(DEPLOY / "prometheus" / "rdmadiag.rules.yml")


def test_promtool_accepts_the_textfile(run: Callable[..., Any]) -> None:
    assert TEXTFILE.exists(), "run `python -m lab guest` first"
    script = f"{promtool()} check metrics < {TEXTFILE}"
    done = run(["sh", "-c", script], timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_promtool_accepts_the_alerts(run: Callable[..., Any]) -> None:
    done = run([str(promtool()), "check", "rules", RULES], timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


ON_A = {"instance": "a"}
M_1 = {"device": "m", "port": "1"}
ALERTS = {
    # alert → series (labels and values of each minute), minute when it fires, and when it has
    # cleared, what else it is labelled with, what a person reads
    "RdmaCritical": (
        {"rdmadiag_check_status": ({**ON_A, "check": "link-not-up", **M_1}, "2x30 0x60")},
        (11, 40),
        {"severity": "critical", "check": "link-not-up", **M_1},
        {
            "summary": "RDMA on a: link-not-up m",
            "description": "On that host: rdmadiag explain link-not-up",
        },
    ),
    "RdmaUnknown": (
        {"rdmadiag_check_status": ({**ON_A, "check": "source-failed"}, "3x40 0x60")},
        (31, 50),
        {"severity": "warning", "check": "source-failed"},
        {"summary": "RDMA on a could not be looked at: source-failed"},
    ),
    "RdmaChecksSkipped": (
        {"rdmadiag_checks_skipped": ({**ON_A, "why": "timeout"}, "7x40 0x60")},
        (31, 50),
        {"severity": "warning", "why": "timeout"},
        {
            "summary": "7 RDMA checks could not run on a: timeout",
            "description": "On that host: rdmadiag preflight --verbose",
        },
    ),
    "RdmaGidIndexMoved": (
        {"rdmadiag_gid_index_drift": ({**ON_A, **M_1}, "0 -2x5 0x60")},
        (3, 10),
        {"severity": "warning", **M_1},
        {"summary": "The route GID of m on a has moved"},
    ),
    "RdmaNotLookedAt": (
        {"rdmadiag_last_run_timestamp_seconds": (ON_A, "0x60 3600x60")},
        (50, 65),
        {"severity": "warning"},
        {"summary": "rdmadiag has not run on a for half an hour, or never"},
    ),
    "RdmaNotLookedAt of a host that never was": (
        {
            "node_infiniband_info": ({**ON_A, "job": "node", "device": "m"}, "1x90"),
            "rdmadiag_last_run_timestamp_seconds": ({**ON_A, "job": "node"}, "_x20 1200x60"),
        },
        (15, 30),
        {"severity": "warning", "job": "node"},
        {"summary": "rdmadiag has not run on a for half an hour, or never"},
    ),
}


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_fires_and_clears(name: str, run: Callable[..., Any], tmp_path: Path) -> None:
    """By Prometheus' own evaluation, a minute a step."""
    series, (fires, cleared), labels, annotations = ALERTS[name]
    alert, *_ = name.split()
    firing = {"exp_labels": {**ON_A, **labels}, "exp_annotations": annotations}
    unit = {
        "interval": "1m",
        "input_series": [
            {"series": f"{metric}{shown(own)}", "values": values}
            for metric, (own, values) in series.items()
        ],
        "alert_rule_test": [
            {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": expected}
            for minute, expected in ((0, []), (fires, [firing]), (cleared, []))
        ],
    }
    file = tmp_path / "alerts.json"  # JSON is YAML
    file.write_text(
        json.dumps({"rule_files": [RULES], "evaluation_interval": "1m", "tests": [unit]})
    )
    done = run([str(promtool()), "test", "rules", str(file)], timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def shown(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def test_every_alert_is_tried() -> None:
    written = re.findall(r"alert: (\w+)", Path(RULES).read_text(encoding="utf-8"))
    assert {name.partition(" ")[0] for name in ALERTS} == set(written)


def test_what_a_host_has_not_got_is_no_alarm(run: Callable[..., Any], tmp_path: Path) -> None:
    """Nor what it was not asked for."""
    series = [
        {"series": f"rdmadiag_checks_skipped{shown({**ON_A, 'why': why})}", "values": "7x60"}
        for why in ("absent", "unsupported", "not_collected")
    ]
    quiet = {"eval_time": "50m", "alertname": "RdmaChecksSkipped", "exp_alerts": []}
    unit = {"interval": "1m", "input_series": series, "alert_rule_test": [quiet]}
    file = tmp_path / "alerts.json"
    file.write_text(
        json.dumps({"rule_files": [RULES], "evaluation_interval": "1m", "tests": [unit]})
    )
    done = run([str(promtool()), "test", "rules", str(file)], timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
