"""Names in text: each form that an address has, and what looks like one."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdmadiag.explain.kernel_messages import kind_of
from rdmadiag.preflight.rules import CATALOGUE
from rdmadiag.redact.addresses import Addresses, Seen
from rdmadiag.redact.names import Names
from rdmadiag.redact.pseudonyms import Pseudonyms
from rdmadiag.redact.text import Numbers, Text

KEY: Final = b"k" * 32
LOGS: Final = Path(__file__).parents[1] / "explain" / "corpus"
KNOWN: Final = {"node7": "host", "gpu-node-17": "host", "alice": "user", "vasp_std": "prog"}


def text(known: dict[str, str] = KNOWN, numbers: Numbers | None = None) -> Text:
    pseudonyms = Pseudonyms(KEY)
    names = Names(pseudonyms, ("mlx5_0", "ens1f0np0"))
    return Text(pseudonyms, Addresses(pseudonyms, Seen()), names, known, numbers)


@pytest.mark.parametrize(
    "line",
    [
        *(
            "mlx5_core 0000:65:00.0 ens1f0np0: Link up",
            "12:34:56 up 3 days",
            "pci0000:64/0000:64:02.0",
        ),
        *("cap 0x00010000, took 1234567890123456 ns", "version 28.43.1014", "::", "00:00"),
        *("rx 0000000000000000", "10-20-30", "std::vector<int>", "com.apple.AppleThunderboltRDMA"),
        *(
            "librdmacm.so.1.3",
            "process 12 (pid)",
            "MACs and GUIDs",
            "x86_64-linux-gnu",
            "1.2.3.4.5",
        ),
        *(
            "peer lid 3 qp12",
            "server QPN 0x15",
            "host mem 0x3",
            "connect to mlx5_bond_1",
        ),
        *("MT_0000000359", "ConnectX-6 MCX653106A-HDAT_Ax", "IOThunderboltSwitchType5", "rank-3"),
        *("mlx5_ib_alloc_transport_domain+0x1c/0x40 [mlx5_ib]", "PSN 0x015dd8, serial8250: ttyS0"),
        *("v000015B3d0000101Bsv000015B3sd00000007bc02sc07i00", "ssh -p 2222", "fi_info -p efa"),
        *("net.ipv4.conf.all", "kern.boottime", "lib.so.1", "a.b.rc", "5.15.0.el8", "sysctl -p"),
        *(
            "passive side, bypassed",
            "for user space",
            "user buffer",
            "10.20.30 ip-1-2-3",
            "mkdir -p /x",
        ),
        *("https://docs.kernel.org/infiniband", "ucx@1.17", "MGS not there", "0000:65:00.0:/x"),
        *("LID 0x0012 pkey 0xffff qkey 0x80010000", "CPU: 3 PID: 77 Comm: slurmstepd Not tainted"),
        *("/usr/lib/python3/dist-packages/x.py", "300.400.500.600", "gid ff02::1 joined"),
    ],
)
def test_what_is_no_name_stays(line: str) -> None:
    assert text()(line) == line


@pytest.mark.parametrize(
    ("line", "gone"),
    [
        ("link 0c:42:a1:24:3f:0e up", "0c:42:a1:24:3f:0e"),
        ("link 0C-42-A1-24-3F-0E up", "0C-42-A1-24-3F-0E"),
        ("arp 0c42.a124.3f0e", "0c42.a124.3f0e"),
        ("netdev enx0c42a1243f0e renamed", "0c42a1243f0e"),
        ("device ibx0c42a10300243f0e", "0c42a10300243f0e"),
        ("guid 0x0c42a10300243f0e,", "0c42a10300243f0e"),
        ("guid 0c42:a103:0024:3f0e", "0c42:a103:0024:3f0e"),
        ("gid fe800000000000000e42a1fffe243f0e", "0e42a1fffe243f0e"),
        ("gid fe80::e42:a1ff:fe24:3f0e%en0", "e42:a1ff:fe24:3f0e"),
        ("gid fe80:0000:0000:0000:0e42:a1ff:fe24:3f0e", "0e42:a1ff:fe24:3f0e"),
        ("hw 80:00:02:08:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:24:3f:0e", "0c:42:a1:03:00:24"),
        ("to 10.20.3.7:4791", "10.20.3.7"),
        ("to ::ffff:10.20.3.7", "10.20.3.7"),
        ("route 10.20.0.0/16 dev x", "10.20.0.0"),
        ("cable BC5DEC53-7E36-4A9A-8459-456EBAB5E501", "BC5DEC53"),
        ("cgroup /docker/" + "0123456789abcdef" * 4, "0123456789abcdef"),
        ("HOME is /home/alice/runs/secret-project", "alice"),
        ("HOME is /home/alice/runs/secret-project", "secret-project"),
        ("mail from bob@mail.example.org", "bob"),
        ("nfs: server store3.cluster.example not responding", "store3"),
        ("NODE7 is down", "NODE7"),
        ("CPU: 3 PID: 77 Comm: nwchem Not tainted", "nwchem"),
        ("task gmx_mpi:4711 blocked", "gmx_mpi"),
        ('IOUserClientCreator = "pid 123, trainer"', "trainer"),
        ("password=hunter2 rest", "hunter2"),
        ("Authorization: Bearer abc.def.ghi", "abc.def.ghi"),
        ("--api-key sk-12345 --x", "sk-12345"),
        ("kernel_2026-05-21-101500_Johns-Mac.panic", "Johns-Mac"),
        # Hosts
        ("connect from node8, node19-ib0", "node8"),
        ("connect from node8, node19-ib0", "node19"),
        ("peer ip-10-20-30-77 left", "10-20-30-77"),
        ("acme-10-20-30-77 left", "acme"),
        ("nfs: server nfs-alpha.internal.acme.co: not responding", "nfs-alpha"),
        ("nfs: server nfs-alpha.internal.acme.co: not responding", "acme"),
        ("nfs: server filer not responding, still trying", "filer"),
        ("mount store:/export/projx on /mnt/x", "store"),
        ("mount store:/export/projx on /mnt/x", "projx"),
        ("http://intranet.acme.dev/x", "intranet"),
        ("rdma_cm: disconnected from login3", "login3"),
        ("ssh gpu-alpha true", "gpu-alpha"),
        ("connection to host3 lost", "host3"),
        ("gpu_node_20 and gpunode[21-23], gpu-node-24b", "node_20"),
        ("gpu_node_20 and gpunode[21-23], gpu-node-24b", "21-23"),
        ("gpu_node_20 and gpunode[21-23], gpu-node-24b", "24b"),
        ("connection from chewbacca refused", "chewbacca"),
        ("ctrl nqn.2014-08.com.acme:nvme:fast-pool1", "fast-pool1"),
        ("kubepods-pod4a5b6c7d_8e9f_0a1b_2c3d_4e5f6a7b8c9d.slice", "4a5b6c7d"),
        ("192.168.007.009 is up", "007.009"),
        ("cifs //winsrv/projects on /mnt", "winsrv"),
        # Users
        ("session opened for user jdoe42(uid=1000) by", "jdoe42"),
        ("oom-kill: task=train_llama,pid=33,uid=5", "train_llama"),
        ("user=charlie", "charlie"),
        ("--user charlie99 -x", "charlie99"),
        ("uid=1000(bobby)", "bobby"),
        ("owner: 'dora'", "dora"),
        ("Accepted publickey for frida from 10.3.2.1", "frida"),
        ("LDAP uid=gustav,ou=x", "gustav"),
        ("mail of b.h+ops@acme.org", "b.h"),
        ("session opened for user erin by", "erin"),
        ("alice9@10.20.3.7", "alice9"),
        ("mysql://dbuser@db7.acme.co/x", "dbuser"),
        # Numbers of one machine
        ("efa: i-0a1b2c3d4e5f67890 of vpc", "0a1b2c3d4e5f"),
        ("serial MT2042X12345 guid", "MT2042X12345"),
        ("SN: MT2042X12345", "MT2042X12345"),
        ("S/N MT20ZZ0001,", "MT20ZZ0001"),
        ("Serial Number:  9876543210", "9876543210"),
        # Secrets
        ("mysql -u root -pTopSecret1 db", "TopSecret1"),
        ("sshpass -p sshpw ssh x", "sshpw"),
        ("sshpass -psshpw mysql -pother", "sshpw"),
        ("sshpass -psshpw mysql -pother", "other"),
        ("curl -u joe:pw123456 x", "pw123456"),
        ("curl -u joe:pw123456 x", "joe"),
        ("tool --db-password qwerty x", "qwerty"),
        ("mysql://joe:dbpass99@db7/x", "dbpass99"),
        ('"password": "two words", x', "two words"),
        ("pwd is hunter2", "hunter2"),
        ("pass=a,b;c user=x", "a,b;c"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcDEF_123", "eyJ"),
        ("ghp_abcdefghij1234567890abcdefghij123456", "abcdefghij"),
        ("xoxb-123-abc", "123-abc"),
        ("AKIAIOSFODNN7EXAMPLE", "AKIA"),
        ("hf_abcdefghijABCDEFGHIJabcdefghij1234", "abcdefghij"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n-----END OPENSSH PRIVATE KEY-----", "b3Bl"),
        ("root:$6$saltsalt$abcdefgh12345:1", "abcdefgh12345"),
        ("sent Zq8Xw2Lk9P/4Rt7Yb3N+6Md1Aa=", "4Rt7Yb3N"),
        ("sent Zq8Xw2Lk9Pv4Rt7Yb3Nc6Md1", "Zq8Xw2"),
        ("sent k3j9x0q2z7m4w8v1t6r5p2n", "k3j9x0"),
        ("Mail_2026-05-21-101500_Johns-Mac.ips", "Mail"),
    ],
)
def test_a_name_is_replaced(line: str, gone: str) -> None:
    made = text()(line)
    assert gone.casefold() not in made.casefold()
    assert made == text()(line)


def digits(made: str) -> str:
    return "".join(each for each in made.casefold() if each in "0123456789abcdef")


def test_an_address_is_the_same_one_in_every_spelling() -> None:
    redact = text()
    forms = ("0c:42:a1:24:3f:0e", "0C-42-A1-24-3F-0E", "0c42.a124.3f0e", "0C42A1243F0E")
    assert len({digits(redact(each)) for each in forms}) == 1
    assert redact("0C-42-A1-24-3F-0E") == redact("0c-42-a1-24-3f-0e").upper()
    long, short = (
        redact("fe80:0000:0000:0000:0e42:a1ff:fe24:3f0e"),
        redact("fe80::e42:a1ff:fe24:3f0e"),
    )
    assert digits(long) == digits(redact("fe800000000000000e42a1fffe243f0e"))
    from ipaddress import ip_address

    assert ip_address(long) == ip_address(short)
    assert redact("::ffff:10.20.3.7") == f"::ffff:{redact('10.20.3.7')}"
    assert ip_address(redact("::ffff:a14:307")) == ip_address(redact("::ffff:10.20.3.7"))


def test_networks_of_a_mac_s_interfaces_are_learnt_from_their_masks() -> None:
    lines = "inet 10.20.3.7 netmask 0xffffff00 broadcast 10.20.3.255"
    pseudonyms = Pseudonyms(KEY)
    first = Addresses(pseudonyms)
    Text(pseudonyms, first, Names(pseudonyms), {})(lines)
    second = Addresses(pseudonyms, first.seen)
    made = Text(pseudonyms, second, Names(pseudonyms), {})(lines)
    address, broadcast = made.split()[1], made.split()[5]
    assert broadcast == f"{address.rpartition('.')[0]}.255"


def test_bare_digits_are_an_address_where_they_are_known_as_one() -> None:
    known = Numbers([bytes([10, 20, 3, 7])], [bytes.fromhex("001122334455")])
    assert "0a140307" not in text(numbers=known)("at 0a140307")
    assert "0703140a" not in text(numbers=known)("at 0703140a")
    assert text(numbers=known)("at deadbeef") == "at deadbeef"
    assert "001122334455" not in text(numbers=known)("mac 001122334455")
    made = int(text(numbers=known)("as one number 169083655").rpartition(" ")[2])
    assert made.to_bytes(4, "big").hex() in text(numbers=known)("at 0a140307")
    assert text()("bytes 001122334455") == "bytes 001122334455"


def test_hosts_of_a_domain_stay_together_and_ordinary_names_are_left_in() -> None:
    names = Names(Pseudonyms(KEY), ("mlx5_0",))
    first, second = names.host("node7.hpc.local"), names.host("node8.hpc.local")
    assert first != second
    assert first.partition(".")[2] == second.partition(".")[2]
    assert first.endswith(".local")
    assert names.of("prog", "slurmstepd") == "slurmstepd"
    assert names.of("prog", "mlx5_0") == "mlx5_0"
    assert names.folder("/home/x/.local/state/rdmadiag") != "/home/x/.local/state/rdmadiag"
    assert names.folder("/usr/lib") == "/usr/lib"


REDACT: Final[Callable[[str], str]] = text()


@given(st.text(max_size=200))
@settings(max_examples=50, deadline=None)
def test_no_text_is_too_odd(line: str) -> None:
    assert REDACT(line) == REDACT(line)


def test_what_lustre_calls_an_address_is_one_and_its_networks_are_words() -> None:
    redact = text()
    address = redact("10.20.30.98")
    assert address != "10.20.30.98"
    for line in ("at 10.20.30.98@o2ib", "MGS@10.20.30.98@o2ib", "MGC10.20.30.98@tcp1"):
        assert redact(line) == line.replace("10.20.30.98", address)
    assert redact("2001:db8::1@tcp").endswith("@tcp")
    assert redact("oss-one@o2ib7") == f"{redact('oss-one@o2ib7').partition('@')[0]}@o2ib7"
    assert "oss-one" not in redact("oss-one@o2ib7")
    target = redact("acmefs-OST0003-osc: Connection to acmefs-OST0003 (at 10.20.30.98@o2ib)")
    assert "acmefs" not in target
    first, second = target.split("-OST0003-osc: Connection to ")
    assert second.startswith(f"{first}-OST0003 ")


def test_what_a_family_of_hosts_is_called_is_no_part_of_an_address() -> None:
    redact = text({"db7": "host"})
    assert redact("2001:db8:1::2").startswith("2001:db8:")
    assert "db9" not in redact("to db9:4791 now")
    assert text({"gpu01": "host"})("/sys/x/gpu02 gpu0 GPU") == "/sys/x/gpu02 gpu0 GPU"
    assert "gpu02" not in text({"gpu01": "host"})("peer gpu02 left")


def test_where_a_name_is_found_it_is_the_same_name_again() -> None:
    redact = text()
    lines = ("server node8 not responding", "connect from node8", "NODE8", "node8:/export/x y")
    found = {re.search(r"host-[a-z2-7]{8}", redact(line))[0] for line in lines}  # type: ignore[index]
    assert len(found) == 1
    serials = (redact("SN: MT2042X12345")[4:], redact("serial MT2042X12345")[7:])
    assert serials[0] == serials[1]
    assert redact("then MT2042X12345") == "then MT2042X12345", "known in the second round alone"


def test_a_verdict_rests_on_no_word_that_is_replaced() -> None:
    lines = {
        line
        for path in sorted(LOGS.glob("*.txt"))
        for line in path.read_text().splitlines()
        if kind_of(line) is not None
    }
    assert len(lines) > 30
    redact = text()
    assert [line for line in lines if kind_of(redact(line)) != kind_of(line)] == []
    assert [line for line in lines if "(removed)" in redact(line)] == []


def test_pages_that_rules_refer_to_stay() -> None:
    pages = {page for rule in CATALOGUE.values() for page in rule.references if "://" in page}
    assert len(pages) > 10
    redact = text()
    assert [page for page in pages if redact(page) != page] == []
