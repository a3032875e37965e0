"""Another process's environment, or one that a file describes.

/proc/PID/environ     NCCL_IB_HCA=mlx5\\0UCX_TLS=rc\\0
a file                export NCCL_IB_HCA="mlx5_0,mlx5_1"   # as `env`, `export -p`, or
                      NCCL_IB_GID_INDEX=3                  # docker's --env-file write it
"""

import shlex
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.host import Host
from rdmadiag.host.answers import utf8
from rdmadiag.late import late

LIMIT: Final = 8 * 1024 * 1024
"""Bytes; the kernel allows more than the 2 MiB that are usual for arguments and environment."""

_NAME: Final = late(r"[A-Za-z_][A-Za-z0-9_]*")
_PREFIXES: Final = ("export ", "declare -x ", "setenv ")


def parse_environ(raw: bytes) -> dict[str, str]:
    """/proc/PID/environ: what has no "=" in it is passed over, as by getenv(3)."""
    found: dict[str, str] = {}
    for part in raw.split(b"\0"):
        name, equals, value = part.partition(b"=")
        if name and equals:
            text = utf8(name.decode("utf-8", "surrogateescape"))
            # The first of two is what getenv gives.
            found.setdefault(text, utf8(value.decode("utf-8", "surrogateescape")))
    return found


def parse_env_file(raw: bytes) -> dict[str, str] | Missing:
    """NAME=VALUE lines, or the NUL-separated form; malformed where a line is neither."""
    if b"\0" in raw:
        return parse_environ(raw)
    found: dict[str, str] = {}
    text = utf8(raw.decode("utf-8", "surrogateescape"))
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.strip()
        if not words or words.startswith("#"):
            continue
        for prefix in _PREFIXES:
            words = words.removeprefix(prefix).lstrip()
        name, equals, value = words.partition("=")
        if not equals or not _NAME.fullmatch(name):
            return Missing(Why.MALFORMED, f"line {number} is not NAME=VALUE: {line[:40]!r}")
        found[name] = _unquoted(value)
    return found


def _unquoted(value: str) -> str:
    """Without quotes and comments of a shell; as it is where it is no word of one."""
    try:
        words = shlex.split(value, comments=True)
    except ValueError:
        return value
    return words[0] if words else ""


def read_environment(host: Host, process: str) -> dict[str, str] | Missing:
    """The environment that a process was started with."""
    raw = host.read(f"/proc/{process}/environ", LIMIT)
    return raw if isinstance(raw, Missing) else parse_environ(raw)


def read_env_file(host: Host, path: str) -> dict[str, str] | Missing:
    """The environment that a file describes."""
    raw = host.read(path, LIMIT)
    return raw if isinstance(raw, Missing) else parse_env_file(raw)
