"""Variables that name devices and rows: any text is a choice or none."""

from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.gid.environment import LIMIT, PARSERS, Choice, choice, parse_index
from rdmadiag.sources.process import ENVIRONMENT

PORTS = (("mlx5_0", 1), ("mlx5_1", 1))


@given(st.sampled_from(sorted(PARSERS)), st.text(max_size=80))
def test_any_value_is_a_choice_or_none(variable: str, value: str) -> None:
    found = PARSERS[variable](variable, value)
    if found is not None:
        assert isinstance(found, Choice)
        assert 0 < len(found.parts) <= LIMIT
        assert set(found.unmatched(PORTS, ("eth0",))) <= set(found.parts)
        assert isinstance(found.has("mlx5_0", 1), bool)


@given(st.text(max_size=40))
def test_any_index_is_a_row_or_none(value: str) -> None:
    found = parse_index(value)
    assert found is None or 0 <= found < 10**6


@given(st.lists(st.sampled_from(["mlx5_0", "mlx5_1", "mlx5_9"]), min_size=1, max_size=5))
def test_a_list_and_its_exclusion_divide_the_ports(names: list[str]) -> None:
    value = ",".join(names)
    chosen, others = (PARSERS["NCCL_IB_HCA"]("NCCL_IB_HCA", sign + value) for sign in ("", "^"))
    assert chosen
    assert others
    assert all(chosen.has(*port) != others.has(*port) for port in PORTS)


def test_a_variable_that_is_not_set_chooses_nothing() -> None:
    assert choice({}, "NCCL_IB_HCA") is None
    assert choice({"NCCL_IB_HCA": "mlx5"}, None) is None


def test_each_variable_that_is_judged_is_read() -> None:
    from rdmadiag.gid.environment import GID_INDEXES

    for variable in (*PARSERS, *GID_INDEXES, "NCCL_IB_PKEY"):
        assert variable.startswith(ENVIRONMENT)
