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


NOT_LOADED = (
    "libibverbs: Warning: couldn't load driver 'libmlx5-rdmav34.so': libmlx5-rdmav34.so: "
    "cannot open shared object file: No such file or directory\n"
)
MEASURED = "# OSU MPI Bandwidth Test v7.1\n# Size      Bandwidth (MB/s)\n1048576   {}\n"
DEVICES = f"{ON_N1}ibv_devices\n    mlx5_0          \t1070fd0300b61a48\n"


def test_a_provider_that_is_missing_for_a_device_that_is_listed_where_mpi_went_by_others() -> None:
    asked = f"{ON_N1}srun osu_bw\n{NOT_LOADED}"
    slow, fast = MEASURED.format(1160.22), MEASURED.format(24160.22)
    assert first(f"{asked}{slow}{DEVICES}") == ("provider-missing", 2, False)
    assert first(f"{asked}{fast}{DEVICES}") is None  # another container has it
    assert first(f"{asked}{slow}") is None
    assert first(f"{asked}{slow}{DEVICES.replace('mlx5', 'mlx4')}") is None
    assert first(f"{asked}{slow.replace('Bandwidth Test', 'Allreduce Test')}{DEVICES}") is None
    assert first(f"{asked}{slow.replace('1048576', '4096')}{DEVICES}") is None
    assert first(f"{asked}# OSU MPI Bandwidth Test v7.1\n{DEVICES}") is None


COMPONENTS = (
    "                 MCA btl: tcp (MCA v2.1.0, API v3.1.0, Component v4.1.5)\n"
    "                 MCA pml: ob1 (MCA v2.1.0, API v2.0.0, Component v4.1.5)\n"
)
UCX = "                 MCA pml: ucx (MCA v2.1.0, API v2.0.0, Component v4.1.5)\n"
RATE = f"{ON_N1}ibstat\n\t\tState: Active\n\t\tRate: 100\n"


def test_an_open_mpi_without_a_component_of_rdma_that_is_far_below_the_rate_of_a_port() -> None:
    slow = f"{ON_N1}mpirun osu_bw\n{MEASURED.format(117.65)}"
    asked = f'{ON_N1}ompi_info | grep -E "MCA (pml|btl|mtl):"\n'
    assert first(f"{slow}{asked}{COMPONENTS}{RATE}") == ("feature-not-built", 6, False)
    assert first(f"{slow}{asked}{COMPONENTS}{UCX}{RATE}") is None
    assert first(f"{slow}{asked.replace('|mtl', '')}{COMPONENTS}{RATE}") is None
    assert first(f"{slow}{ON_N1}ompi_info | head -30\n{COMPONENTS}{RATE}") is None
    assert first(f"{slow}{asked}{COMPONENTS}{RATE.replace('100', '1')}") is None
    assert first(f"{slow}{asked}{COMPONENTS}") is None  # there may be no port
    assert first(f"{slow.replace('117.65', '4312.60')}{asked}{COMPONENTS}{RATE}") is None
    assert first(f"{asked}{COMPONENTS}{RATE}") is None
    by_tcp = slow.replace("mpirun", "mpirun --mca pml ob1 --mca btl tcp,self")
    assert first(f"{by_tcp}{asked}{COMPONENTS}{RATE}") is None
    assert first(f"{slow}{asked}{COMPONENTS}{RATE.replace('100', '1' + 320 * '0')}") is None


def test_an_elastic_fabric_adapter_that_nccl_takes_by_no_plugin() -> None:
    efa = "provider: efa\n    domain: rdmap16s27-rdm\n"
    nccl = (
        "n1:1:1 [0] NCCL INFO NET/Plugin: No plugin found (libnccl-net.so)\n"
        "n1:1:1 [0] NCCL INFO Using network Socket\n"
    )
    assert first(efa + nccl) == ("network-plugin-missing", 3, True)
    assert first(nccl) is None
    assert first(efa + nccl.replace("Socket", "AWS Libfabric")) is None


def test_a_plugin_that_gives_up_where_nccl_then_goes_by_sockets() -> None:
    gave_up = "n1:1:1 [0] NCCL WARN NET/OFI Failed to initialize rdma protocol\n"
    assert first(f"{gave_up}n1:1:1 [0] NCCL INFO Using network Socket\n") == (
        "no-provider",
        1,
        True,
    )
    assert first(f"{gave_up}n1:1:1 [0] NCCL INFO Using network AWS Libfabric\n") is None
