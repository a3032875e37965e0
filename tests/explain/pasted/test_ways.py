"""Pings and routes in a paste."""

from tests.explain.pasted.answer import ON_N1, first


def ping(size: int, received: int) -> str:
    summary = f"3 packets transmitted, {received} received, 0% packet loss, time 2041ms\n"
    return f"{ON_N1}ping -c 3 -M do -s {size} 10.40.0.9\n{summary}"


def test_large_packets_that_get_lost_where_small_ones_do_not() -> None:
    assert first(ping(1472, 3) + ping(8972, 0)) == ("mtu-too-large", 4, True)
    assert first(ping(1472, 3) + ping(8972, 3)) is None
    assert first(ping(1472, 0) + ping(8972, 0)) is None  # nothing gets through
    plain = f"{ON_N1}ping -c 3 10.40.0.9\n3 packets transmitted, 3 received, 0% packet loss\n"
    assert first(plain + ping(8972, 0)) == ("mtu-too-large", 4, True)
    assert first(plain.replace("3 received", "0 received") + ping(8972, 0)) is None
    assert first(plain.replace("10.40.0.9", "10.40.0.8") + ping(8972, 0)) is None


def test_a_route_that_refuses_what_somebody_looked_for() -> None:
    routes = f"{ON_N1}ip route\nunreachable 10.200.0.0/16 proto static metric 20\n"
    looked = f"{ON_N1}ip route get {{}}\nRTNETLINK answers: No route to host\n"
    assert first(routes) is None
    assert first(routes + looked.format("10.200.4.14")) == ("route-unreachable", 2, True)
    assert first(routes + looked.format("10.201.4.14")) is None


def test_tcp_without_a_route_to_a_host_that_answers_pings() -> None:
    answers = f"{ON_N1}ping -c1 n2\n1 packets transmitted, {{}} received, 0% packet loss\n"
    tcp = f"{ON_N1}nc -vz n2 18515\nNcat: No route to host.\n"
    assert first(answers.format(1) + tcp) == ("firewall-rejects", 4, True)
    assert first(answers.format(0) + tcp) is None


def test_a_large_ping_without_an_answer_from_a_peer_that_answers_small_messages() -> None:
    few = f"{ON_N1}ib_write_lat -s 2 10.40.0.9 | tail -4\n 2       1000     2.31    4.87    2.36\n"
    assert first(few + ping(4200, 0)) == ("mtu-too-large", 4, False)
    assert first(few + ping(4200, 3)) is None
    assert first(few + ping(1400, 0)) is None  # nothing answers pings there
    assert first(few.replace("10.40.0.9", "10.40.0.8") + ping(4200, 0)) is None
    many = f"{few} 65536   1000     8.31    14.87    8.36\n"
    assert first(many + ping(4200, 0)) is None
    refused = "ping: local error: message too long, mtu=1500\n"
    assert first(few + ping(4200, 0) + refused) is None


def test_requests_of_the_connection_manager_get_lost_where_all_pings_are_answered() -> None:
    answers = f"{ON_N1}ping -c 2 {{}} | tail -2\n2 packets transmitted, {{}} received, 0% loss\n"
    asked = f"{ON_N1}rping -c -a 10.40.0.9 -v\ncma event RDMA_CM_EVENT_UNREACHABLE, error -110\n"
    assert first(answers.format("10.40.0.9", 2) + asked) == ("cm-datagrams-lost", 4, True)
    assert first(answers.format("10.40.0.9", 0) + asked) is None
    assert first(answers.format("10.40.0.8", 2) + asked) is None


EVENT = """Id      : 30803
Message : Failed to establish a network connection.
          Error: {error}
          Connection type: {by}
"""


def test_of_an_smb_client_connections_by_rdma_count() -> None:
    lost, refused = (
        "{Device Timeout}",
        "The transport connection attempt was refused by the remote system.",
    )
    assert first(EVENT.format(error=lost, by="Rdma")) == ("roce-port-dropped", 2, True)
    assert first(EVENT.format(error=refused, by="Rdma")) == ("peer-not-listening", 2, True)
    assert first(EVENT.format(error=lost, by="Wsk")) is None
    other = "Id      : 30808\nMessage : It is re-established. Connection type: Rdma\n"
    assert first(EVENT.partition("          Conn")[0].format(error=lost) + other) is None
    one_line = "Failed to establish a network connection. Connection type: Rdma Guidance: none"
    assert first(one_line) == ("roce-port-dropped", 1, True)
