"""Errno names: whole tables, against this system's own and against Darwin's header."""

import doctest
import errno
import os
import platform
import sys

import pytest

from rdmadiag.facts import errnos
from rdmadiag.facts.errnos import ERRNOS, errno_name, errno_text

HERE = pytest.mark.skipif(sys.platform not in ERRNOS, reason="no table for this system")
NOT_IN_PYTHON = {"EHWPOISON", "ENOTSUPP"}
"""Python got the first in 3.14; the second is the kernel's own."""

ON_DARWIN = {
    1: "EPERM",
    2: "ENOENT",
    5: "EIO",
    6: "ENXIO",
    12: "ENOMEM",
    13: "EACCES",
    16: "EBUSY",
    19: "ENODEV",
    22: "EINVAL",
    35: "EAGAIN",
    38: "ENOTSOCK",
    45: "ENOTSUP",
    49: "EADDRNOTAVAIL",
    54: "ECONNRESET",
    60: "ETIMEDOUT",
    61: "ECONNREFUSED",
    65: "EHOSTUNREACH",
    78: "ENOSYS",
    95: "EMULTIHOP",
    96: "ENODATA",
    102: "EOPNOTSUPP",
}
"""bsd/sys/errno.h of xnu: those that Apple's provider and JACCL have been seen to give."""

ON_LINUX = {
    11: "EAGAIN",
    19: "ENODEV",
    22: "EINVAL",
    38: "ENOSYS",
    61: "ENODATA",
    95: "EOPNOTSUPP",
    96: "EPFNOSUPPORT",
    101: "ENETUNREACH",
    104: "ECONNRESET",
    110: "ETIMEDOUT",
    111: "ECONNREFUSED",
}
"""include/uapi/asm-generic/errno.h."""


@HERE
def test_the_table_of_this_system_has_the_names_that_python_has():
    table = {name: number for number, (name, _) in ERRNOS[sys.platform].items()}
    known = {name: number for name, number in table.items() if hasattr(errno, name)}
    assert known == {name: getattr(errno, name) for name in known}
    assert table.keys() - known.keys() <= NOT_IN_PYTHON
    assert set(errno.errorcode) <= set(table.values())


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the texts are glibc's")
def test_the_texts_of_linux_are_those_of_glibc():
    table = {number: text for number, (_, text) in ERRNOS["linux"].items() if number != 524}
    assert table == {number: os.strerror(number) for number in table}


@pytest.mark.parametrize(
    ("system", "names"), [("darwin", ON_DARWIN), ("linux", ON_LINUX)], ids=["Darwin", "Linux"]
)
def test_a_number_is_named_as_its_system_names_it(system, names):
    assert {number: errno_name(number, system) for number in names} == names


@pytest.mark.parametrize(("system", "last"), [("darwin", 106), ("linux", 133)])
def test_a_table_is_whole(system, last):
    unused = {"darwin": set(), "linux": {41, 58}}  # Linux has no such numbers
    numbers = {number for number in ERRNOS[system] if number <= last}
    assert numbers == set(range(1, last + 1)) - unused[system]


@pytest.mark.parametrize("system", ERRNOS)
def test_no_name_stands_twice(system):
    names = [name for name, _ in ERRNOS[system].values()]
    assert sorted(set(names)) == sorted(names)
    assert all(name.startswith("E") and name.isupper() for name in names)


@pytest.mark.parametrize("number", [0, -1, 107, 255, 2**31])
@pytest.mark.parametrize("system", ["darwin", "unknown"])
def test_a_number_that_no_table_has_is_told_as_it_is(number, system):
    assert errno_name(number, system) == errno_text(number, system) == f"errno {number}"


def test_a_number_of_an_unknown_system_has_no_name():
    assert errno_name(22, "unknown") == errno_text(22, "unknown") == "errno 22"


def test_the_text_is_that_of_the_system():
    assert (
        errno_text(22, "darwin") == errno_text(22, "linux") == "errno 22 (EINVAL: Invalid argument)"
    )
    assert errno_text(110, "linux") == "errno 110 (ETIMEDOUT: Connection timed out)"
    assert errno_text(6, "darwin") == "errno 6 (ENXIO: Device not configured)"


def test_the_examples_of_the_module_hold():
    found = doctest.testmod(errnos)
    assert found.attempted > 0
    assert found.failed == 0
