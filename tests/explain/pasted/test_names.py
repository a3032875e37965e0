"""Variables in a paste that name devices, and what the host lists of them."""

from tests.explain.pasted.answer import ON_N1, ON_N2, first


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


def test_devices_of_ibv_devinfo_are_all_where_their_names_alone_were_looked_for() -> None:
    listed = f"{ON_N1}ibv_devinfo | grep {{}}\nhca_id:\trocep27s0f0\n\tstate: PORT_ACTIVE (4)\n"
    named = f"{ON_N1}env | grep NCCL\nNCCL_IB_HCA=mlx5_bond_0\n"
    assert first(listed.format("-E 'hca_id|state'") + named) == ("device-renamed", 5, True)
    for other in ("-A3 rocep27s0f0", "hca_id | head -1", "-A8 'hca_id:.*rocep27s0f0'"):
        assert first(listed.format(other) + named) is None


def test_a_variable_that_names_a_device_whose_ports_are_all_down_beside_one_that_is_up() -> None:
    listed = (
        f"{ON_N1}ibdev2netdev\nrocep1s0f0 port 1 ==> enp1s0f0np0 (Down)\n"
        "rocep1s0f1 port 1 ==> enp1s0f1np1 (Up)\n"
    )
    named = f"{ON_N1}export NCCL_DEBUG=INFO NCCL_IB_HCA=={{}}\n"
    assert first(listed + named.format("rocep1s0f0")) == ("port-down", 2, True)
    assert first(listed + named.format("rocep1s0f1")) is None
    assert first(listed + named.format("rocep1s0f0,rocep1s0f1")) is None
    assert first(listed.replace("(Up)", "(Down)") + named.format("rocep1s0f0")) is None


def test_a_connected_queue_pair_of_an_adapter_that_has_none() -> None:
    failed = f"{ON_N1}ib_write_bw {{}} -F n2\nUnable to create QP.\n Couldn't create IB resources\n"
    for named in ("-d rdmap79s0", "--ib-dev=efa_0"):
        assert first(failed.format(named)) == ("qp-type-unsupported", 2, True)
    for named in ("-d mlx5_0", "-d rdmap79s0 -c SRD"):
        found = first(failed.format(named))
        assert found is None or found[0] != "qp-type-unsupported"


def test_fewer_nodes_than_devices() -> None:
    devices = f"{ON_N1}ls /sys/class/infiniband\nmlx5_0  mlx5_1\n"
    nodes = f"{ON_N1}ls /dev/infiniband/\nrdma_cm  {{}}\n"
    assert first(devices + nodes.format("uverbs0")) == ("uverbs-node-missing", 4, True)
    assert first(devices + nodes.format("uverbs0  uverbs1")) is None
    assert first(nodes.format("uverbs0")) is None
    elsewhere = nodes.replace(ON_N1, ON_N2)
    assert first(devices + elsewhere.format("uverbs0")) is None


def test_nccl_tests_that_are_rank_0_on_each_of_two_hosts() -> None:
    row = "#  Rank  {} Group  0 Pid  {} on      {} device  0 [0000:01:00] NVIDIA RTX A6000\n"
    one = f"{ON_N1}mpirun -np 2 -H n1,n2 all_reduce_perf\n" + row.format(0, 4711, "n1")
    assert first(one + row.format(0, 1147, "n2")) == ("feature-not-built", 3, True)
    assert first(one + row.format(1, 1147, "n2")) is None
    assert first(one + row.format(0, 4712, "n1")) is None  # run twice


def test_qperf_has_no_lid_on_ethernet_and_is_not_told_to_connect() -> None:
    failed = "rc_bw:\nfailed to modify QP to RTR: Invalid argument\n"
    assert first(f"{ON_N1}qperf 192.0.2.1 rc_bw\n{failed}") == ("no-gid-given", 3, True)
    assert first(f"{ON_N1}qperf -cm1 192.0.2.1 rc_bw\n{failed}") is None


def test_a_container_that_was_started_with_a_minimal_dev() -> None:
    failed = "UCX  WARN  network device 'mlx5_0:1' is not available, please use 'lo'(tcp)\n"
    found = ("container-without-device", 2, True)
    assert first(f"{ON_N1}apptainer exec --contain a.sif mpi\n{failed}") == found
    assert first(f"+ srun apptainer exec --contain a.sif mpi\n{failed}") == found
    assert first(f"{ON_N1}apptainer exec a.sif mpi\n{failed}") is None


def test_a_list_of_names_alone_is_of_ibstat() -> None:
    named = "0: + export NCCL_IB_HCA==mlx5_0,mlx5_3\n"
    assert first(f"{named}$ srun -w n1 ibstat -l\nibp24s0\nibp41s0\n") == (
        "device-renamed",
        1,
        True,
    )
    assert first(f"{named}$ srun -w n1 ibstat -l\nmlx5_0\nmlx5_3\n") is None


def test_a_container_that_was_given_no_node() -> None:
    started = f"{ON_N1}docker run --gpus all {{}}-it pytorch bash\nroot@n1c:/w# ./run\n"
    none = "n1:412:601 [0] NCCL INFO NET/IB : No device found.\n"
    assert first(started.format("") + none) is None  # as on a host without RDMA
    none += "ibstat on the host says Active\n"
    assert first(started.format("") + none) == ("container-without-device", 3, True)
    for each in ("--privileged ", "--device=/dev/infiniband ", "-v /dev/infiniband:/x "):
        assert first(started.format(each) + none) is None
    inside = "root@3f1c:/w# ls /sys/class/infiniband\nmlx5_0  mlx5_1\nroot@3f1c:/w# ibv_devinfo\n"
    assert first(f"{inside}No IB devices found\n") == ("uverbs-node-missing", 4, True)
    numbered = inside.replace("root@3f1c:", "root@3f1c2a99d0b7:")
    assert first(f"{numbered}No IB devices found\n") == ("container-without-device", 4, True)
    assert first(f"{inside.replace('mlx5_0  mlx5_1', '')}No IB devices found\n") is None

    after = f"{started.format('')}{ON_N1}ibv_devinfo\nNo IB devices found\n"
    assert first(after) is None  # the container was left
    more = f"{ON_N1}docker run --gpus all \\\n--privileged pytorch ibv_devinfo\n"
    assert first(f"{more}No IB devices found\n") is None
