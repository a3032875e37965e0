"""Tables of PowerShell."""

import pytest

from tests.explain.pasted.answer import first

RDMA = """PS C:\\> Get-NetAdapterRdma

Name      InterfaceDescription          Enabled Operational PFC   ETS
----      --------------------          ------- ----------- ---   ---
SLOT 3 P1 Mellanox ConnectX-6 Adapter   {:<7} {:<11} True  True
SLOT 3 P2 Mellanox ConnectX-6 Adapter # {:<7} {:<11} True  True

"""
SMB = """PS C:\\> Get-SmbClientNetworkInterface

Interface Index RSS Capable RDMA Capable Speed
--------------- ----------- ------------ -----
12              True        {:<12} 25 Gbps
"""


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (RDMA.format(*["False", "False"] * 2), ("rdma-off-on-device", 5, False)),
        (RDMA.format("True", "False", "True", "True"), ("port-down", 5, False)),
        (RDMA.format("False", "True", "True", "True"), None),  # one that is not meant for it
        (RDMA.format(*["True", "True"] * 2), None),
        (SMB.format("False"), ("rdma-off-on-device", 5, False)),
        (SMB.format("True"), None),
        ("NetworkDirect                : Disabled\n", ("rdma-off-on-device", 1, True)),
        ("NetworkDirect                : Enabled\n", None),
    ],
)
def test_what_a_table_shows(text: str, answer: tuple[str, int, bool] | None) -> None:
    assert first(text) == answer
