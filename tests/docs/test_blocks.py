"""Command blocks of pages: run, shown, or refused."""

import pytest

from docs.blocks import BlockFailed, blocks, printed_anew, with_output

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    "text",
    [
        "```console\nno prompt\n```\n",
        "```console\noutput before it\n$ true\n```\n",
        '```console nonsense="1"\n$ true\n```\n',
        "```sh\ntrue\n```\n",
        "```\ntrue\n```\n",
    ],
    ids=["no command", "no command first", "no such option", "a shell's lines", "no language"],
)
def test_a_block_that_cannot_be_run_is_refused(text: str) -> None:
    with pytest.raises(BlockFailed):
        list(blocks("page.md", text))


def test_what_commands_print_stands_below_them() -> None:
    text = (
        '```console exit="3" lines="2"\n$ touch here\n$ ls; printf "1  \\n2\\n3"; exit 3\n```\n'
        '```console needs="a device"\n$ ibstat\n```\n```text\n$ not run\n```\n'
    )
    assert with_output("page.md", text) == (
        '```sh\ntouch here\nls; printf "1  \\n2\\n3"; exit 3\n```\n\n```text\nhere\n1\n…\n```\n'
        "```sh\nibstat\n```\n```text\n$ not run\n```\n"
    )


def test_a_command_that_ends_otherwise_fails_the_build() -> None:
    with pytest.raises(BlockFailed, match=r"page\.md: \$ echo no; exit 1: exit 1, not 0:\nno"):
        with_output("page.md", "```console\n$ echo no; exit 1\n```\n")


def test_what_a_page_has_of_an_output_is_written_anew() -> None:
    text = (
        "```console\n$ echo 1 > file\n```\n"
        '```console exit="1"\n$ cat file\n2\n3\n$ echo 4; exit 1\n```\n'
        '```console needs="a device"\n$ ibstat\nold\n```\n'
    )
    assert printed_anew("page.md", text) == text.replace("2\n3\n", "1\n").replace(
        "exit 1\n```", "exit 1\n4\n```"
    )


def test_a_page_without_an_output_has_none_afterwards_and_nothing_is_run() -> None:
    text = "```console\n$ exit 1\n```\n"
    assert printed_anew("page.md", text) == text


def test_what_was_written_below_a_command_that_is_not_run_stands_on_the_site() -> None:
    text = '```console needs="a device"\n$ ibstat\nCA 1\n```\n'
    assert with_output("page.md", text) == "```sh\nibstat\n```\n\n```text\nCA 1\n```\n"
