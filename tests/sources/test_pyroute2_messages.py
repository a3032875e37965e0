"""pyroute2's message classes without the package: what that stands on, and that nobody notices."""

import gc
import json
import struct
import subprocess
import sys

import pytest

from lab.machine import with_counters

ALONE = """
import sys
sys.path.insert(0, {checkout!r})
from rdmadiag.sources import pyroute2_messages
"""


@pytest.fixture
def python(request):
    """Runs a program in a process of its own; its output."""

    def run(code):
        start = ALONE.format(checkout=str(request.config.rootpath))
        argv = [sys.executable, "-c", code.replace("LOAD", start)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    return run


NAMES = "('AF_INET', 'IPRoute', 'NDB', 'Conntrack', 'config', 'netlink', 'netns', '__version__')"
USES = f"""
import pickle, importlib
import pyroute2
from pyroute2 import IPRoute, NDB, config, netns
from pyroute2.netlink.rtnl.iprsocket import IPRSocket
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
assert pickle.loads(pickle.dumps(IPRoute)) is IPRoute is pyroute2.IPRoute
assert sys.modules['pyroute2.netlink.rtnl.ifinfmsg'].ifinfmsg is ifinfmsg
assert importlib.reload(pyroute2).NDB is NDB
print(*(name for name in {NAMES} if hasattr(pyroute2, name)))
"""


def test_none_of_its_modules_is_left_where_others_import(python):
    assert (
        python("LOAD\nprint(*(name for name in sys.modules if name.startswith('pyroute2')))") == []
    )


def test_of_the_package_only_messages_and_what_they_need_are_executed(python):
    """Its sockets, databases and their event loop are what the half of an import is spent on."""
    # What coverage loads, where it measures the tests, is there before.
    loaded = python(
        "import sys\nbefore = set(sys.modules)\nLOAD\n"
        "print(*pyroute2_messages._pyroute2._modules, *(set(sys.modules) - before))"
    )
    heavy = ("asyncio", "ctypes", "http", "sqlite3", "ssl", "concurrent.futures")
    assert [name for name in loaded if name in heavy] == []
    parts = {name.split(".")[1] for name in loaded if name.startswith("pyroute2.")}
    assert parts == {"common", "config", "netlink"}
    assert not any("socket" in name for name in loaded if name.startswith("pyroute2."))


@pytest.mark.parametrize(
    "code",
    ["LOAD" + USES, "import sys" + USES + "LOAD", "import sys, pyroute2\nLOAD" + USES],
    ids=["after", "before", "before and after"],
)
def test_another_user_of_pyroute2_in_the_process_finds_all_of_it(python, code):
    assert python(code) == python("import sys" + USES)


def test_a_thread_that_imports_pyroute2_meanwhile_finds_all_of_it(python):
    code = """
import sys, threading
found = []
def use():
    from pyroute2 import IPRoute, NDB
    from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
    found.append(ifinfmsg)
threads = [threading.Thread(target=use) for _ in range(4)]
for thread in threads: thread.start()
LOAD
for thread in threads: thread.join()
assert len(found) == 4
assert set(found) == {sys.modules['pyroute2.netlink.rtnl.ifinfmsg'].ifinfmsg}
assert pyroute2_messages.ifinfmsg not in found
"""
    assert python(code) == []


def test_a_message_is_read_as_by_the_package_itself(roce):
    from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
    from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

    from rdmadiag.sources import pyroute2_messages as ours

    replies = with_counters(roce).recording().netlink
    for reply, here, there in (
        (replies["route-getlink"], ours.ifinfmsg, ifinfmsg),
        (replies["route-getaddr"], ours.ifaddrmsg, ifaddrmsg),
    ):
        found, expected = list(ours.decode(reply, here)), list(ours.decode(reply, there))
        assert [each.dump() for each in found] == [each.dump() for each in expected]
        assert found


def test_a_message_that_was_read_leaves_nothing_for_the_collector(roce):
    from rdmadiag.sources.netdev import parse_addresses, parse_netdevs

    replies = with_counters(roce).recording().netlink
    parse_addresses(replies["route-getaddr"])  # whatever the first one makes for all
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            parse_netdevs(replies["route-getlink"], parse_addresses(replies["route-getaddr"]))
        left = gc.collect()
    finally:
        gc.enable()
    assert left < 10


def test_an_attribute_is_there_with_its_bytes(roce):
    from rdmadiag.sources.pyroute2_messages import decode, ifinfmsg, raw

    content = struct.pack("=BxHiII", 0, 1, 7, 0, 0) + struct.pack("=HH", 7, 3) + b"ab\0\0"
    message = struct.pack("=IHHII", 16 + len(content), 16, 0, 0, 0) + content
    (found,) = decode(message, ifinfmsg)
    assert raw(found, "IFLA_IFNAME") == b"ab\0"
    assert raw(found, "IFLA_MTU") is None


def test_without_pyroute2_the_reason_is_that_it_is_not_there():
    from rdmadiag.sources.pyroute2_messages import _Apart

    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        _Apart("no_such_package").load("no_such_package.netlink")


WITHOUT = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pyroute2":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
from rdmadiag.cli import run
sys.exit(run(sys.argv[1:]))
"""


def test_where_pyroute2_is_not_installed_that_is_said():
    """As on a Mac, which reads a record of Linux."""
    argv = ["preflight", "--sample", "roce-healthy", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *argv], capture_output=True, text=True, check=False
    )
    document = json.loads(done.stdout)
    assert document["evidence"]["netdev"] == {
        "why": "unsupported",
        "detail": "pyroute2 is not installed: pip install pyroute2",
    }
    assert done.returncode == 3, "what could not look is unknown"
    assert done.stderr == ""
