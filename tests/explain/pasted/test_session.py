"""Pastes of a terminal: prompts, hosts and commands."""

import pytest

from rdmadiag.explain.pasted.session import hosts_of, parts


@pytest.mark.parametrize(
    ("line", "host", "command"),
    [
        ("[root@n1 ~]# ibstat mlx5_0", "n1", "ibstat mlx5_0"),
        ("user@n1:~/run$ show_gids", "n1", "show_gids"),
        ("user@studio ~ % ibv_devices", "studio", "ibv_devices"),
        ("root@n1:~# ssh n2 'ibstat'", "n2", "ibstat'"),
        ("$ ibstat", "", "ibstat"),
        ("n1:~ # ibstat", "n1", "ibstat"),
        ("user@n1:~> ibstat", "n1", "ibstat"),
        ("core@n1 ~ $ ibstat", "n1", "ibstat"),
        ("arch ~ > ibstat", "", "ibstat"),
        ("mini1 ~ % ibv_devices", "mini1", "ibv_devices"),
        ("# ibstat", "", "ibstat"),
        ("[root@n1 ~]#", "n1", ""),
    ],
)
def test_a_prompt_names_the_host_and_the_command(line: str, host: str, command: str) -> None:
    (part,) = parts(f"{line}\nprinted\n")
    assert (part.host, part.command, [each.text for each in part.lines]) == (
        host,
        command,
        ["printed"],
    )


@pytest.mark.parametrize(
    "line",
    [
        "[node1:0] NCCL INFO $ 3",
        "[12:01:02] a line # remark",
        "a@b.c wrote: 5 % less",
        "# ok",
        "loss ~ 5 %",
    ],
)
def test_a_line_of_a_log_is_no_prompt(line: str) -> None:
    assert hosts_of(parts(line)) == 0


def test_colours_are_no_part_of_what_was_printed() -> None:
    [part] = parts("\x1b[32m[root@n1 ~]#\x1b[0m ibstat\n\t\tRate: \x1b[1;31m10\x1b[0m\n")
    assert (part.host, part.command, part.lines[0].text) == ("n1", "ibstat", "\t\tRate: 10")
