"""Values that say by their name what they are: in files of a host, in JSON, in variables."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from rdmadiag.facts.environment import WITHHELD
from rdmadiag.gid.variables import BY_NAME, VARIABLES
from rdmadiag.redact.names import DEVICE
from rdmadiag.redact.secrets import REMOVED
from rdmadiag.redact.text import Text
from rdmadiag.watch.event import Kind

_GUID: Final = re.compile(r"(?:0[xX])?[0-9A-Fa-f]{16}")
_VERSION_WORDS: Final = """
    fw_ver firmware driver_version version versions kernel tool_version schema_version build
    micro_version micro_version_key generated_at recorded_at timestamp rule severity
"""
_VERSION_KEYS: Final = frozenset(_VERSION_WORDS.split())
_VERSION: Final = re.compile(r"[\w.:+ ()~-]{0,80}")
_HOST_WORDS: Final = """
    hostname node nodes host hosts host_name host_names computer_name master_addr localhostname
    speakers who search
"""
_HOST_KEYS: Final = frozenset(_HOST_WORDS.split())
_FLEET_WORDS: Final = """
    one other unread unjudged unknown unreported ends end names sender receiver groups
"""
_FLEET_KEYS: Final = _HOST_KEYS | frozenset(_FLEET_WORDS.split())
"""Of what `fleet` prints: names of nodes, sets of them, and NODE:DEVICE."""

_HOST_AND_REST: Final = re.compile(r"([\w.-]+)([: ].*)", re.DOTALL)
_RANK: Final = re.compile(r"rank \d+")
_COMMAND_KEYS: Final = frozenset(("comm", "command", "commands", "process_name", "program"))
_MODULES: Final = re.compile(
    r"(?:ib|rdma|iw|nvme|nvmet|rds|smc|xprt|svc|mlx[45]|bnxt|irdma|hfi1|qedr|cxgb4|siw|rxe|efa|mad"
    r"|cma|iser|isert|srp|srpt|rtrs|rnbd|ko2iblnd|ksmbd|cifs)(?:_\w+)?"
)
"""Kernel modules that hold RDMA objects of their own."""

_SERIAL: Final = re.compile(r"serial|asset_tag|_uid(?:_|$)|owner_name|user_?name")
_USER_KEYS: Final = frozenset(("user", "username", "user_name", "login", "logname", "account"))
_SECRET_KEYS: Final = re.compile(
    r"pass(?:word|wd|phrase|code)|secret|(?:^|_)token|credential|api_?key"
)
_GUID_KEYS: Final = re.compile(r"guid")
_MOST_DEPTH: Final = 200

_MODELS: Final = re.compile(
    r"(?i)MacBook(?: Air| Pro)?|Mac mini|Mac Studio|Mac Pro|iMac(?: Pro)?|Mac\d+,\d+|service"
    r"|thunderbolt[\w /-]{0,20}|ethernet[\w /-]{0,20}|usb[\w /.-]{0,20}|wi-fi|unknown device|\?"
)

_SETTINGS: Final = frozenset(
    """
    all none auto any try yes no on off true false enable disable info warn error debug trace fatal
    rc ud dc rc_x ud_x dc_x rc_mlx5 dc_mlx5 ud_mlx5 rc_verbs ud_verbs ib tcp self sm shm mm posix
    sysv xpmem cma knem cuda cuda_copy cuda_ipc gdr_copy rocm rocm_copy rocm_ipc ze verbs efa psm2
    psm3 cxi opx udp sockets ofi_rxm ofi_rxd get_zcopy put_zcopy get_ppln put_ppln ipv4 ipv6 inet
    inet6 socket rdma gdaki cpu gpu
    """.split()  # noqa: SIM905  # a table to read
)
"""Values of the settings of stacks that identify nobody."""

_PATHS: Final = ("HOME", "XDG_STATE_HOME", "LD_LIBRARY_PATH")
_PART: Final = re.compile(r"[^\s,;|=^@()\[\]]+")
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_MADE: Final = re.compile(r"(?:host|domain|user|prog|folder|word)-[a-z2-7]{8}")


def _vocabulary() -> frozenset[str]:
    """Words of the table of variables: none of them is of a host."""
    text = " ".join(
        " ".join((row.name, row.stack, row.meaning, *row.pitfalls, *row.next, row.unset or ""))
        for row in VARIABLES
    )
    return _SETTINGS | {word.casefold().strip(".") for word in _WORD.findall(text)}


Spread = Callable[[str], Iterable[str]]
"""A set of nodes, "node[1-3],login1", → its names."""


def _by_commas(nodes: str) -> list[str]:
    return nodes.split(",")


class Values:
    """Pseudonyms for values, by the names that they have."""

    def __init__(self, text: Text, spread: "Spread | None" = None) -> None:
        """`spread` is of a fleet's document: what makes names of a set of nodes."""
        self._text = text
        self._spread = spread or _by_commas
        self._host_keys = _FLEET_KEYS if spread else _HOST_KEYS
        self._names = text.names
        self._words: frozenset[str] | None = None

    # --- variables -----------------------------------------------------------------------

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Settings of stacks as they are, but for names in them; of all others the name alone."""
        return {self._text(name): self.variable(name, value) for name, value in variables.items()}

    def variable(self, name: str, value: str) -> str:
        """The value of an environment variable, by what the variable names."""
        if value == WITHHELD:
            return value
        if name in _PATHS:
            return ":".join(map(self.path, value.split(":")))
        if name == "MASTER_ADDR":
            made = self._text(value)
            return made if made != value or not _WORD.search(value) else self._names.host(value)
        if name in ("container", "KUBERNETES_SERVICE_HOST"):
            made = self._text(value)
            known = re.fullmatch(r"[0-9a-fA-F.:]+|docker|podman|lxc|oci|systemd-nspawn|rkt", made)
            return made if known else WITHHELD
        if name not in BY_NAME or name.endswith("*"):
            return WITHHELD
        return _PART.sub(lambda part: self._setting(part[0]), value)

    def _setting(self, part: str) -> str:
        if part.startswith("/"):
            return self.path(part)
        made = self._text(part)
        if made != part:
            return made
        if not self._words:
            self._words = _vocabulary()
        words = self._words
        return _WORD.sub(
            lambda word: (
                word[0]
                if word[0].casefold() in words
                or DEVICE.fullmatch(word[0])
                or self._names.is_kept(word[0])
                else self._names.of("word", word[0])
            ),
            part,
        )

    def path(self, path: str) -> str:
        """A folder of a user's choice."""
        made = self._text(path)
        return made if made != path else self._names.folder(path)

    # --- JSON ----------------------------------------------------------------------------

    def json_lines(self, content: str) -> str:
        """Lines of JSON, and of none; a line that looks like JSON and is none is left out."""
        return "".join(map(self._json_line, content.splitlines(keepends=True)))

    def _json_line(self, line: str) -> str:
        if line.lstrip()[:1] not in ("{", "["):
            return self._text(line)
        end = "\n" if line.endswith("\n") else ""
        return json.dumps(self.json(json.loads(line)), ensure_ascii=False) + end

    def json(self, value: Any, key: str = "", depth: int = 0) -> Any:
        """The same document with other names; raises ValueError for one that is too deep."""
        if depth > _MOST_DEPTH:
            raise ValueError(f"nested more than {_MOST_DEPTH} deep")
        if isinstance(value, dict):
            if key in ("environment", "environ") and all(
                isinstance(each, str) for each in value.values()
            ):
                return self.environment(value)
            return {
                self._text(name): self.json(each, _key(value, key, name), depth + 1)
                for name, each in value.items()
            }
        if isinstance(value, list):
            return [self.json(each, key, depth + 1) for each in value]
        if isinstance(value, str):
            return self.string(key, value)
        if isinstance(value, int) and not isinstance(value, bool) and _SERIAL.search(key):
            return 0
        return value

    def string(self, key: str, value: str) -> str:
        """One string of a document, by its key."""
        name = key.casefold()
        if name in _VERSION_KEYS and _VERSION.fullmatch(value):
            return self._text.words(value)
        if name in self._host_keys:
            return ",".join(map(self._host, self._spread(value)))
        if name in _COMMAND_KEYS and " " not in value:
            return value if _MODULES.fullmatch(value) else self._names.of("prog", value)
        if name in _USER_KEYS and " " not in value:
            return self._names.of("user", value)
        if _SECRET_KEYS.search(name) and value != WITHHELD:
            return REMOVED
        if name == "node_desc":
            return self.node_description(value)
        if _GUID_KEYS.search(name) and _GUID.fullmatch(value):
            return self._text.guid(value)
        if _SERIAL.search(name):
            return self._text.serial(value)
        if name in ("_name", "device_name_key", "model", "name") and " " in value:
            return value if _MODELS.fullmatch(value) else self._names.of("word", value)
        return self._text(value)

    def _host(self, value: str) -> str:
        """ "node7", "10.1.2.3", "node7:mlx5_0 in round 2"; "rank 3" is of no host."""
        made = self._text(value)
        if made != value or _RANK.fullmatch(value):
            return made
        parts = _HOST_AND_REST.fullmatch(value)
        return self._names.host(parts[1]) + parts[2] if parts else self._names.host(value)

    def node_description(self, value: str) -> str:
        """ "host mlx5_0", as rdma-ndd writes it; or the maker's words."""
        return re.sub(
            r"[^\s():,]+",
            lambda word: (
                word[0]
                if self._names.is_kept(word[0])
                or DEVICE.fullmatch(word[0])
                or re.fullmatch(
                    r"(?i)MT\d+|ConnectX\S*|BlueField\S*|Mellanox|NVIDIA|Technologies|HCA[-\d]*|HFI"
                    r"|Infiniband|Host|Channel|Adapter|Broadcom|NetXtreme-[CE]|Intel|Omni-Path"
                    r"|RoCE|Corporation|Inc\.?|EFA|Switch\S*|Quantum\S*|Aggregation|Node|IBSIM|Sma"
                    r"|[\d.]+",
                    word[0],
                )
                else self._names.host(word[0])
            ),
            value,
        )


def _key(table: Mapping[str, Any], outer: str, name: str) -> str:
    """What says what the value below it is.

    A table of commands by process has numbers as keys; an event of `watch` itself is of a host.
    """
    if name == "subject" and table.get("kind") == Kind.WATCH:
        return "hostname"
    return outer if name.isdecimal() else name
