"""Completions of NCCL at several hosts."""

from tests.explain.pasted.answer import first


def ended(host: int, rail: int, peer: int = 7) -> str:
    return (
        f"worker-{host}:141:1022 [{rail}] transport/net_ib.cc:1910 NCCL WARN NET/IB : Got "
        f"completion from peer 10.0.0.{peer}<33150> with status=12 opcode=0 len=0 vendor err 129 "
        f"(Send) localGid ::ffff:10.1.{rail}.{host} remoteGids::ffff:10.1.{rail}.{peer}\n"
    )


def test_one_peer_that_two_hosts_lose_by_all_adapters() -> None:
    every = [ended(host, rail) for host in (12, 14) for rail in (0, 1, 2)]
    assert first("".join(every)) == ("peer-host-down", 1, True)
    assert first("".join(every[:3])) is None  # of one host it may be that host's network
    assert first(every[0] + every[3]) is None  # by one adapter each
    assert first("".join([*every, ended(12, 0, peer=8)])) is None
