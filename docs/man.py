"""man/*.1: one page a command, from the same words as its --help. Format: man(7)."""

import re

import click

from rdmadiag import __version__
from rdmadiag.cli import COMMANDS, rdmadiag

_SEE = ", ".join(f"\\fBrdmadiag\\-{name}\\fR(1)" for name in COMMANDS)
_GROUP = "\\fBrdmadiag\\fR(1)"

_FILES = """\
.SH ENVIRONMENT
.TP
.B RDMADIAG_\\fICOMMAND\\fB_\\fIOPTION\\fR
The default of an option: RDMADIAG_PREFLIGHT_TIMEOUT=10.
.TP
.B NO_COLOR
No colour, where it is set and not empty.
.SH FILES
.TP
.I $XDG_CONFIG_HOME/rdmadiag/config.toml
Defaults below flags and variables: options by their long names, those of one command in a table
of its name.
"""


def man_pages() -> dict[str, str]:
    """File name → page."""
    group = click.Context(rdmadiag, info_name="rdmadiag")
    pages = {"rdmadiag.1": _page("rdmadiag", rdmadiag, group, "diagnostics and preflight for RDMA")}
    for name, line in COMMANDS.items():
        command = rdmadiag.get_command(group, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=group)
        title = f"rdmadiag-{name}"
        pages[f"{title}.1"] = _page(title, command, context, line.rstrip("."))
    return pages


def _page(title: str, command: click.Command, context: click.Context, line: str) -> str:
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [
        f'.TH "{_text(title.upper())}" 1 "" "rdmadiag {__version__}" "User Commands"\n',
        f".SH NAME\n{_text(title)} \\- {_text(line)}\n",
        f".SH SYNOPSIS\n.B {_text(context.command_path)}\n{_text(usage)}\n",
        f".SH DESCRIPTION\n{_prose(command.help or '')}",
    ]
    if title == "rdmadiag":
        parts.append(".SH COMMANDS\n")
        parts += [f".TP\n.B {_text(name)}\n{_text(told)}\n" for name, told in COMMANDS.items()]
    parts.append(".SH OPTIONS\n")
    for option in command.get_params(context):
        if isinstance(option, click.Option) and (record := option.get_help_record(context)):
            parts.append(f".TP\n.B {_text(record[0])}\n{_line(record[1])}\n")
    parts.append(_FILES)
    parts.append(f".SH SEE ALSO\n{_SEE if title == 'rdmadiag' else _GROUP}\n")
    return "".join(parts)


def _prose(text: str) -> str:
    """Paragraphs; those that are marked with a \\b keep their lines."""
    found = []
    for paragraph in text.strip().split("\n\n"):
        lines = [line.strip("\b") for line in paragraph.split("\n")]
        if paragraph.startswith("\b"):
            body = "\n".join(_line(line) for line in lines if line)
            found.append(f".PP\n.nf\n{body}\n.fi\n")
        else:
            found.append(f".PP\n{_line(' '.join(line.strip() for line in lines))}\n")
    return "".join(found)


def _line(text: str) -> str:
    """One that does not begin like a request."""
    return f"\\&{_text(text)}" if text[:1] in (".", "'") else _text(text)


def _text(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"[^\x00-\x7f]", lambda letter: f"\\[u{ord(letter[0]):04X}]", text)
