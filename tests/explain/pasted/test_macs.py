"""What a paste shows of a Mac."""

import pytest

from tests.explain.pasted.answer import MAC, first


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{MAC}rdma_ctl status\ndisabled\n", ("rdma-disabled", 2, True)),
        (f"{MAC}rdma_ctl status\nenabled\n", None),
        (
            f"{MAC}rdma_ctl status\nenabled\n{MAC}ifconfig bridge0\n\tmember: en2 flags=3\n",
            ("port-in-bridge", 4, True),
        ),
        (f"{MAC}ifconfig bridge0\n\tmember: en2 flags=3\n", None),  # as it comes
        (
            (
                f"{MAC}ibv_devices\n{MAC}system_profiler SPThunderboltDataType\n"
                "          Speed: Up to 40 Gb/s\n"
            ),
            ("thunderbolt-4", 3, True),
        ),
        (
            (
                f"{MAC}ibv_devices\n{MAC}system_profiler SPThunderboltDataType\n"
                "          Speed: Up to 40 Gb/s\n          Speed: Up to 80 Gb/s\n"
            ),
            None,
        ),
        (
            f"{MAC}ibv_devinfo -v\nhca_id:\trdma_en3\n\t\t\tGID[  0]:\t\tfe80::1\n",
            ("no-ipv4-gid", 3, False),
        ),
        (
            (
                f"{MAC}ibv_devinfo -v\nhca_id:\trdma_en3\n\t\t\tGID[  0]:\t\tfe80::1\n"
                "\t\t\tGID[  1]:\t\t::ffff:10.0.0.1\n"
            ),
            None,
        ),
        (
            (
                f"{MAC}ibv_devices\n{MAC}ifconfig en2\n\tinet 10.0.9.1 netmask 0xffffff00\n"
                f"{MAC}ifconfig en3\n\tinet 10.0.9.2 netmask 0xffffff00\n"
            ),
            ("shared-subnet", 5, True),
        ),
        (
            (
                f"{MAC}ibv_devices\n{MAC}ifconfig en2\n\tinet 10.0.9.1 netmask 0xffffff00\n"
                f"{MAC}ifconfig en3\n\tinet 10.0.8.2 netmask 0xffffff00\n"
            ),
            None,
        ),
        (
            (
                f'{MAC}cat hosts.json\n["rdma_en5"]\n{MAC}ibv_devinfo\nhca_id:\trdma_en5\n'
                "\t\t\tstate:\t\t\tPORT_DOWN (1)\n"
            ),
            ("port-down", 5, True),
        ),
        (
            (
                f'{MAC}cat hosts.json\n["rdma_en4"]\n{MAC}ibv_devinfo\nhca_id:\trdma_en5\n'
                "\t\t\tstate:\t\t\tPORT_DOWN (1)\n"
            ),
            None,
        ),
    ],
)
def test_what_a_mac_lists(text: str, found: tuple[str, int, bool] | None) -> None:
    assert first(text) == found


def test_a_table_of_a_mac_that_may_be_cut_off_is_not_certain() -> None:
    table = f"{MAC}ibv_devinfo -v\nhca_id:\trdma_en3\n\t\t\tGID[  0]:\t\tfe80::1\n"
    assert first(table) == ("no-ipv4-gid", 3, False)
    assert first(f"{table}{MAC}sw_vers\nProductName: macOS\n") == ("no-ipv4-gid", 3, True)


def test_a_kind_of_mac_that_has_no_rdma() -> None:
    chip = "% sysctl -n machdep.cpu.brand_string\nApple M4{}\n"
    none = "% ibv_devices\n    device    node GUID\n    ------    ----------------\n"
    assert first(chip.format("") + none) == ("thunderbolt-4", 2, True)
    assert first(chip.format(" Pro") + none) is None
    assert first(chip.format("") + none + "    rdma_en2  0001\n") is None
