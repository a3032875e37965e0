"""The process that looks: limits, rights, namespaces, nodes and libraries."""

import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import Address, DeviceNode, Limit, Missing, NamedProvider, Why
from rdmadiag.host.answers import NodeStat
from rdmadiag.host.live import LiveHost
from rdmadiag.sources import process
from rdmadiag.sources.process import parse_configured, read_process

LIMITS = b"""Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max locked memory         8388608              unlimited            bytes
Max address space         unlimited            unlimited            bytes
"""
STATUS = b"""Name:\tpython3
State:\tR (running)
PPid:\t1200
Uid:\t1000\t1001\t1000\t1000
Gid:\t1000\t1000\t1000\t1000
CapPrm:\t000001ffffffffff
CapEff:\t0000000000005000
CapBnd:\t000001ffffffffff
Cpus_allowed:\tffff
Cpus_allowed_list:\t0-7,16-23
Mems_allowed_list:\t0
"""
NET_DEV = b"""Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs
    lo: 1204      12    0    0    0     0          0         0     1204      12    0
 eth0:1: 0         0    0    0    0     0          0         0        0       0    0
"""
INET6 = b"""00000000000000000000000000000001 01 80 10 80       lo
fe80000000000000505400fffe000001 03 40 20 80     eth0
20010db8000000000000000000000001 03 40 00 80     eth0
"""
PARSERS = {
    "limits": (process.parse_memlock, LIMITS, Limit),
    "uid": (process.parse_effective_uid, STATUS, int),
    "capabilities": (process.parse_capabilities, STATUS, tuple),
    "cpus_allowed": (process.parse_cpus_allowed, STATUS, str),
    "mems_allowed": (process.parse_mems_allowed, STATUS, str),
    "modules": (process.parse_modules, b"ib_core 1 0 - Live 0x0\n", tuple),
    "net_dev": (process.parse_net_dev, NET_DEV, tuple),
    "if_inet6": (process.parse_if_inet6, INET6, dict),
    "if_inet6 rows": (process.parse_if_inet6_rows, INET6, dict),
    "uid_map": (process.parse_initial_user_namespace, b"0 0 4294967295\n", bool),
    "ld_conf": (process.parse_ld_conf, b"include /etc/ld.so.conf.d/*.conf\n/usr/lib\n", tuple),
}


@st.composite
def damaged(draw, raw):
    """`raw` with some bytes replaced, and perhaps cut."""
    changed = bytearray(raw)
    for _ in range(draw(st.integers(1, 4))):
        changed[draw(st.integers(0, len(changed) - 1))] = draw(st.integers(0, 255))
    return bytes(changed[: draw(st.integers(0, len(changed)))])


@pytest.mark.parametrize("name", PARSERS)
@given(data=st.data())
def test_any_bytes_are_a_value_of_the_kind_or_missing(name, data):
    parse, real, kind = PARSERS[name]
    found = parse(data.draw(st.binary(max_size=200) | damaged(real)))
    assert isinstance(found, kind | Missing)


@given(st.text())
def test_any_file_name_is_a_provider_or_none(name):
    found = process.parse_provider(name)
    assert found is None or name.startswith(f"lib{found}-rdmav")


# --- each file's form -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "limit"),
    [
        ("8388608              unlimited            bytes", Limit(8388608, "unlimited")),
        ("unlimited            unlimited            bytes", Limit("unlimited", "unlimited")),
        ("0                    65536                bytes", Limit(0, 65536)),
    ],
    ids=["a soft limit", "no limit", "nothing at all"],
)
def test_the_limit_on_locked_memory_is_a_row_of_the_table(row, limit):
    assert (
        process.parse_memlock(
            LIMITS.replace(b"8388608              unlimited            bytes", row.encode())
        )
        == limit
    )


@pytest.mark.parametrize(
    "raw",
    [b"", b"Max locked memory", LIMITS.replace(b"8388608", b"lots   "), LIMITS[:140]],
    ids=["nothing", "a name alone", "a limit in words", "a table that is cut short"],
)
def test_a_table_without_the_limit_is_malformed(raw):
    assert process.parse_memlock(raw).why is Why.MALFORMED


def test_the_uid_is_the_effective_one():
    assert process.parse_effective_uid(STATUS) == 1001


@pytest.mark.parametrize(
    "uid",
    [b"Uid:\t0", b"Uid:\t0\t-1\t0\t0", b"Uid:\t0\t\xb2\t0\t0", b"Uid:\t0\t" + b"1" * 5000, b""],
    ids=["one number", "below zero", "a superscript two", "thousands of digits", "no row"],
)
def test_a_status_without_a_uid_is_malformed(uid):
    assert process.parse_effective_uid(b"Name:\tx\n" + uid + b"\n").why is Why.MALFORMED


@pytest.mark.parametrize(
    ("mask", "names"),
    [
        (b"0000000000000000", ()),
        (b"0000000000005000", ("CAP_NET_ADMIN", "CAP_IPC_LOCK")),
        (b"0000000000002000", ("CAP_NET_RAW",)),
        (b"0000000001000002", ("CAP_DAC_OVERRIDE", "CAP_SYS_RESOURCE")),
    ],
    ids=["none", "bits 12 and 14", "bit 13", "bits 1 and 24"],
)
def test_capabilities_are_the_bits_of_capability_h(mask, names):
    assert process.parse_capabilities(b"CapEff:\t" + mask + b"\n") == names


@pytest.mark.parametrize(
    "raw", [b"", b"CapEff:\tall\n", b"CapEff:\t" + b"f" * 17], ids=["none", "a word", "too many"]
)
def test_a_status_without_capabilities_is_malformed(raw):
    assert process.parse_capabilities(raw).why is Why.MALFORMED


def test_modules_are_those_of_rdma():
    raw = b"ib_uverbs 163840 1 mlx5_ib, Live 0x0\nnvme 1 0 - Live 0x0\nib_core 1 2 - Live 0x0\n"
    assert process.parse_modules(raw) == ("ib_core", "ib_uverbs")
    assert process.parse_modules(b"") == ()


def test_interfaces_are_the_rows_of_net_dev():
    assert process.parse_net_dev(NET_DEV) == ("lo", "eth0:1")


@pytest.mark.parametrize("raw", [b"", b"one line\n", b"not\na table\n"])
def test_what_is_no_table_of_interfaces_is_malformed(raw):
    assert process.parse_net_dev(raw).why is Why.MALFORMED


def test_ipv6_addresses_are_grouped_by_interface():
    assert process.parse_if_inet6(INET6) == {
        "lo": ("::1",),
        "eth0": ("fe80::5054:ff:fe00:1", "2001:db8::1"),
    }
    assert process.parse_if_inet6(b"") == {}


def test_a_row_of_ipv6_addresses_says_what_duplicate_detection_found():
    rows = INET6 + b"20010db8000000000000000000000066 03 40 00 c8     eth0\n"
    found = process.parse_if_inet6_rows(rows)
    assert found["lo"] == (Address("::1", 128, "host", False, False, None, False),)
    assert found["eth0"][0] == Address(
        "fe80::5054:ff:fe00:1", 64, "link", False, False, None, False
    )
    assert found["eth0"][2] == Address("2001:db8::66", 64, "global", True, True, None, False)


@pytest.mark.parametrize(
    "raw",
    [b"fe80 03 40 20 80 eth0\n", b"fe80000000000000505400fffe000001 03\n", b"\n"],
    ids=["a short address", "a row that is cut short", "an empty row"],
)
def test_a_bad_row_of_addresses_is_malformed(raw):
    assert process.parse_if_inet6(INET6 + raw).why is Why.MALFORMED
    assert process.parse_if_inet6_rows(INET6 + raw).why is Why.MALFORMED


@pytest.mark.parametrize(
    ("raw", "initial"),
    [
        (b"         0          0 4294967295\n", True),
        (b"         0     100000      65536\n", False),
        (b"0 0 4294967295\n1 1 1\n", False),
        (b"", False),
    ],
    ids=["every uid is itself", "a container's range", "two ranges", "an empty map"],
)
def test_only_the_initial_user_namespace_maps_every_uid_to_itself(raw, initial):
    assert process.parse_initial_user_namespace(raw) is initial


def test_the_linkers_configuration_is_folders_and_includes():
    raw = b"# comment\ninclude ld.so.conf.d/*.conf\n/opt/lib/ # ours\nhwcap 1 nosegneg\nlib\n\n"
    assert process.parse_ld_conf(raw) == (("/opt/lib",), ("ld.so.conf.d/*.conf",))


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("libmlx5-rdmav34.so", "mlx5"),
        ("libbnxt_re-rdmav57.so", "bnxt_re"),
        ("libmlx5.so.1", None),
        ("mlx5-rdmav34.so", None),
    ],
    ids=["mlx5", "bnxt_re", "the provider's own library", "no library"],
)
def test_a_provider_is_named_by_its_file(name, provider):
    assert process.parse_provider(name) == provider


# --- whole machines ---------------------------------------------------------------------


def test_a_healthy_machine_is_told_whole(memory_host):
    found = read_process(memory_host)
    assert (found.uid, found.memlock) == (0, Limit("unlimited", "unlimited"))
    assert "CAP_IPC_LOCK" in found.capabilities
    assert (found.initial_userns, found.netns, found.initial_netns) == (
        True,
        "net:[4026531840]",
        True,
    )
    assert found.nodes[0] == DeviceNode("uverbs0", "crw-rw-rw-", 0, 0, "231:192", True)
    assert found.modules == ("ib_core", "ib_uverbs", "mlx5_ib", "rdma_cm", "rdma_ucm")
    assert found.netdevs == ("eth0",)
    assert found.ipv6 == {"eth0": ("2001:db8::1", "fe80::1")}
    assert found.container is None
    assert found.library.libibverbs == ("/usr/lib/x86_64-linux-gnu/libibverbs.so.1",)
    assert found.library.providers["mlx5"] == (
        "/usr/lib/x86_64-linux-gnu/libibverbs/libmlx5-rdmav34.so"
    )
    assert found.environment == {"UCX_TLS": "rc"}


FILES = {
    "/proc/self/status": {"uid", "capabilities", "cpus_allowed", "mems_allowed"},
    "/proc/self/limits": {"memlock"},
    "/proc/self/uid_map": {"initial_userns"},
    "/proc/modules": {"modules"},
    "/proc/self/net/dev": {"netdevs"},
    "/proc/self/net/if_inet6": {"ipv6", "ipv6_addresses"},
}


@pytest.mark.parametrize(("path", "fields"), FILES.items(), ids=FILES)
def test_a_file_that_is_refused_costs_its_own_fields(memory_host, path, fields):
    healthy = read_process(memory_host)
    refused = Missing(Why.DENIED, f"{path}: EACCES")
    memory_host.recording.refuse("read", path, refused)
    found = read_process(memory_host)
    for name in healthy.__slots__:
        expected = refused if name in fields else getattr(healthy, name)
        assert getattr(found, name) == expected


def test_a_refused_environment_is_missing_and_not_empty(memory_host):
    refused = Missing(Why.NOT_COLLECTED, "environ")
    memory_host.recording.refuse("environ", "", refused)
    found = read_process(memory_host)
    assert found.environment == refused
    assert found.container is None
    assert found.library.providers["mlx5"].endswith("libmlx5-rdmav34.so")


@pytest.mark.parametrize(
    ("link", "netns", "initial"),
    [
        ("/proc/self/ns/net", "missing", "missing"),
        ("/proc/1/ns/net", "net:[4026531840]", "missing"),
    ],
    ids=["our own", "that of pid 1"],
)
def test_a_namespace_that_cannot_be_read_is_not_compared(memory_host, link, netns, initial):
    refused = Missing(Why.DENIED, f"{link}: EACCES")
    memory_host.recording.refuse("readlink", link, refused)
    found = read_process(memory_host)
    assert found.netns == (refused if netns == "missing" else netns)
    assert found.initial_netns == refused


def test_another_namespace_than_that_of_pid_1_is_not_the_initial_one(memory_host):
    memory_host.recording.links["/proc/self/ns/net"] = "net:[4026532281]"
    assert read_process(memory_host).initial_netns is False


# --- device nodes -----------------------------------------------------------------------


def test_folders_of_links_in_dev_infiniband_are_no_nodes(memory_host):
    memory_host.recording.listings["/dev/infiniband"] += ("by-ibdev",)
    memory_host.recording.nodes["/dev/infiniband/by-ibdev"] = NodeStat(
        stat.S_IFDIR | 0o755, 0, 0, None
    )
    assert [node.name for node in read_process(memory_host).nodes] == ["uverbs0", "uverbs1"]


def test_a_plain_file_among_the_nodes_says_that_it_is_none(memory_host):
    memory_host.recording.nodes["/dev/infiniband/uverbs0"] = NodeStat(
        stat.S_IFREG | 0o644, 0, 0, None
    )
    node = read_process(memory_host).nodes[0]
    assert (node.mode, node.dev) == (
        "-rw-r--r--",
        Missing(Why.MALFORMED, "/dev/infiniband/uverbs0: not a device node"),
    )


def test_a_node_that_vanished_is_left_out(memory_host):
    del memory_host.recording.nodes["/dev/infiniband/uverbs0"]
    assert [node.name for node in read_process(memory_host).nodes] == ["uverbs1"]


def test_nodes_that_may_all_not_be_looked_at_are_not_taken_for_none(memory_host):
    refused = Missing(Why.DENIED, "/dev/infiniband/uverbs0: EACCES")
    for name in ("uverbs0", "uverbs1"):
        memory_host.recording.refuse("stat", f"/dev/infiniband/{name}", refused)
    assert read_process(memory_host).nodes == refused


def test_an_empty_folder_has_no_nodes(memory_host):
    memory_host.recording.listings["/dev/infiniband"] = ()
    assert read_process(memory_host).nodes == ()


# --- containers -------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/.dockerenv", "/run/.containerenv"])
def test_a_container_is_known_by_its_file(roce, host_in_memory, path):
    host = host_in_memory(roce.change(container=path).recording())
    assert read_process(host).container == path


@pytest.mark.parametrize("name", ["KUBERNETES_SERVICE_HOST", "container"])
def test_a_container_is_known_by_its_environment(memory_host, name):
    memory_host.recording.environ[name] = "podman"
    assert read_process(memory_host).container == f"environment variable {name}"


def test_a_variable_that_only_begins_like_the_sign_is_none(memory_host):
    memory_host.recording.environ |= {"containerd_x": "1", "container": ""}
    assert read_process(memory_host).container is None


# --- CPUs --------------------------------------------------------


def test_cpus_and_memory_that_the_process_may_use_are_told():
    assert process.parse_cpus_allowed(STATUS) == "0-7,16-23"
    assert process.parse_mems_allowed(STATUS) == "0"


def test_a_kernel_without_cpusets_tells_no_memory_nodes():
    status = b"".join(line for line in STATUS.splitlines(True) if not line.startswith(b"Mems"))
    assert process.parse_mems_allowed(status) == Missing(Why.ABSENT, "no Mems_allowed_list")


@pytest.mark.parametrize("text", ["", "none", "0-", "0,,1", "1" * 9], ids=repr)
def test_a_list_that_makes_no_sense_is_malformed(text):
    raw = f"Cpus_allowed_list:\t{text}\n".encode()
    assert process.parse_cpus_allowed(raw).why is Why.MALFORMED


# --- libraries --------------------------------------------------------------------------


def searched(host):
    return read_process(host).library.searched


def test_folders_are_searched_in_the_linkers_order(memory_host):
    memory_host.recording.environ["LD_LIBRARY_PATH"] = "/opt/rdma/lib/:relative::/usr/lib64"
    assert searched(memory_host) == (
        "/opt/rdma/lib",
        "/usr/lib64",
        "/usr/lib/x86_64-linux-gnu",
        "/lib64",
        "/lib",
        "/usr/lib",
    )


@pytest.mark.parametrize(
    "include",
    ["/etc/more.conf", "more.conf", "/etc/*.conf", "m*.conf"],
    ids=["by its path", "relative to /etc", "by a pattern", "by a relative pattern"],
)
def test_included_files_are_followed(memory_host, include):
    memory_host.recording.files["/etc/ld.so.conf"] = f"include {include}\n".encode()
    memory_host.recording.files["/etc/more.conf"] = b"/opt/more\n"
    memory_host.recording.listings["/etc"] = ("ld.so.conf", "more.conf", "other")
    assert searched(memory_host)[0] == "/opt/more"


def test_files_that_include_each_other_are_read_once(memory_host):
    line = b"include /etc/ld.so.conf\ninclude /etc/other.conf\n"
    memory_host.recording.files["/etc/ld.so.conf"] = line * 500 + b"/opt/one\n"
    memory_host.recording.files["/etc/other.conf"] = line * 500 + b"/opt/two\n"
    assert searched(memory_host)[:2] == ("/opt/one", "/opt/two")
    asked = [path for question, path in memory_host.asked if question == "read"]
    assert asked.count("/etc/other.conf") == 1


def test_a_chain_of_includes_ends_somewhere(memory_host):
    for number in range(50):
        name = f"/etc/{number}.conf" if number else "/etc/ld.so.conf"
        content = f"/opt/{number}\ninclude /etc/{number + 1}.conf\n"
        memory_host.recording.files[name] = content.encode()
    found = searched(memory_host)
    assert "/opt/2" in found
    assert "/opt/9" not in found


def test_a_pattern_whose_folder_cannot_be_listed_adds_nothing(memory_host):
    memory_host.recording.files["/etc/ld.so.conf"] = b"include /nowhere/*.conf\n"
    assert searched(memory_host) == ("/lib64", "/usr/lib64", "/lib", "/usr/lib")


def test_a_machine_without_libraries_says_where_it_looked(roce, host_in_memory):
    library = read_process(host_in_memory(roce.change(libraries=False).recording())).library
    assert (library.libibverbs, library.providers) == ((), {})
    assert "/usr/lib/x86_64-linux-gnu" in library.searched


def test_the_first_folder_with_a_provider_wins(memory_host):
    memory_host.recording.environ["LD_LIBRARY_PATH"] = "/opt/lib"
    memory_host.recording.listings["/opt/lib/libibverbs"] = ("libmlx5-rdmav57.so", "README")
    assert read_process(memory_host).library.providers["mlx5"] == (
        "/opt/lib/libibverbs/libmlx5-rdmav57.so"
    )


def test_a_path_with_a_nul_in_the_configuration_is_no_crash_on_a_live_machine():
    class Odd(LiveHost):
        def read(self, path, limit=65536):
            if path == "/etc/ld.so.conf":
                return b"/opt/\0lib\ninclude /etc/\0/*.conf\ninclude /etc/\0.conf\n"
            return super().read(path, limit)

    assert searched(Odd())[0] == "/opt"


@pytest.mark.parametrize("why", [Why.TIMEOUT, Why.DENIED, Why.MALFORMED, Why.EXHAUSTED])
@pytest.mark.parametrize(
    ("question", "subject"),
    [("read", "/etc/ld.so.conf"), ("list", "/etc/more"), ("read", "/etc/more/opt.conf")],
)
def test_libraries_of_an_unread_configuration_are_not_known(memory_host, question, subject, why):
    recording = memory_host.recording
    recording.files |= {
        "/etc/ld.so.conf": b"include more/*.conf\n",
        "/etc/more/opt.conf": b"/opt/lib\n",
    }
    recording.listings["/etc/more"] = ("opt.conf",)
    assert "/opt/lib" in searched(memory_host)
    recording.refuse(question, subject, Missing(why, subject))
    assert read_process(memory_host).library == Missing(why, subject)


def test_this_process_is_told_as_it_is():
    found = read_process(LiveHost())
    assert found.netns.startswith("net:[")
    assert "lo" in found.netdevs
    assert isinstance(found.memlock, Limit)
    assert isinstance(found.cpus_allowed, str)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("driver mlx5\n", ("mlx5",)),
        ("\t driver\t/opt/lib/libmlx5 # of ours\n", ("/opt/lib/libmlx5",)),
        ("# driver mlx4\n\ndriver rxe\ndriver rxe\ndriver siw", ("rxe", "siw")),
        ("drivers mlx5\nmlx5\ndriver\n", ()),
        ("", ()),
    ],
    ids=["one", "blanks and a path", "a remark, and twice", "what libibverbs ignores", "empty"],
)
def test_a_file_of_providers_is_read_as_libibverbs_reads_it(
    text: str, names: tuple[str, ...]
) -> None:
    assert parse_configured(text.encode()) == names


@given(st.binary(max_size=200))
def test_any_bytes_name_providers_without_blanks(raw: bytes) -> None:
    assert all(name.split() == [name] for name in parse_configured(raw))


def test_providers_are_named_by_any_file_of_the_folder(roce, host_in_memory):
    machine = roce.change(configured=("mlx5", "rxe"))
    assert read_process(host_in_memory(machine.recording())).library.configured == (
        NamedProvider("mlx5", "/etc/libibverbs.d/mlx5.driver"),
        NamedProvider("rxe", "/etc/libibverbs.d/rxe.driver"),
    )
