"""python -m campaign: attacks rdmadiag, and counts what did not hold.

Exit codes: 0 all held, 1 something did not, or a campaign could not run; 64 usage.
"""

import argparse
import importlib
import os
import pkgutil
import platform
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import campaign
from campaign.apart import apart
from campaign.result import Result, table

SHORT_SECONDS: Final = 300.0
LONG_HOURS: Final = 3.0
_GRACE_SECONDS: Final = (
    1200.0  # after the last input was begun: one that has not ended then is ended
)
_SHOWN: Final = 100


def main() -> int:
    """0, or 1 after a violation."""
    names = campaigns()
    parser = argparse.ArgumentParser(prog="python -m campaign", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(names)}")
    parser.add_argument("--short", action="store_true", help="a sample of the inputs: what CI runs")
    parser.add_argument("--seed", type=int, metavar="N", help="default: another one each time")
    parser.add_argument(
        "--hours", type=float, default=LONG_HOURS, help="of the long form: no input is begun later"
    )
    parser.add_argument("--jobs", type=int, default=1, help="campaigns that run side by side")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep what broke a property there")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the table there, too")
    options = parser.parse_args()
    if unknown := set(options.names) - set(names):
        print(f"no campaign {', '.join(sorted(unknown))}; there are: {', '.join(names)}")
        return 64
    seed = random.SystemRandom().randrange(2**31) if options.seed is None else options.seed
    out = options.out or Path(tempfile.mkdtemp(prefix="rdmadiag-campaign-"))
    seconds = SHORT_SECONDS if options.short else options.hours * 3600

    def one(name: str) -> Result:
        folder = out / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        grace = 0 if options.short else _GRACE_SECONDS
        result = apart(name, options.short, seed, folder.absolute(), seconds, grace)
        _show(result)
        return result

    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(one, options.names or names))
    text = _document(results, seed, short=options.short)
    if options.table:
        options.table.write_text(text, encoding="utf-8")
    print(text, end="")
    broken = [result for result in results if result.violations]
    for result in broken:  # once more: a log of CI may be read from its end
        _show(result)
    if options.out is None:
        if broken:
            print(f"what broke them: {out}", file=sys.stderr)
        else:
            shutil.rmtree(out)
    return int(bool(broken))


def campaigns() -> list[str]:
    """The modules of this folder that have a `run`."""
    found = (each.name for each in pkgutil.iter_modules(campaign.__path__))
    return [
        name
        for name in sorted(found)
        if name != "__main__" and hasattr(importlib.import_module(f"campaign.{name}"), "run")
    ]


def _show(result: Result) -> None:
    violations = result.violations
    print(
        f"{result.name}: {result.inputs:,} inputs, {len(violations)} violations,"
        f" {result.seconds:.0f} s",
        file=sys.stderr,
    )
    for each in violations[:_SHOWN]:
        print(f"  {each}", file=sys.stderr)
    if len(violations) > _SHOWN:
        print(f"  and {len(violations) - _SHOWN} more", file=sys.stderr)


def _document(results: Sequence[Result], seed: int, *, short: bool) -> str:
    form = " in the short form" if short else ""
    return (
        "# What the campaigns found\n\n"
        f"Taken{form} on {os.cpu_count()} CPUs, {platform.machine()},"
        f" Python {platform.python_version()}, {platform.system()}; seed {seed}.\n\n"
        f"{table(results)}"
    )


if __name__ == "__main__":
    sys.exit(main())
