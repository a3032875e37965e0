"""A process that may run on some of a host's processors: in a guest that has more than one."""

from collections.abc import Callable
from typing import Any

import pytest

from lab.rxe import Rxe


@pytest.mark.needs("processors")
def test_a_process_that_is_bound_is_not_warned_of_a_device_without_a_node(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Callable[..., tuple[int, Any]]
) -> None:
    code, document = rdmadiag_json("preflight", prefix=("taskset", "-c", "0"))
    found = document["verdict"]["findings"]
    assert code == 0
    assert {each["rule"] for each in found if each["severity"] != "info"} == set()
    assert document["evidence"]["process"]["cpus_allowed"] == "0"
    assert document["evidence"]["system"]["cpus_online"] == "0-1"
    assert "numa-remote" not in {each["rule"] for each in found}
