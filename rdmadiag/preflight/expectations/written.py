"""An expectations file, or options of the command line → what is expected.

[host]
devices = 8
memlock = "unlimited"

[device."mlx5_*"]
firmware = ">=28.39.1002"
rate = "400 Gb/sec"
severity = "warn"

[device."mlx5_0/1"]
gid_index = 3

[thresholds]
link_downed = 3
"""

from typing import Any, Final

from rdmadiag.facts.toml_file import TomlFile
from rdmadiag.preflight.expectations import Expectations, Expected
from rdmadiag.preflight.expectations.keys import (
    KEYS,
    Key,
    NotThis,
    Relation,
    Scope,
    Want,
    pattern,
)
from rdmadiag.preflight.thresholds import DEFAULT, NoThreshold, Thresholds
from rdmadiag.preflight.verdict import Severity

_SEVERITY: Final = "severity"
_SEVERITIES: Final = {"warn": Severity.WARN, "critical": Severity.CRITICAL}
_TABLES: Final = ("host", "device", "thresholds")
_HOST_KEYS: Final = (*(key.name for key in KEYS.values() if key.scope is Scope.HOST), "rate")
_DEVICE_KEYS: Final = tuple(key.name for key in KEYS.values() if key.scope is not Scope.HOST)
_PORT_KEYS: Final = tuple(key.name for key in KEYS.values() if key.scope is Scope.PORT)


def expectations(file: TomlFile) -> Expectations:
    """All that the file expects; raises TomlFileError for what it cannot."""
    for name, value in file.values.items():
        if name not in _TABLES:
            file.refuse_name((name,), "table", _TABLES)
        if not isinstance(value, dict):
            file.refuse((name,), f"a table: [{name}]")
    found = _table(file, ("host",), file.values.get("host", {}), None, _HOST_KEYS)
    for name, table in file.values.get("device", {}).items():
        path = ("device", name)
        if not isinstance(table, dict):
            file.refuse(path, f'a table: [device."PATTERN"], with {name} below it')
        try:
            pattern(name)
        except NotThis as error:
            file.refuse(path, f"expected {error}")
        device, slash, port = name.partition("/")
        if slash and not (device and port.isascii() and port.isdigit() and len(port) < 4):
            file.refuse(path, "after the slash stands the number of a port")
        keys = _PORT_KEYS if slash else _DEVICE_KEYS
        found += _table(file, path, table, name, keys)
    return Expectations(found, _thresholds(file, file.values.get("thresholds", {})))


def _table(
    file: TomlFile,
    path: tuple[str, ...],
    table: dict[str, Any],
    devices: str | None,
    keys: tuple[str, ...],
) -> tuple[Expected, ...]:
    severity, where = Severity.CRITICAL, file.table(path)
    if _SEVERITY in table:
        word = table[_SEVERITY]
        if not isinstance(word, str) or word not in _SEVERITIES:
            file.refuse((*path, _SEVERITY), f"expected one of {', '.join(_SEVERITIES)}")
        severity = _SEVERITIES[word]
    found = []
    for name, value in table.items():
        if name == _SEVERITY:
            continue
        if name not in keys:
            file.refuse_name((*path, name), "key", (*keys, _SEVERITY))
        try:
            want = KEYS[name].read(value)
        except NotThis as error:
            file.refuse((*path, name), f"expected {error}")
        found.append(Expected(KEYS[name].scope, name, devices, want, severity, where))
    if devices is not None and "count" not in table:
        # That a table is there says that such a device is.
        found.insert(0, Expected(Scope.DEVICE, "count", devices, _SOME, severity, where))
    return tuple(found)


_SOME: Final = Want(Relation.AT_LEAST, 1, "at least 1")


def _thresholds(file: TomlFile, table: dict[str, Any]) -> dict[str, float]:
    for name, value in table.items():
        if name not in Thresholds.names():
            file.refuse_name(("thresholds", name), "threshold", Thresholds.names())
        try:
            DEFAULT.change([(name, value)])
        except NoThreshold as error:
            file.refuse(("thresholds", name), str(error))
    return table


def from_option(key: str, value: Any, option: str) -> Expectations:
    """What one option says of the whole host; raises NotThis."""
    known: Key = KEYS[key]
    want = known.read(value)
    expected = Expected(known.scope, key, None, want, Severity.CRITICAL, option, is_option=True)
    return Expectations((expected,))
