"""Names and versions of stacks, and how one more joins."""

import re
from pathlib import Path

import pytest

from rdmadiag.gid import stacks as folder
from rdmadiag.gid.registry import NoSuchStack, chosen, every, stacks


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("nccl", ["≥2.26.2", "2.22.3-2.26.1", "2.21-2.22.2", "≤2.20"]),
        ("NCCL@2.27.7", ["≥2.26.2"]),
        ("nccl@2.26.2", ["≥2.26.2"]),
        ("nccl@2.26.1", ["2.22.3-2.26.1"]),
        ("nccl@v2.22.2-1", ["2.21-2.22.2"]),
        ("nccl@2.18", ["≤2.20"]),
        ("nccl@≤2.20", ["≤2.20"]),
        ("ucx@1.13.1", ["≤1.15"]),
        ("ucx@1.21.0", ["≥1.21"]),
        ("perftest@4.5", ["<26.04.17"]),
        ("ib_send_lat@26.07", ["≥26.04.17"]),
        ("deepep@hybrid-ep", ["hybrid-ep"]),
        ("mooncake@0.3.7", ["0.3.7"]),
        ("rc_pingpong", ["any"]),
        ("libfabric", ["any", "any", "any"]),
    ],
)
def test_a_name_with_a_version_is_the_rule_that_holds_for_it(text: str, names: list[str]) -> None:
    assert [version.name for _, version in chosen([text])] == names


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("zzz", "there are: brpc"),
        ("", "no stack"),
        ("deepep@3", "hybrid-ep"),
        ("x-rdma@0.5", "0.6"),
    ],
)
def test_what_is_not_known_is_refused_with_what_there_is(text: str, words: str) -> None:
    with pytest.raises(NoSuchStack, match=re.escape(words)):
        chosen([text])


def test_all_without_a_name_and_each_once() -> None:
    assert chosen([]) == every()
    assert chosen(["nccl", "nccl@2.20"]) == chosen(["nccl"])


def test_each_file_of_the_folder_is_at_least_one_stack() -> None:
    files = {path.stem for path in Path(folder.__path__[0]).glob("*.py")} - {"__init__"}
    assert len(stacks()) >= len(files)
    assert all(stack.versions for stack in stacks().values())


def test_ranges_of_one_stack_do_not_overlap() -> None:
    for stack in stacks().values():
        for number in (
            "0.1",
            "0.3.5",
            "0.3.11",
            "1.0",
            "1.18",
            "2.19",
            "2.22",
            "2.25",
            "4.1",
            "99",
        ):
            holding = [each.name for each in stack.versions if each.holds_for(number)]
            assert len(holding) <= 1, (stack.name, number, holding)
