"""What of the compatibility between hosts is news, and what each host's own report says."""

from rdmadiag.fleet.merged import Compatibility
from rdmadiag.fleet.odd_stacks import unlike

RIGHT, WRONG = "a[1-8]", "b[1-8]"


def row(stack: str, one: str, other: str, *, works: bool | None) -> Compatibility:
    return Compatibility(stack, one, other, works, "why")


WITHIN = (row("nccl, ucx", RIGHT, RIGHT, works=True), row("nccl, ucx", WRONG, WRONG, works=True))


def test_a_stack_that_fails_between_two_groups_and_works_in_them_is_news() -> None:
    between = row("nccl, ucx", RIGHT, WRONG, works=False)
    assert unlike((*WITHIN, between)) == (between,)


def test_what_works_is_no_news() -> None:
    assert unlike(WITHIN) == ()


def test_a_stack_that_fails_in_the_only_group_is_each_hosts_own_matter() -> None:
    assert unlike([row("rc-pingpong", RIGHT, RIGHT, works=False)]) == ()


def test_a_stack_that_works_in_another_group_alone_is_news() -> None:
    rows = [row("ucx", RIGHT, RIGHT, works=True), row("ucx", WRONG, WRONG, works=False)]
    assert unlike(rows) == (rows[1],)


def test_of_several_stacks_those_that_work_nowhere_are_left_out() -> None:
    everywhere = row("ds4, ucx", RIGHT, WRONG, works=False)
    fails = [row("ds4", group, group, works=False) for group in (RIGHT, WRONG)]
    works = [row("ucx", group, group, works=True) for group in (RIGHT, WRONG)]
    assert unlike((*fails, *works, everywhere)) == (row("ucx", RIGHT, WRONG, works=False),)


def test_a_stack_of_which_one_version_works_may_stand_as_a_whole_elsewhere() -> None:
    rows = [
        row("nccl ≤2.20", RIGHT, RIGHT, works=False),
        row("nccl ≥2.21", RIGHT, RIGHT, works=True),
    ]
    between = row("nccl", RIGHT, WRONG, works=False)
    assert unlike((*rows, between)) == (between,)


def test_of_nodes_that_are_alone_in_their_groups_everything_is_news() -> None:
    between = row("ucx", "n1", "n2", works=None)
    assert unlike([between]) == (between,)


def test_of_a_node_alone_the_other_group_decides() -> None:
    rows = [row("ucx", RIGHT, RIGHT, works=False), row("ucx", RIGHT, "n9", works=False)]
    assert unlike(rows) == ()
