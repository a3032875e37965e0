"""Variables in a paste that name devices."""

from tests.explain.pasted.answer import ON_N1, first


def test_a_variable_that_names_devices_which_the_host_lists_by_other_names() -> None:
    listed = f"{ON_N1}ibv_devices\n    rocep65s0f0     \tb83fd20300c1a230\n"
    named = f"{ON_N1}cat /etc/nccl.conf\nNCCL_IB_HCA={{}}\n"
    assert first(listed + named.format("mlx5_0,mlx5_1")) == ("device-renamed", 4, True)
    assert first(listed + named.format("rocep65s0f0:1")) is None
    assert first(listed + named.format("rocep65")) is None  # of NCCL a prefix is enough
    assert (
        first(listed.replace("ibv_devices", "ibv_devices | head -3") + named.format("mlx5_0"))
        is None
    )
