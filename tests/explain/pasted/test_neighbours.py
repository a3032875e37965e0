"""Which MAC address answers for which address."""

from tests.explain.pasted.answer import ON_N1, ON_N2, first

REPLY = "Unicast reply from 10.33.0.20 [10:70:FD:8A:40:{}]  0.7ms\n"
OF_ENS1 = "10.1.0.11 dev ens1 lladdr 98:03:9b:aa:10:4e REACHABLE\n"
OF_ENS2 = "10.1.0.12 dev ens1 lladdr 98:03:9b:aa:10:{} STALE\n"
ON_TWO = f"{ON_N2}ip -br addr\nens1  UP  10.1.0.11/24\nens2  UP  10.1.0.12/24\n"
ON_ONE = f"{ON_N2}ip -br addr\nens1  UP  10.1.0.11/24 10.1.0.12/24\n"
ASKED = f"{ON_N1}ip neigh\n"


def test_two_hosts_answer_for_one_address() -> None:
    asked = f"{ON_N1}arping -I ens1 10.33.0.20\n"
    both = f"{asked}{REPLY.format(16)}{REPLY.format(17)}"
    assert first(both) == ("address-twice", 3, True)
    assert first(f"{asked}{REPLY.format(16)}{REPLY.format(16)}") is None


def test_one_mac_address_answers_for_two_interfaces_of_a_host() -> None:
    both = f"{ASKED}{OF_ENS1}{OF_ENS2.format('4e')}"
    assert first(f"{both}{ON_TWO}") == ("no-path", 3, True)
    of_one_netdev = both.replace(" dev ens1", "")  # ip neigh show dev ens1
    assert first(f"{of_one_netdev}{ON_TWO}") == ("no-path", 3, True)


def test_each_interface_answers_for_itself() -> None:
    assert first(f"{ASKED}{OF_ENS1}{OF_ENS2.format('4f')}{ON_TWO}") is None


def test_two_addresses_of_one_interface_have_one_mac_address() -> None:
    both = f"{ASKED}{OF_ENS1}{OF_ENS2.format('4e')}"
    assert first(f"{both}{ON_ONE}") is None
    assert first(both) is None
