"""Two counters of a port, by what its driver counts."""

from collections.abc import Callable
from typing import Any

import pytest

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.job import TrafficUnit
from rdmadiag.host.recording import Recording
from rdmadiag.sources.port_traffic import read_port_traffic

PORT = "/sys/class/infiniband/{}/ports/1/"
Hosts = Callable[[Recording], Any]


def counted(device: str, **values: str) -> Recording:
    at = PORT.format(device)
    return Recording(
        files={
            at + name.replace("__", "/"): f"{value}\n".encode() for name, value in values.items()
        }
    )


def test_port_data_counts_words_of_four_octets(host_in_memory: Hosts) -> None:
    host = host_in_memory(
        counted("mlx5_0", counters__port_xmit_data="250", counters__port_rcv_data="3")
    )
    found = read_port_traffic(host, "mlx5_0", 1)
    assert (found.unit, found.sent, found.received) == (TrafficUnit.BYTES, 1000, 12)
    assert (found.source, found.packet_bytes) == ("counters/port_xmit_data", None)
    assert len(host.asked) == 2, "nothing else is read"


def test_efa_counts_octets(host_in_memory: Hosts) -> None:
    host = host_in_memory(counted("efa_0", hw_counters__tx_bytes="7", hw_counters__rx_bytes="9"))
    found = read_port_traffic(host, "efa_0", 1)
    assert (found.unit, found.sent, found.received) == (TrafficUnit.BYTES, 7, 9)


@pytest.mark.parametrize(
    ("mtu", "expected"), [(b"1500\n", 1024), (b"9000\n", 4096), (b"300\n", None), (None, None)]
)
def test_rxe_counts_packets_of_the_mtu_that_fits_its_netdev(
    mtu: bytes | None, expected: int | None, host_in_memory: Hosts
) -> None:
    made = counted("rxe0", hw_counters__sent_pkts="64", hw_counters__rcvd_pkts="1")
    made.files["/sys/class/infiniband/rxe0/parent"] = b"eth0\n"
    if mtu:
        made.files["/sys/class/net/eth0/mtu"] = mtu
    found = read_port_traffic(host_in_memory(made), "rxe0", 1)
    assert (found.unit, found.sent, found.received) == (TrafficUnit.PACKETS, 64, 1)
    size = found.packet_bytes
    assert (None if isinstance(size, Missing) else size) == expected


def test_a_parent_that_is_no_netdev_leads_nowhere(host_in_memory: Hosts) -> None:
    made = counted("rxe0", hw_counters__sent_pkts="64", hw_counters__rcvd_pkts="1")
    made.files["/sys/class/infiniband/rxe0/parent"] = b"../../x\n"
    found = read_port_traffic(host_in_memory(made), "rxe0", 1)
    assert isinstance(found.packet_bytes, Missing)
    assert found.packet_bytes.why is Why.MALFORMED


def test_a_driver_that_counts_nothing_and_one_that_refuses(host_in_memory: Hosts) -> None:
    found = read_port_traffic(host_in_memory(Recording()), "siw0", 1)
    assert isinstance(found.sent, Missing)
    assert (found.sent.why, found.source) == (Why.UNSUPPORTED, "")
    late = Missing(Why.TIMEOUT, "late")
    path = PORT.format("mlx5_0") + "counters/port_xmit_data"
    host = host_in_memory(Recording(refused={"read": {path: late}}))
    found = read_port_traffic(host, "mlx5_0", 1)
    assert found.sent == late
    assert not any("hw_counters" in subject for _, subject in host.asked)
