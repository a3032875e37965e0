"""devlink's notifications: its devices, health reporters, firmware being written.

Of its group "config", which is joined only where the family is there already: the list of all
families is asked for, since a family looked up by name may be loaded for it.
"""

from collections.abc import Mapping
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.devlink import ReporterState
from rdmadiag.host import netlink
from rdmadiag.watch.event import NOTHING, Action, Happened, Kind, Source, Value
from rdmadiag.watch.route import unreadable

_CONFIG: Final = "config"  # DEVLINK_GENL_MCGRP_CONFIG_NAME
_GROUPS, _GROUP_NAME, _GROUP_ID = 7, 1, 2  # CTRL_ATTR_MCAST_GROUPS, CTRL_ATTR_MCAST_GRP_*

_NEW, _DEL, _RECOVER = 3, 4, 54  # DEVLINK_CMD_NEW, _DEL, _HEALTH_REPORTER_RECOVER
_FLASH_UPDATE, _FLASH_UPDATE_END, _FLASH_UPDATE_STATUS = 58, 59, 60
_BUS_NAME, _DEV_NAME, _PORT_INDEX = 1, 2, 3  # DEVLINK_ATTR_*
_REPORTER, _NAME, _STATE, _ERR_COUNT, _RECOVER_COUNT = 114, 115, 116, 117, 118
_FLASH_COMPONENT, _FLASH_MESSAGE, _FLASH_DONE, _FLASH_TOTAL = 123, 124, 125, 126


def parse_group(reply: bytes) -> int | Missing:
    """The list of all families → the number of devlink's group."""
    try:
        for message in netlink.messages(reply):
            body = netlink.body(reply, message, netlink.GENERIC_HEADER.size)
            found = dict(netlink.attributes(body))
            name = netlink.text(found.get(netlink.CTRL_ATTR_FAMILY_NAME))
            if name != netlink.DEVLINK_GENL_NAME:
                continue
            for _, group in netlink.attributes(found.get(_GROUPS, b"")):
                about = dict(netlink.attributes(group))
                number = netlink.number(about.get(_GROUP_ID))
                if netlink.text(about.get(_GROUP_NAME)) == _CONFIG and number:
                    return number
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))
    return Missing(Why.UNSUPPORTED, "no devlink netlink")


def parse_devlink(datagram: bytes) -> tuple[Happened, ...]:
    """The events in one datagram; what is no device's, no reporter's and no firmware's is none."""
    found: list[Happened] = []
    try:
        for message in netlink.messages(datagram):
            event = _event(netlink.body(datagram, message))
            if event is not None:
                found.append(event)
    except ValueError as error:
        found.append(unreadable(Source.DEVLINK, str(error)))
    return tuple(found)


def _event(content: bytes) -> Happened | None:
    if len(content) < netlink.GENERIC_HEADER.size:
        raise ValueError("a message of generic netlink without its header")
    command, _, _ = netlink.GENERIC_HEADER.unpack_from(content)
    row = dict(netlink.attributes(content[netlink.GENERIC_HEADER.size :]))
    bus, device = netlink.text(row.get(_BUS_NAME)), netlink.text(row.get(_DEV_NAME))
    handle = f"{bus or '?'}/{device or '?'}"
    if command in (_NEW, _DEL):
        action = Action.ADDED if command == _NEW else Action.REMOVED
        return Happened(Source.DEVLINK, Kind.DEVICE, action, handle, NOTHING, NOTHING)
    if command == _RECOVER:
        return Happened(
            Source.DEVLINK, Kind.HEALTH, Action.CHANGED, handle, _reporter(row), NOTHING
        )
    if command in (_FLASH_UPDATE, _FLASH_UPDATE_END, _FLASH_UPDATE_STATUS):
        details: dict[str, Value] = {
            "component": netlink.text(row.get(_FLASH_COMPONENT)),
            "message": netlink.text(row.get(_FLASH_MESSAGE)),
            "done": netlink.number(row.get(_FLASH_DONE)),
            "total": netlink.number(row.get(_FLASH_TOTAL)),
        }
        action = {_FLASH_UPDATE: Action.BEGAN, _FLASH_UPDATE_END: Action.ENDED}.get(
            command, Action.CHANGED
        )
        return Happened(Source.DEVLINK, Kind.FLASH, action, handle, details, NOTHING)
    return None


def _reporter(row: Mapping[int, bytes]) -> dict[str, Value]:
    reporter = dict(netlink.attributes(row.get(_REPORTER, b"")))
    number = netlink.number(reporter.get(_STATE))
    state = None if number is None else ReporterState.from_number(number)
    return {
        "reporter": netlink.text(reporter.get(_NAME)),
        "state": str(state) if state else None if number is None else str(number),
        "errors": netlink.number(reporter.get(_ERR_COUNT)),
        "recoveries": netlink.number(reporter.get(_RECOVER_COUNT)),
        "port": netlink.number(row.get(_PORT_INDEX)),
    }
