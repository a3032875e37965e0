"""pyroute2's classes of rtnetlink messages, loaded apart from the package that they are in.

`import pyroute2` executes NDB, IPDB, conntrack and every socket, at four times the CPU time of
the message classes. Here the modules of these classes alone are executed, as modules of our own
that are not in `sys.modules`: `import pyroute2` elsewhere in the process, before, after or in
another thread, finds nothing of it.
"""

import _socket
import builtins
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec, resolve_name
from types import ModuleType
from typing import Any, Final, NamedTuple

from rdmadiag.host import netlink


class _StandIn(ModuleType):
    """What pyroute2 names of a module that these classes do not use: 15 ms less for all of them."""

    def __init__(self, name: str, **named: Any) -> None:
        super().__init__(name)
        self.__dict__.update(named)

    def __getattr__(self, name: str) -> Any:
        """Anything else is the module's own."""
        return getattr(import_module(self.__name__), name)


class _Silent:
    """A logger. pyroute2 logs a traceback of what it cannot decode; we say it in a Missing."""

    def debug(self, *_: object) -> None: ...

    info = warning = error = exception = debug


_SILENT: Final = _Silent()


class _Uname(NamedTuple):
    system: str
    node: str
    release: str
    version: str
    machine: str
    processor: str = ""


_STAND_INS: Final = {
    each.__name__: each
    for each in (
        _StandIn("multiprocessing", Pipe=None, Queue=None, Process=None),
        _StandIn("logging", getLogger=lambda _: _SILENT, warning=_SILENT.warning),
        _StandIn("traceback", format_exc=str, format_stack=list),
        _StandIn(
            "platform",
            uname=lambda: _Uname(*os.uname()),
            machine=lambda: os.uname().machine,
            architecture=lambda **_: ("", ""),
        ),
        _StandIn(
            "socket",
            **{
                name: getattr(_socket, name)
                for name in ("AF_INET", "AF_INET6", "AF_UNSPEC", "inet_ntop", "inet_pton")
            },
        ),
    )
}


class _Apart:
    """Modules of one package, which is not executed itself. They import each other from here."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._modules: dict[str, ModuleType] = {}
        self._builtins = {**vars(builtins), "__import__": self._import}

    def load(self, name: str) -> ModuleType:
        """The module; raises ModuleNotFoundError, and what its code raises."""
        if name in self._modules:
            return self._modules[name]
        parent, _, last = name.rpartition(".")
        spec = PathFinder.find_spec(name, self.load(parent).__path__) if parent else find_spec(name)
        if spec is None or spec.loader is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        self._modules[name] = module = module_from_spec(spec)
        if parent:
            module.__dict__["__builtins__"] = self._builtins  # what its import statements use
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del self._modules[name]
                raise
            setattr(self._modules[parent], last, module)
        return module

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002  # as __import__ has them
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """See __import__."""
        if level and globals:
            name = resolve_name(f"{'.' * level}{name}", globals["__package__"])
        if name.partition(".")[0] != self._package:
            if name in _STAND_INS:
                return _STAND_INS[name]
            return __import__(name, globals, locals, fromlist or ())
        module = self.load(name)
        for each in fromlist or ():
            if not hasattr(module, each):
                with suppress(ModuleNotFoundError):  # the statement says what is not there
                    self.load(f"{name}.{each}")
        return module if fromlist else self.load(self._package)


_pyroute2: Final = _Apart("pyroute2")
# Each message and attribute holds itself in its chain. A command collects no cycles, and a large
# host has tens of thousands of addresses.
_pyroute2.load("pyroute2.netlink").nlmsg_base.chain = property(
    lambda message: [message], lambda message, chain: None
)
ifinfmsg: Final[Any] = _pyroute2.load("pyroute2.netlink.rtnl.ifinfmsg").ifinfmsg
ifaddrmsg: Final[Any] = _pyroute2.load("pyroute2.netlink.rtnl.ifaddrmsg").ifaddrmsg


def decode(buffer: bytes, message_class: Any) -> Iterator[Any]:
    """Every message in `buffer`, as decoded `message_class` of pyroute2.

    Raises ValueError for a reply that is cut short or that pyroute2 cannot read.
    """
    for at in netlink.messages(buffer):
        if at.type == netlink.NLMSG_DONE:
            continue
        message = message_class(buffer[at.offset : at.offset + at.length])
        try:
            message.decode()
        except Exception as error:  # its decoders raise whatever struct, codecs and sockets do
            raise ValueError(f"netlink message at byte {at.offset}: {error!r}") from error
        yield message


def raw(message: Any, name: str) -> bytes | None:
    """An attribute's bytes as they came; None without it."""
    for slot in message["attrs"]:
        if slot.name == name:
            raw = slot.cell[1]
            return bytes(raw.data[raw.offset + 4 : raw.offset + raw.length])
    return None
