"""Pickles of plain containers, read without running anything.

The flight recorder of PyTorch dumps dictionaries, lists, tuples, numbers and texts alone
(torch/csrc/jit/serialization/pickler.cpp without type tags, pickle.dump of the same). An opcode
that names, imports, calls or builds anything else ends the reading: a pickle is a program, and
whoever runs a host writes it. Nothing of pickle itself is used.
"""

import struct
from typing import Any, Final

MOST_ITEMS: Final = 20_000_000


class NotPlain(ValueError):
    """It is damaged, or holds more than plain containers; one line."""


_MARK: Final = object()
_CONSTANTS: Final = {
    0x4E: None,  # NONE
    0x88: True,
    0x89: False,
}
_SIZED: Final = {  # opcode → bytes of the length, what is behind it
    0x58: (4, "text"),  # BINUNICODE
    0x8C: (1, "text"),
    0x8D: (8, "text"),
    0x54: (4, "bytes"),  # BINSTRING
    0x55: (1, "bytes"),
    0x42: (4, "raw"),  # BINBYTES
    0x43: (1, "raw"),
    0x8E: (8, "raw"),
    0x8A: (1, "long"),  # LONG1
    0x8B: (4, "long"),
}
_NUMBERS: Final = {
    0x4B: "<B",  # BININT1
    0x4D: "<H",
    0x4A: "<i",
    0x47: ">d",  # BINFLOAT
}
_EMPTY: Final = {0x7D: dict, 0x5D: list, 0x29: tuple, 0x8F: set}
_TUPLES: Final = {0x85: 1, 0x86: 2, 0x87: 3}
_PASSED_OVER: Final = {0x80: 1, 0x95: 8}  # PROTO, FRAME
_MEMO_PUT: Final = {0x71: 1, 0x72: 4}
_MEMO_GET: Final = {0x68: 1, 0x6A: 4}
_LONGEST: Final = 64  # bytes of an integer
_CODE: Final = {
    0x63: "GLOBAL",
    0x93: "STACK_GLOBAL",
    0x52: "REDUCE",
    0x62: "BUILD",
    0x69: "INST",
    0x6F: "OBJ",
    0x81: "NEWOBJ",
    0x92: "NEWOBJ_EX",
    0x82: "EXT1",
    0x83: "EXT2",
    0x84: "EXT4",
    0x50: "PERSID",
    0x51: "BINPERSID",
}


def parse_plain_pickle(content: bytes) -> Any:
    """The value; raises NotPlain for whatever is more than containers, numbers and texts."""
    try:
        return _Machine(content).run()
    except (IndexError, struct.error) as error:
        raise NotPlain("ends in its middle, or is damaged") from error
    except (TypeError, UnicodeDecodeError, OverflowError) as error:
        raise NotPlain(f"damaged: {error}"[:120]) from error


class _Machine:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._items = 0

    def run(self) -> Any:
        """The value that the opcodes build, up to STOP; raises NotPlain."""
        while True:
            code = self._content[self._at]
            self._at += 1
            if code == 0x2E:  # STOP
                return self._pop()
            self._items += 1
            if self._items > MOST_ITEMS:
                raise NotPlain(f"more than {MOST_ITEMS} opcodes")
            self._step(code)

    def _step(self, code: int) -> None:
        if code in _CONSTANTS:
            self._stack.append(_CONSTANTS[code])
        elif code in _NUMBERS:
            form = _NUMBERS[code]
            self._stack.append(struct.unpack(form, self._take(struct.calcsize(form)))[0])
        elif code in _SIZED:
            self._stack.append(self._sized(*_SIZED[code]))
        elif code in _EMPTY:
            self._stack.append(_EMPTY[code]())
        elif code in _PASSED_OVER:
            self._take(_PASSED_OVER[code])
        elif code in _TUPLES:
            taken = [self._pop() for _ in range(_TUPLES[code])]
            self._stack.append(tuple(reversed(taken)))
        elif code in _CODE:
            raise NotPlain(f"holds {_CODE[code]}, which would run code: dump it as JSON")
        elif not (self._remembers(code) or self._adds(code) or self._gathers(code)):
            raise NotPlain(f"opcode 0x{code:02x} at byte {self._at - 1} is none of containers")

    def _remembers(self, code: int) -> bool:
        if code in _MEMO_PUT:
            self._memo[self._number(_MEMO_PUT[code])] = self._top()
        elif code == 0x94:  # MEMOIZE
            self._memo[len(self._memo)] = self._top()
        elif code in _MEMO_GET:
            number = self._number(_MEMO_GET[code])
            if number not in self._memo:
                raise NotPlain("refers to what it does not hold")
            self._stack.append(self._memo[number])
        else:
            return False
        return True

    def _gathers(self, code: int) -> bool:
        """What stands since the last mark, or the mark itself."""
        if code == 0x28:
            self._stack.append(_MARK)
        elif code == 0x30:  # POP
            self._pop()
        elif code == 0x74:  # TUPLE
            self._stack.append(tuple(self._marked()))
        elif code == 0x6C:  # LIST
            self._stack.append(self._marked())
        elif code == 0x64:  # DICT
            self._stack.append(_pairs(self._marked()))
        else:
            return False
        return True

    def _adds(self, code: int) -> bool:
        """To the container that stands below."""
        if code == 0x61:  # APPEND
            value = self._pop()
            self._of(list).append(value)
        elif code == 0x65:  # APPENDS
            values = self._marked()
            self._of(list).extend(values)
        elif code == 0x73:  # SETITEM
            value, key = self._pop(), self._pop()
            self._of(dict)[key] = value
        elif code == 0x75:  # SETITEMS
            values = self._marked()
            self._of(dict).update(_pairs(values))
        elif code == 0x90:  # ADDITEMS
            values = self._marked()
            self._of(set).update(values)
        else:
            return False
        return True

    def _take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._content):
            raise NotPlain("ends in its middle")
        taken = self._content[self._at : end]
        self._at = end
        return taken

    def _number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "little")

    def _sized(self, size: int, kind: str) -> Any:
        length = self._number(size)
        if kind == "long":
            if length > _LONGEST:
                raise NotPlain(f"an integer of {length} bytes")
            return int.from_bytes(self._take(length), "little", signed=True)
        taken = self._take(length)
        return taken if kind == "raw" else taken.decode("utf-8", "backslashreplace")

    def _top(self) -> Any:
        found = self._stack[-1]
        if found is _MARK:
            raise NotPlain("damaged: a mark where a value should be")
        return found

    def _pop(self) -> Any:
        found = self._stack.pop()
        if found is _MARK:
            raise NotPlain("damaged: a mark where a value should be")
        return found

    def _of(self, kind: type) -> Any:
        found = self._top()
        if type(found) is not kind:
            raise NotPlain(f"damaged: no {kind.__name__} to add to")
        return found

    def _marked(self) -> list[Any]:
        for place in range(len(self._stack) - 1, -1, -1):
            if self._stack[place] is _MARK:
                taken = self._stack[place + 1 :]
                del self._stack[place:]
                return taken
        raise NotPlain("damaged: no mark")


def _pairs(values: list[Any]) -> dict[Any, Any]:
    if len(values) % 2:
        raise NotPlain("damaged: a key without a value")
    return dict(zip(values[::2], values[1::2], strict=True))
