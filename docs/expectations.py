"""docs/expectations.md: every key of an expectations file."""

from rdmadiag.preflight.expectations.keys import KEYS, Key, Scope

_HEAD = """\
# Expectations

Generated from the code by `make docs`.

What a host should be, in a file; what it is not becomes a finding with `expected` and `actual`.

```console needs="a host that is known to be good, and others"
$ rdmadiag expect --output good.toml            # on a host that is known to be good
$ rdmadiag preflight --expect good.toml         # on every one that should be like it
$ rdmadiag preflight --expect-devices 8 --expect-active 8 --expect-rate "400 Gb/sec"
```

On a sample:

```console exit="2" lines="12"
$ rdmadiag expect --sample infiniband-two-hca --output good.toml
$ rdmadiag preflight --sample infiniband-no-subnet-manager --expect good.toml
```

```toml
[host]
devices = 8
active_ports = 8
memlock = "unlimited"

[device."mlx5_*"]                  # every device that the pattern matches
firmware = ">=28.39.1002"
pci_width = 16
rate = "400 Gb/sec"                # of every port of them

[device."mlx5_0/1"]                # one port
gid_index = 3
severity = "warn"                  # a finding of this table is a warning; else it is critical

[thresholds]                       # of counters --expect and resources --expect
link_downed = 3
error_queue_pairs = 16
```

- A pattern is a shell's: `*`, `?`, `[…]`. Every table whose pattern matches holds.
- A table whose pattern nothing matches is a finding, unless `count = 0`.
- `rate`, `firmware` and `pci_speed` are exact, or with `>=` at least.
- What could not be looked at is `unknown`, never met.
- With `--device` the tables of those devices are compared, and `[host]` as a whole.
- `devices = 0` makes a host without RDMA ok.
- An unknown key, or a value that a key cannot have, ends with code 64 and one line with the file,
  the line and the key. A file has at most 256 KiB.

## Keys
"""


def expectations_page() -> str:
    """The page."""
    parts = [_HEAD]
    for title, scopes in (
        ("[host]", (Scope.HOST,)),
        ('[device."PATTERN"]', (Scope.DEVICE, Scope.PORT)),
    ):
        keys = [key for key in KEYS.values() if key.scope in scopes]
        if Scope.HOST in scopes:
            keys.append(KEYS["rate"])
        parts.append(f"\n### {title}\n\n| key | what | rule |\n|---|---|---|\n")
        parts += [_row(key) for key in keys]
    parts.append(
        '\nIn `[device."DEVICE/PORT"]` stand the keys of a port: '
        + ", ".join(f"`{key.name}`" for key in KEYS.values() if key.scope is Scope.PORT)
        + ".\n"
    )
    return "".join(parts)


def _row(key: Key) -> str:
    return f"| `{key.name}` | {key.meaning} | `{key.code}` |\n"
