"""What somebody pastes of a terminal, as the commands that were run and what each printed.

>>> [(part.host, part.command) for part in parts("[root@n1 ~]# ibstat\\n\\tState: Active\\n")]
[('n1', 'ibstat')]
>>> parts("user@mini ~ % rdma_ctl status\\ndisabled\\n")[0].lines
(Line(number=2, text='disabled'),)
"""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from rdmadiag.late import late

LONGEST: Final = 400  # characters of a line that is looked at
_COMMANDS: Final = (
    r"cat|ls|lspci|lsmod|ibv?_?[a-z]\w+|ip|rdma|ethtool|devlink|mlx\w+|show_gids|rping|perfquery"
    r"|nvidia-smi|dmesg|journalctl|systemctl|ping|sysctl|iptables|nft|tc|mst|lnetctl"
)
_PROMPT: Final = late(
    r"\s*(?:\([\w.-]+\) ?)?(?:"
    r"\[(?:[\w.-]+@)?(?P<bracket>[\w.-]+)[ :][^\]]{0,80}\] ?[#$]"  # of Red Hat's bash
    r"|[\w.-]+@(?P<colon>[\w.-]+):[^#$%]{0,80}[#$]"  # of Debian's
    r"|[\w.-]+@(?P<percent>[\w.-]+) \S{1,80} %"  # of zsh on a Mac
    r"|(?:[\w.-]+@)?(?P<suse>[\w.-]+):[~/]\S{0,80}(?: ?#|>)"  # of SUSE's
    r"|(?P<bare>\w[\w.-]*) ~(?:/\S{0,80})? %"  # of a zsh that names no user
    r"|[\w.-]+ ~(?:/\S{0,80})? >"  # of Arch's zsh and fish
    r"|(?:[\w.-]+@)?(?P<spaced>[\w.-]+) [~/]\S{0,80} [$#](?= )"  # of Flatcar's and Gentoo's
    rf"|(?P<short>[a-z][\w.-]{{1,30}}) ?[$#](?= (?:sudo )?(?:{_COMMANDS})\b)"  # whoever has set PS1
    r"|\N{HEAVY ROUND-TIPPED RIGHTWARDS ARROW} +[~/]\S{0,80}(?= )"
    r"|\$(?= \w)"
    r"|%(?= (?:sudo )?(?:ibv_\w+|rdma_ctl|sw_vers|sysctl|ifconfig|system_profiler|ioreg|log)\b)"
    # with a bare one of root, what is no remark
    rf"|\#(?= (?:sudo|for|{_COMMANDS})\b))"
    r"(?: +(?P<command>.*))?$"
)
_PLACES: Final = ("bracket", "colon", "percent", "spaced", "suse", "bare", "short")
_OF_A_HOST: Final = late(r"\s*(?:[=#*-]{2,}|>{1,3}) *(\w[\w.-]*):? *[=#*-]*$")
"""What a loop over hosts prints before each of them."""
_ELSEWHERE: Final = late(
    r"\bssh (?:-\S+ )*(?:\w[\w.-]*@)?(?P<host>[\w.-]+) +['\"]?(?P<command>\S.*)"
)


class Line(NamedTuple):
    """One that a command printed."""

    number: int  # from 1
    text: str


class Part(NamedTuple):
    """A command, and what it printed; of what stands above the first prompt both are empty."""

    host: str
    command: str
    lines: tuple[Line, ...]


class Shown(NamedTuple):
    """What a listing shows to be wrong."""

    causes: tuple[str, ...]  # labels, the likeliest first
    line: Line
    is_certain: bool = True  # else only where nothing else in the text has failed
    if_slow: bool = False  # and, where it is not certain, only where somebody says that it is slow
    if_unanswered: bool = False  # counts only beside a transfer that nothing acknowledged
    host: str = ""  # whose prompt stands above it
    platform: Literal["linux", "darwin", ""] = ""  # where the line does not say it
    context: str = ""  # whose sentence of the causes it is


def is_typed(line: str) -> bool:
    """Whether a prompt stands in it, and behind that a command that runs something, and does not
    only show what a file has.
    """
    found = _PROMPT.match(line[:LONGEST])
    command = (found["command"] or "").strip() if found else ""
    prompt = line[: len(line) - len(command)] if command else ""
    return bool(command) and bool(_OF_A_USER.search(prompt)) and not _SHOWS.match(command)


_OF_A_USER: Final = late(r"[@~/]|^\s*\$")
_SHOWS: Final = late(
    r"(?:sudo )?(?:cat|tail|head|less|more|grep|egrep|zgrep|awk|sed|ls|wc|sort|uniq)\b"
)


def parts(text: str) -> tuple[Part, ...]:
    """All of it, in order; one without prompts is one part."""
    return tuple(_parts(_COLOUR.sub("", text)))


_COLOUR: Final = late(r"\x1b\[[0-9;]*m")
"""Of ls, grep and ip where their output is a terminal."""


def _parts(text: str) -> Iterator[Part]:
    host = command = ""
    lines: list[Line] = []
    for number, whole in enumerate(text.splitlines(), 1):
        line = whole[:LONGEST]
        found = _PROMPT.match(line)
        if not found:
            of = _OF_A_HOST.match(line) if "$" in command else None
            if of:
                yield Part(host, command, tuple(lines))
                host, lines = of[1], []
            lines.append(Line(number, line))
            continue
        if command or lines:
            yield Part(host, command, tuple(lines))
        lines = []
        host = next((found[place] for place in _PLACES if found[place]), host)
        command = (found["command"] or "").strip()
        if there := _ELSEWHERE.search(command):
            host, command = there["host"], there["command"]
    if command or lines:
        yield Part(host, command, tuple(lines))


def is_followed(line: Line, several: Sequence[Part]) -> bool:
    """Whether something stands below it: what it is the last of may have been cut off."""
    return any(each.number > line.number for part in several for each in part.lines[-1:])


def hosts_of(several: Sequence[Part]) -> int:
    """How many hosts have a prompt."""
    return len({part.host for part in several if part.host})
