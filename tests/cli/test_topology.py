"""rdmadiag topology, end to end on described hosts."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.machine import Machine
from lab.samples import gpu_host, infiniband_host, roce_host
from rdmadiag.facts.ib import PortState

# Children that read what a user names: tests/host/test_given_file.py, test_isolation.py.
pytestmark = pytest.mark.usefixtures("in_this_process")

Rdmadiag = Callable[..., "Outcome"]  # type: ignore[name-defined]  # noqa: F821  # tests/cli/conftest.py


@pytest.fixture
def run(tmp_path: Path, rdmadiag: Rdmadiag) -> Callable[..., tuple[int, str, str]]:
    def run(machine: Machine, *arguments: str) -> tuple[int, str, str]:
        machine.change(hostname="host").write(str(tmp_path / "host"), "PCI.")
        return rdmadiag("topology", "--from", str(tmp_path / "host"), *arguments)

    return run


def test_the_answer_the_tree_the_distances_and_the_lines(run: Callable[..., tuple]) -> None:
    code, out, err = run(gpu_host())
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == (
        "OK  4 GPUs, 4 adapter ports: an adapter below the switch of each  [host, recorded]"
    )
    assert lines[2:7] == [
        "NUMA node 0",
        "  host bridge pci0000:16",
        "    switch 0000:17:00.0",
        "      GPU0      0000:1b:00.0  10de:2330  32.0 GT/s x16",
        "      mlx5_0/1  0000:19:00.0  400G       rail0",
    ]
    assert "    mlx5_4/1  0000:08:00.0  25G  eno1np0, default route: not proposed" in lines
    assert "GPU2  SYS       SYS       PIX       NODE" in lines
    assert "export NCCL_IB_HCA='=mlx5_0,mlx5_1,mlx5_2,mlx5_3'" in lines
    assert lines[-2:] == ["# GPU3", "export UCX_NET_DEVICES=mlx5_3:1"]
    assert max(map(len, lines[1:])) <= 80


def test_quiet_is_the_answer_alone(run: Callable[..., tuple]) -> None:
    assert len(run(gpu_host(), "-q")[1].splitlines()) == 1


def test_without_gpus_it_says_so_and_groups_by_numa_node(run: Callable[..., tuple]) -> None:
    code, out, _ = run(infiniband_host())
    assert code == 0
    assert out.startswith("OK  no GPU here; 2 adapter ports to use on 2 NUMA nodes")
    assert "# NUMA node 1\nexport UCX_NET_DEVICES=mlx5_1:1" in out


def test_a_gpu_without_an_adapter_below_its_switch_is_a_warning(run: Callable[..., tuple]) -> None:
    code, out, _ = run(gpu_host().with_port(2, 0, state=PortState.DOWN))
    assert code == 1
    assert out.startswith(
        "WARN  GPU2: no active adapter below the PCIe switch; the nearest, mlx5_3/1"
    )


def test_software_devices_are_shown_and_not_proposed(run: Callable[..., tuple]) -> None:
    code, out, _ = run(roce_host().with_device(parent="ens1f0np0"))
    assert code == 0
    assert out.startswith("OK  no GPU here, and no adapter to propose of 1 port")
    assert "not on PCI" in out
    assert "export" not in out


def test_a_host_without_a_device_is_unknown(run: Callable[..., tuple]) -> None:
    assert run(Machine("none"))[0] == 3


def test_one_device_alone_can_be_looked_at(run: Callable[..., tuple]) -> None:
    code, out, _ = run(gpu_host(), "--device", "mlx5_1")
    assert code == 0, "what is not looked at is not missed"
    assert "mlx5_0" not in out


def test_the_document_has_gpus_adapters_and_lines(run: Callable[..., tuple]) -> None:
    document = json.loads(run(gpu_host(), "--json")[1])
    assert [gpu["name"] for gpu in document["gpus"]] == ["GPU0", "GPU1", "GPU2", "GPU3"]
    first = document["gpus"][0]
    assert first["nics"][0] == {"device": "mlx5_0", "port": 1, "distance": "pix"}
    assert first["function"]["place"]["root"] == "pci0000:16"
    assert first["chosen"] == ["mlx5_0:1"]
    by_name = {nic["device"]: nic for nic in document["nics"]}
    assert by_name["mlx5_4"]["left"] == "default_route"
    assert by_name["mlx5_0"]["left"] is None
    assert document["exports"][0] == {
        "of": "host",
        "variable": "NCCL_IB_HCA",
        "value": "=mlx5_0,mlx5_1,mlx5_2,mlx5_3",
    }
    assert document["verdict"] == {"status": "ok", "findings": []}
    assert document["missing"] == {}
