"""man/*.1: one page a command, from the same words as its --help. Format: man(7)."""

import inspect
import re
import textwrap

import click

from rdmadiag import __version__
from rdmadiag.cli import COMMANDS, rdmadiag
from rdmadiag.cli.group import Group, find
from rdmadiag.cli.page import Page

_SEE = ", ".join(f"\\fBrdmadiag\\-{name}\\fR(1)" for name in COMMANDS)
_DATE = "2026-11-22"  # of the pages' form; the version is what they are of
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
Defaults below flags and variables: options by their long names, those of one
command in a table of its name: [preflight], [fleet.merge].
"""


def man_pages() -> dict[str, str]:
    """File name → page."""
    group = click.Context(rdmadiag, info_name="rdmadiag", **rdmadiag.context_settings)
    pages = {"rdmadiag.1": _page("rdmadiag", rdmadiag, group, "diagnostics and preflight for RDMA")}
    for name, line in rdmadiag.every().items():
        context = find(rdmadiag, tuple(name.split()))
        assert isinstance(context.command, Page)
        title = f"rdmadiag-{name.replace(' ', '-')}"
        pages[f"{title}.1"] = _page(title, context.command, context, line.rstrip("."))
    return pages


def _page(title: str, command: Page, context: click.Context, line: str) -> str:
    dash = " \\- "  # what mandb looks for: between name and line
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [
        f'.TH "{_text(title.upper())}" 1 "{_DATE}" "rdmadiag {__version__}" "User Commands"\n',
        f".SH NAME\n{_filled(_text(title) + dash + _text(line))}\n",
        f".SH SYNOPSIS\n.B {_text(context.command_path)}\n{_text(usage)}\n",
        f".SH DESCRIPTION\n{_prose(inspect.cleandoc(command.help or ''))}",
    ]
    if isinstance(command, Group):
        parts.append(".SH COMMANDS\n")
        rows = command.rows.items()
        parts += [f".TP\n.B {_text(name)}\n{_text(told)}\n" for name, told in rows]
    parts.append(".SH OPTIONS\n")
    for heading, records in command.sections(context):
        parts.append(f".SS {_text(heading)}\n")
        parts += [f".TP\n.B {_text(names)}\n{_line(told)}\n" for names, told in records]
    parts.append(".SH EXAMPLES\n")
    for number, (purpose, line) in enumerate(command.examples):
        parts.append(".PP\n" if number else "")  # mandoc: none after SH
        parts.append(f"{_line(f'{purpose[0].upper()}{purpose[1:]}')}:\n")
        parts.append(f".PP\n.RS 4\n.nf\n{_kept(line)}\n.fi\n.RE\n")
    parts.append(_FILES)
    parts.append(f".SH SEE ALSO\n{_SEE if title == 'rdmadiag' else _GROUP}\n")
    return "".join(parts)


def _prose(text: str) -> str:
    """Paragraphs; those that are marked with a \\b keep their lines."""
    found = []
    for paragraph in text.strip().split("\n\n"):
        lines = [line.strip("\b") for line in paragraph.split("\n")]
        if paragraph.startswith("\b"):
            body = "\n".join(_kept(line) for line in lines if line)
            found.append(f".nf\n{body}\n.fi\n")
        else:
            found.append(f"{_line(' '.join(line.strip() for line in lines))}\n")
    return ".PP\n".join(found)


def _line(text: str) -> str:
    """A sentence, of which no line begins like a request."""
    return _filled(_text(text))


def _kept(line: str) -> str:
    """A line between nf and fi."""
    return f"\\&{_text(line)}" if line[:1] in (".", "'") else _text(line)


def _filled(text: str) -> str:
    lines = textwrap.wrap(text, 78, break_long_words=False, break_on_hyphens=False)
    return "\n".join(f"\\&{line}" if line[0] in ".'" else line for line in lines)


def _text(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"[^\x00-\x7f]", lambda letter: f"\\[u{ord(letter[0]):04X}]", text)
