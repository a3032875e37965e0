"""What libibverbs warns of, and what the program that it warned then had."""

from tests.explain.pasted.answer import ON_N1, first

WARNED = (
    "libibverbs: Warning: no userspace device-specific driver found for /sys/class/{}/uverbs0\n"
)
OTHER_ABI = (
    "libibverbs: Warning: Driver bnxt_re does not support the kernel ABI of 6 (supports 1 to 1) "
    "for device /sys/class/infiniband/bnxt_re0\n"
)


def test_a_device_that_no_provider_takes_where_no_other_is_found() -> None:
    asked = f"{ON_N1}ibv_devinfo\n{WARNED}"
    assert first(f"{asked}No IB devices found\n") == ("provider-missing", 2, True)
    assert first(f"{asked}hca_id:\tmlx5_0\n") is None
    assert first(f"{asked}{ON_N1}ibv_devices\nNo IB devices found\n") is None  # another program


def test_a_provider_of_another_abi_is_why_and_not_where_the_netdev_is() -> None:
    link = f"{ON_N1}rdma link show\nlink bnxt_re0/1 state ACTIVE physical_state LINK_UP\n"
    assert first(link) == ("netdev-in-other-netns", 2, True)
    asked = f"{link}{ON_N1}ibv_devinfo\n{OTHER_ABI}No IB devices found\n"
    assert first(asked) == ("provider-release", 4, True)
