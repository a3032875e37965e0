"""What a device can be asked to have: device.has(Capability.X)."""

from collections.abc import Iterator

from rdmadiag.facts.capability import DeviceCap, RawPacketCap

AnyCap = DeviceCap | RawPacketCap

_RAW = "RAW_PACKET_CAP_"


class _Names(type):
    """The rows of both tables as attributes."""

    def __getattr__(cls, name: str) -> AnyCap:
        table: type[AnyCap] = DeviceCap
        word = name
        if name.startswith(_RAW):
            table, word = RawPacketCap, name.removeprefix(_RAW)
        if word not in table.__members__:
            raise AttributeError(f"no IBV_DEVICE_* or IBV_RAW_PACKET_CAP_* is named {name}")
        return table[word]

    def __iter__(cls) -> Iterator[AnyCap]:
        yield from DeviceCap
        yield from RawPacketCap

    def __dir__(cls) -> list[str]:
        return [*DeviceCap.__members__, *(_RAW + each for each in RawPacketCap.__members__)]


class Capability(metaclass=_Names):
    """IBV_DEVICE_XRC is Capability.XRC, IBV_RAW_PACKET_CAP_IP_CSUM is RAW_PACKET_CAP_IP_CSUM."""
