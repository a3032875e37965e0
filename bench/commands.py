"""What is measured: rdmadiag as users start it, and the imports that it cannot do without."""

import os
import sys
from collections.abc import Sequence

from bench.child import Command

ANY_STATUS = frozenset({0, 1, 2, 3})  # preflight's: each is a verdict
GIDS_KEY = b'"gid_table_length":'  # once a port in `gids --json`
STATE_KEY = b"rdmadiag_port_state_id{"  # once a port in `preflight -o prometheus`
VERDICT_KEY = b'"route_gid_index":'  # once a port in `preflight --json`


def rdmadiag(*arguments: str, name: str | None = None) -> Command:
    """The installed program beside the interpreter that runs the bench."""
    program = os.path.join(os.path.dirname(sys.executable), "rdmadiag")
    return Command(name or " ".join(("rdmadiag", *arguments)), (program, *arguments))


def gids(*arguments: str, ports: int, name: str | None = None) -> Command:
    """`rdmadiag gids --json …` of a machine with so many ports, all tables readable."""
    made = rdmadiag("gids", "--json", *arguments, name=name)
    return Command(made.name, made.argv, key=GIDS_KEY, count=ports)


def preflight(*arguments: str, ports: int | None, name: str | None = None) -> Command:
    """`rdmadiag preflight --json …`, whatever its verdict; None: on a machine not known here."""
    made = rdmadiag("preflight", "--json", *arguments, name=name)
    if ports is None:
        return Command(made.name, made.argv, ANY_STATUS)
    return Command(made.name, made.argv, ANY_STATUS, VERDICT_KEY, ports)


def unjudged(*arguments: str, ports: int | None) -> Command:
    """The same report from the same program, whose rules say nothing and are not imported."""
    code = (
        "import sys, rdmadiag.preflight.judge as judge; "
        "judge.check; judge.check = lambda case: judge.check.none; "  # by the name that it calls
        "from rdmadiag.preflight.rules import Checked; judge.check.none = Checked((), (), ()); "
        "from rdmadiag.__main__ import main; sys.exit(main())"
    )
    argv = (sys.executable, "-c", code, "preflight", "--json", *arguments)
    count = 0 if ports is None else ports
    return Command("the report alone", argv, ANY_STATUS, VERDICT_KEY if count else b"", count)


def without_sources(names: Sequence[str], *arguments: str, ports: int | None) -> Command:
    """The same program without these sources, as if their rows of the table were gone."""
    code = (
        "import sys, rdmadiag.sources.table as table; "
        f"names = {tuple(names)}; "
        "table.SOURCES = tuple(each for each in table.SOURCES if each.name not in names); "
        "table.BY_NAME = {(each.platform, each.name): each for each in table.SOURCES}; "
        "from rdmadiag.__main__ import main; sys.exit(main())"
    )
    argv = (sys.executable, "-c", code, "preflight", "--json", *arguments)
    count = 0 if ports is None else ports
    key = VERDICT_KEY if count else b""
    return Command("without these sources", argv, ANY_STATUS, key, count)


def textfile(*arguments: str, ports: int) -> Command:
    """`rdmadiag preflight -o prometheus …` of a machine with so many ports."""
    made = rdmadiag("preflight", "-o", "prometheus", *arguments)
    return Command(made.name, made.argv, ANY_STATUS, STATE_KEY, ports)


def imports(*modules: str) -> Command:
    """`python -c "import …"` with the same interpreter."""
    code = f"import {', '.join(modules)}"
    return Command(f'python -c "{code}"', (sys.executable, "-c", code))
