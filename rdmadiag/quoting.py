"""Text that a host, a record or a peer chose, made fit for a terminal and for a shell."""

import shlex


def printable(text: str) -> str:
    r"""Text of a host's own making as a terminal may see it: ESC becomes \x1b."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def shell_word(text: str) -> str:
    r"""One word of a line for a shell: `mlx5_0` as it is, `$(id)` within quotes.

    Always one line: a newline becomes \n, which names no device, but ends no comment either.
    Words of a comment are quoted too: an interactive zsh reads `#` as a command's name.
    """
    return shlex.quote(printable(text))
