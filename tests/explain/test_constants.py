"""Constants are distinguished from variables; their numbers are those of the headers."""

import re
from pathlib import Path

import pytest

from rdmadiag.explain.answers import ConstantAnswer, StateAnswer, VariableAnswer
from rdmadiag.explain.constants import EVENTS, constants, is_constant
from rdmadiag.explain.lookup import NotUnderstood, lookup
from rdmadiag.facts.mlx5_commands import COMMANDS
from rdmadiag.gid.variables import VARIABLES

HEADERS = {
    "enum ibv_event_type": Path("/usr/include/infiniband/verbs.h"),
    "enum rdma_cm_event_type": Path("/usr/include/rdma/rdma_cma.h"),
}


@pytest.mark.parametrize("kind", HEADERS)
def test_every_event_of_the_header_is_known_by_its_number(kind: str) -> None:
    if not HEADERS[kind].exists():
        pytest.skip(f"no {HEADERS[kind]}")
    body = re.search(rf"{kind} \{{(.*?)\}}", HEADERS[kind].read_text(), re.DOTALL)
    assert body
    names = re.findall(r"\b[A-Z]\w+", body[1])
    known = [each for each in EVENTS if each.of == kind]
    assert [(each.name, each.number) for each in known][: len(names)] == [
        (name, number) for number, name in enumerate(names)
    ]


@pytest.mark.parametrize(
    "word",
    [
        *("IBV_EVENT_PORT_ERR", "IBV_MTU_4096", "MLX5_CMD_OP_CREATE_QP", "IBV_QPT_RC"),
        *("RDMA_CM_EVENT_REJECTED", "IBV_WC_RDMA_WRITE", "RDMA_PS_TCP", "IBV_ACCESS_LOCAL_WRITE"),
    ],
)
def test_a_constant_is_no_setting(word: str) -> None:
    (answer,) = lookup([word], "linux")
    assert isinstance(answer, ConstantAnswer)
    assert answer.name == word
    assert "setting" not in answer.meaning


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("MLX5_CMD_OP_QUERY_HCA_CAP", 0x100),
        ("MLX5_CMD_OP_CREATE_QP", 0x500),
        ("MLX5_CMD_OP_2ERR_QP", 0x507),
        ("MLX5_CMD_OP_ACCESS_REG", 0x805),
        ("MLX5_CMD_OP_ALLOW_OTHER_VHCA_ACCESS", 0xB16),
        ("MLX5_CMD_OP_OF_A_NEWER_DRIVER", None),
        ("MLX5_CQE_REQ_ERR", None),
    ],
)
def test_a_command_of_mlx5_has_its_opcode(name: str, number: int | None) -> None:
    (answer,) = lookup([name], "linux")
    assert isinstance(answer, ConstantAnswer)
    assert answer.number == number


def test_no_two_commands_of_mlx5_have_one_opcode() -> None:
    assert len(set(COMMANDS.values())) == len(COMMANDS) == 198


def test_a_path_mtu_is_said_in_bytes() -> None:
    (answer,) = lookup(["IBV_MTU_4096"], "linux")
    assert isinstance(answer, ConstantAnswer)
    assert (answer.number, answer.meaning) == (5, "A path MTU of 4096 bytes.")


def test_an_event_has_the_causes_of_its_line_in_a_log() -> None:
    (answer,) = lookup(["IBV_EVENT_PORT_ERR"], "linux")
    assert isinstance(answer, ConstantAnswer)
    assert [each.label for each in answer.causes] == ["link-lost", "port-went-down"]
    (answer,) = lookup(["RDMA_CM_EVENT_ESTABLISHED"], "linux")
    assert isinstance(answer, ConstantAnswer)
    assert (answer.causes, answer.next) == ((), ())


@pytest.mark.parametrize("word", ["IBV_QPS_RTR", "state RTR", "RTR", "rtr"])
def test_a_state_of_a_queue_pair_is_known(word: str) -> None:
    (answer,) = lookup(word.split(), "linux")
    assert isinstance(answer, StateAnswer)
    assert (answer.kind, answer.state, answer.number) == ("queue pair", "rtr", 2)


def test_a_word_that_ports_and_queue_pairs_have_is_both() -> None:
    kinds = [each.kind for each in lookup(["INIT"], "linux") if isinstance(each, StateAnswer)]
    assert kinds == ["port", "queue pair"]
    (answer,) = lookup(["IBV_QPS_INIT"], "linux")
    assert isinstance(answer, StateAnswer)
    assert answer.kind == "queue pair"


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("IBV_EVENT_PORT_ER", "IBV_EVENT_PORT_ERR"),
        ("RDMA_CM_EVENT_REJECTD", "RDMA_CM_EVENT_REJECTED"),
        ("IBV_MTU_9000", "nothing that is known"),
        ("IBV_QPS_FOO", "nothing that is known"),
    ],
)
def test_a_constant_that_there_is_not_is_not_confirmed(word: str, near: str) -> None:
    with pytest.raises(NotUnderstood, match=near):
        lookup([word], "linux")


@pytest.mark.parametrize("row", VARIABLES, ids=lambda row: row.name)
def test_no_variable_is_taken_for_a_constant(row) -> None:  # type: ignore[no-untyped-def]
    answer = lookup([row.name], "linux")[0]
    assert isinstance(answer, VariableAnswer)
    if not row.name.endswith("*") and is_constant(row.name):
        assert list(constants(row.name))  # MLX5_CQE_SIZE: it begins as a constant does


# --- variables -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("NCCL_IB_GID_INDX", "NCCL_IB_GID_INDEX"),
        ("UCX_NET_DEVICE", "UCX_NET_DEVICES"),
        ("env NCCL_IB_GID_INDX=3", "NCCL_IB_GID_INDEX"),
        ("NCCL_SOCKET_IFNAM", "NCCL_SOCKET_IFNAME"),
    ],
)
def test_a_misspelt_variable_is_not_confirmed(word: str, known: str) -> None:
    with pytest.raises(NotUnderstood, match=rf"did you mean {known}\?"):
        lookup(word.split(), "linux")


def test_a_variable_of_a_family_that_is_not_described_is_said_to_be_so() -> None:
    (answer,) = lookup(["NCCL_IB_AR_THRESHOLD"], "linux")
    assert isinstance(answer, VariableAnswer)
    assert "not described here" in answer.meaning
    (family,) = lookup(["NCCL_IB_*"], "linux")
    assert isinstance(family, VariableAnswer)
    assert "not described" not in family.meaning
