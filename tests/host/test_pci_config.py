"""Configuration space, read where capabilities lead and nowhere else."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.pci import Space, bridge
from rdmadiag.facts import Missing, Why
from rdmadiag.host import pci_config
from rdmadiag.host.live import LiveHost
from rdmadiag.sources import pci

SPACES = (Space(), Space(ats=True), bridge(acs=0x1D), bridge(acs=None), Space(acs=0, ats=False))
PARSERS = (pci.parse_express, pci.parse_acs, pci.parse_ats)
ANY = st.binary(max_size=600) | st.binary(max_size=64).map(lambda raw: (raw * 64)[:4096])


def registers(space: bytes, asked: list[tuple[int, int]] | None = None):
    def read(count: int, at: int) -> bytes:
        if asked is not None:
            asked.append((at, count))
        return space[at : at + count]

    return read


@pytest.mark.parametrize("space", SPACES)
def test_what_is_gathered_says_what_the_whole_says(space: Space) -> None:
    whole = space.content()
    found = pci_config.gathered(registers(whole))
    assert len(found) < 512
    for parse in PARSERS:
        assert parse(found) == parse(whole)


def test_registers_that_no_capability_claims_are_not_read() -> None:
    asked: list[tuple[int, int]] = []
    pci_config.gathered(registers(bridge(acs=0x1D).content(), asked))
    assert asked == [
        (0x00, 64),
        (0x40, 2),  # power management
        (0x60, 2),
        (0x60, 10),  # PCI Express, up to Device Control
        (0x100, 4),  # AER
        (0x148, 4),
        (0x148, 8),  # ACS
    ]


@pytest.mark.parametrize("size", [64, 128, 256], ids=["a user", "CardBus", "conventional PCI"])
def test_what_is_shorter_ends_there(size: int) -> None:
    assert len(pci_config.gathered(registers(Space().content()[:size]))) <= size


def test_lists_that_lead_in_a_circle_end() -> None:
    space = bytearray(bridge(acs=0x1D).content())
    space[0x61] = 0x40
    space[0x14A:0x14C] = b"\x01\x10"  # next: 0x100
    assert dict(pci_config.capabilities(registers(bytes(space)))) == {0x01: 0x40, 0x10: 0x60}
    extended = dict(pci_config.extended_capabilities(registers(bytes(space))))
    assert extended == {0x01: 0x100, 0x0D: 0x148}


@given(ANY)
def test_any_registers_are_gathered_in_bounded_steps(space: bytes) -> None:
    asked: list[tuple[int, int]] = []
    found = pci_config.gathered(registers(space, asked))
    assert len(asked) < 2000
    assert len(found) <= len(space)
    assert all(found[at] in (0, space[at]) for at in range(len(found)))


@given(ANY)
def test_what_is_gathered_of_any_registers_is_parsed_as_the_whole(space: bytes) -> None:
    whole = space.ljust(4096, b"\0")
    found = pci_config.gathered(registers(whole))
    for parse in PARSERS:
        assert parse(found) == parse(whole)


def test_a_file_is_read_at_its_offsets(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(Space(ats=True).content())
    found = LiveHost().pci_config(str(path))
    assert found == pci_config.gathered(registers(path.read_bytes()))


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    absent = LiveHost().pci_config(str(tmp_path / "config"))
    os.mkfifo(tmp_path / "fifo", stat.S_IRUSR)
    fifo = LiveHost().pci_config(str(tmp_path / "fifo"))
    assert isinstance(absent, Missing)
    assert isinstance(fifo, Missing)
    assert (absent.why, fifo.why) == (Why.ABSENT, Why.MALFORMED)
