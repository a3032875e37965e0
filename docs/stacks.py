"""docs/stacks.md: every stack's rule, the variables it reads, and where it was read."""

import re
from importlib import import_module
from inspect import getdoc

from docs.markdown import table
from rdmadiag.gid import stacks as folder
from rdmadiag.gid.registry import files, of_file
from rdmadiag.gid.stack import Stack
from rdmadiag.preflight.rules.stacks import RULES

_HEAD = """\
# Which GID index each stack picks

Generated from the code by `make docs`. `rdmadiag gids --explain` applies these rules to a host;
`--stack NAME[@VERSION]` looks at some. Each was read in the stack's own source, at the commit
named, and holds for the versions named. A GID is said to be IPv4 where it is `::ffff:a.b.c.d`.

An empty row is no error to most programs: `ibv_query_gid` gives sixteen zero bytes. Of the
variables, those of the process that looks count, or of another one: `--env-from PID|FILE`; of a
recorded host, those that were recorded. Most programs read an index with `strtol`, to which a
word, such as `auto`, is 0: a row like any other.

`.ports[].stacks[]` of `gids --explain --json`:

| name | what it is |
|---|---|
| `stack`, `version` | as `--stack` takes them; the range of versions that the rule holds for |
| `outcome` | `entry`, `empty` (row), `outside` (the table), `lid`, `fails`, `drops_port`, \
`not_used`, `unsupported` |
| `index`, `gid`, `type`, `scope`, `netdev` | the row; null where there is none |
| `advertised_index` | of the GID that the peer gets, where it is another |
| `why` | the step of the rule that decided |
| `problem` | what will go wrong; null for nothing that is known |
| `agrees` | whether it is the route GID's type and address |
| `pinned_by` | the variable that named the index |
| `assumed[]` | what the rule depends on and was not looked at |
| `source` | where the rule was read |

`--peer` prints `.pairs[]` with `local`, `remote` and `stacks[]`: `talks` is `yes`, `routed`,
`unknown` or `no`, with `why`.

What `preflight --stack NAME` says of a stack's choice: """


def stacks_page() -> str:
    """The page."""
    codes = ", ".join(f"[{rule.code}](rules.md#{rule.code})" for rule in RULES)
    mac = "[ipv4-gid-not-index-1](rules.md#ipv4-gid-not-index-1)"
    head = f"{_HEAD}{codes}; of JACCL, {mac} and [no-ipv4-gid](rules.md#no-ipv4-gid).\n"
    return head + "".join(section(name) for name in files())


def section(file: str) -> str:
    held = of_file(file)
    text = getdoc(import_module(f"{folder.__name__}.{file}")) or ""
    title, _, rest = text.partition("\n\n")
    names = ", ".join(f"`{stack.name}`" for stack in held)
    set_by = [f"- {stack.title}: {_set_by(stack)}\n" for stack in held]
    rows = [
        (stack.title, version.name, version.source or stack.source)
        for stack in held
        for version in stack.versions
    ]
    body = f"{_code(rest)}\n\n" if rest else ""
    sources = table(("stack", "versions", "source"), rows)
    return f"\n## {names}\n\n{_code(title)}\n\n{body}{''.join(set_by)}\n{sources}"


def _set_by(stack: Stack) -> str:
    reads = [f"`{name}`" for name in stack.variables if not stack.pin or name != stack.pin.variable]
    others = f"; it reads {', '.join(reads)}" if reads else ""
    if stack.pin is None:
        return f"set by: {stack.option}{others}"
    return f"set by: `{stack.pin.variable}`{others}"


_NAME = re.compile(r"(?<![`\w])_?[A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9]\b(?!`)")


def _code(text: str) -> str:
    """Names of variables as code."""
    return _NAME.sub(lambda name: f"`{name[0]}`", text)
