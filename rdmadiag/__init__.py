"""Diagnostics and preflight for RDMA hosts: reads everything, changes nothing.

>>> import rdmadiag
>>> report = rdmadiag.collect(sample="roce-healthy")
>>> rdmadiag.judge(report).status
<Status.OK: 'ok'>
"""

TYPE_CHECKING = False  # as in __main__: nothing is loaded before main() runs
if TYPE_CHECKING:
    from typing import Any, Final

    from rdmadiag.api import collect, differences, gids, judge, merge
    from rdmadiag.preflight.verdict import Verdict
    from rdmadiag.report import Report

__all__ = ["Report", "Verdict", "collect", "differences", "gids", "judge", "merge"]
__version__ = "0.1.0"

SCHEMA_VERSION: "Final" = "1.2"
"""Of documents. A new field is a minor step; one that went, or changed its meaning, a major one."""

_MODULES: "Final" = {
    "collect": "rdmadiag.api",
    "judge": "rdmadiag.api",
    "gids": "rdmadiag.api",
    "differences": "rdmadiag.api",
    "merge": "rdmadiag.api",
    "Report": "rdmadiag.report",
    "Verdict": "rdmadiag.preflight.verdict",
}


def __getattr__(name: str) -> "Any":
    """The public names, imported when they are first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
