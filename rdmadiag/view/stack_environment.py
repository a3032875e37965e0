"""The variables that make a stack use the route GID of every port, as lines for a shell."""

from collections.abc import Iterator, Mapping, Sequence

from rdmadiag.facts.ib import is_device_name
from rdmadiag.frozen import dataclass
from rdmadiag.gid.pick import Pick
from rdmadiag.gid.registry import Chosen
from rdmadiag.gid.route import Route
from rdmadiag.gid.stack import Pin
from rdmadiag.quoting import shell_word
from rdmadiag.view.reconcile import PortView, Protocol
from rdmadiag.view.stack_picks import picks


class NoVariable(ValueError):
    """The stack takes no index from its environment; the message says what it does take."""


class NoDeviceName(ValueError):
    """A device has a name that no kernel gives; the message shows it."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What to set, on the ports that were looked at."""

    lines: tuple[str, ...]  # for a shell to evaluate; the rest stands behind "#"
    conflict: str | None  # why no single value fits


def routed(ports: Sequence[PortView]) -> tuple[PortView, ...]:
    """Active RoCE ports with a route: the ones that an index is chosen for."""
    return tuple(
        port
        for port in ports
        if port.protocol is Protocol.ROCE and port.is_active and isinstance(port.route, Route)
    )


def setting(chosen: Chosen, ports: Sequence[PortView], environment: Mapping[str, str]) -> Setting:
    """Left alone where it then chooses right; else the family; else one index for all.

    Raises NoVariable, and NoDeviceName. `ports` are those that `routed` gives.
    """
    for port in ports:
        if not is_device_name(port.device):
            raise NoDeviceName(f"{shell_word(port.device)} is no name that a kernel gives a device")
    stack, version = chosen
    pin = stack.pin
    if pin is None:
        raise NoVariable(f"{stack.title} reads no variable for the index. It takes: {stack.option}")
    ours = {pin.variable, pin.family}
    rest = {name: value for name, value in environment.items() if name not in ours}
    alone = [pick for port in ports for pick in picks(port, [chosen], rest)]
    name = stack.title if version.name == "any" else f"{stack.title} {version.name}"
    if pin.automatic and _right(alone):
        return Setting(
            (f"unset {pin.variable}   # {name} chooses {_list(ports, alone)} by itself",), None
        )
    if pin.automatic and pin.family:
        by_family = [
            pick
            for port in ports
            for pick in picks(port, [chosen], {**rest, pin.family: "AF_INET6"})
        ]
        if _right(by_family):
            text = f"export {pin.family}=AF_INET6   # {name} then chooses {_list(ports, by_family)}"
            return Setting((f"unset {pin.variable}", text), None)
    return _one_index(chosen, name, ports, rest)


def _right(found: Sequence[Pick]) -> bool:
    return bool(found) and all(each.agrees and each.problem is None for each in found)


def _list(ports: Sequence[PortView], found: Sequence[Pick]) -> str:
    by_index: dict[int | None, list[str]] = {}
    for port, each in zip(ports, found, strict=True):
        by_index.setdefault(each.index, []).append(port.name)
    return ", ".join(f"{index} on {_few(names)}" for index, names in by_index.items())


def _few(names: Sequence[str]) -> str:
    return " ".join(map(shell_word, names[:4])) + (
        f" and {len(names) - 4} more" if len(names) > 4 else ""
    )


def _one_index(
    chosen: Chosen, name: str, ports: Sequence[PortView], rest: Mapping[str, str]
) -> Setting:
    pin = chosen[0].pin
    assert pin is not None
    by_index: dict[int, list[PortView]] = {}
    for port in ports:
        if isinstance(port.route, Route):
            by_index.setdefault(port.route.index, []).append(port)
    if len(by_index) == 1:
        index = next(iter(by_index))
        # TENT takes NCCL_IB_GID_INDEX before its own variable.
        pinned = {**rest, pin.variable: str(index)}
        by = {each.pinned_by for port in ports for each in picks(port, [chosen], pinned)}
        unset = (f"unset {other}" for other in sorted(by - {None, pin.variable}, key=str))
        return Setting((*unset, f"export {pin.variable}={index}   # {name}"), None)
    each = "; ".join(
        f"{index} on {_few([port.name for port in held])}" for index, held in by_index.items()
    )
    conflict = f"no single {pin.variable} fits: {each}"
    return Setting((f"# {conflict}", *_each(pin, by_index)), conflict)


def _each(pin: Pin, by_index: Mapping[int, Sequence[PortView]]) -> Iterator[str]:
    yield "# for a process that uses these ports alone:"
    for index, held in by_index.items():
        for port in held:
            yield f"# {shell_word(f'{port.device}:{port.number}')}   export {pin.variable}={index}"
