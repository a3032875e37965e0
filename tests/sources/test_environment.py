"""Another process's environment: /proc/PID/environ, and what `env` and shells write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import Missing
from rdmadiag.sources.environment import (
    parse_env_file,
    parse_environ,
    read_env_file,
    read_environment,
)


def test_variables_of_a_process_stand_between_nul_bytes() -> None:
    raw = b"A=1\0NCCL_IB_HCA==mlx5_0,mlx5_1\0BARE\0=hidden\0EMPTY=\0"
    assert parse_environ(raw) == {"A": "1", "NCCL_IB_HCA": "=mlx5_0,mlx5_1", "EMPTY": ""}


def test_of_two_of_one_name_the_first_is_the_one_that_getenv_gives() -> None:
    assert parse_environ(b"A=1\0A=2\0") == {"A": "1"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("UCX_TLS=rc", "rc"),
        ("export UCX_TLS=rc", "rc"),
        ('declare -x UCX_TLS="rc,sm"', "rc,sm"),
        ("UCX_TLS='rc'   # fast", "rc"),
        ("  UCX_TLS=rc  ", "rc"),
        ("UCX_TLS=", ""),
        ("UCX_TLS=it's", "it's"),
    ],
)
def test_a_line_of_a_file(text: str, value: str) -> None:
    assert parse_env_file(f"# a job\n\n{text}\n".encode()) == {"UCX_TLS": value}


@pytest.mark.parametrize("text", ["#!/bin/bash\npython train.py", "A B=1", "1A=2"])
def test_a_line_that_is_none_is_named(text: str) -> None:
    found = parse_env_file(text.encode())
    assert isinstance(found, Missing)
    assert "is not NAME=VALUE" in found.detail


@given(st.binary(max_size=200))
def test_any_bytes_are_variables_or_malformed(raw: bytes) -> None:
    assert all(name for name in parse_environ(raw))
    found = parse_env_file(raw)
    assert isinstance(found, dict | Missing)


def test_it_is_read_through_the_host(memory_host) -> None:  # type: ignore[no-untyped-def]
    memory_host.recording.files["/proc/17/environ"] = b"A=1\0"
    memory_host.recording.files["/job.env"] = b"A=2\n"
    assert read_environment(memory_host, "17") == {"A": "1"}
    assert read_env_file(memory_host, "/job.env") == {"A": "2"}
    assert isinstance(read_environment(memory_host, "18"), Missing)
    assert isinstance(read_env_file(memory_host, "/none"), Missing)
