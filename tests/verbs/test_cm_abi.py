"""Our structures of the connection manager against rdma/rdma_cma.h itself."""

import ctypes
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rdmadiag.verbs import cm_abi
from rdmadiag.verbs.abi import Struct

pytestmark = pytest.mark.once

STRUCTURES = [
    found
    for found in vars(cm_abi).values()
    if isinstance(found, type) and issubclass(found, Struct) and found.__module__ == cm_abi.__name__
]
C_NAMES = {"RdmaConnEvent": "struct rdma_cm_event", "RdmaUdEvent": "struct rdma_cm_event"}
RENAMED = {
    "RdmaConnEvent.conn": "param.conn",
    "RdmaUdEvent.ud": "param.ud",
    "RdmaAddr.addr": "addr.ibaddr",
}
CONSTANTS = {
    "RAI_PASSIVE": cm_abi.RAI_PASSIVE,
    "RAI_NUMERICHOST": cm_abi.RAI_NUMERICHOST,
    "RDMA_PS_TCP": cm_abi.PS_TCP,
    "RDMA_PS_UDP": cm_abi.PS_UDP,
}


def c_name(structure: type) -> str:
    """RdmaCmId → struct rdma_cm_id."""
    usual = "struct " + re.sub(r"\B(?=[A-Z])", "_", structure.__name__).lower()
    return C_NAMES.get(structure.__name__, usual)


def fields(structure: type[Struct]) -> list[str]:
    return [name for name, *_ in structure._fields_ if not name.startswith("_")]


@pytest.fixture(scope="module")
def in_c(
    compile_c: Callable[..., Path], cm_headers: None, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[int, ...]]:
    """What the header says: sizes, and offset and size of each field."""
    lines = []
    for structure in STRUCTURES:
        ours, theirs = structure.__name__, c_name(structure)
        lines.append(f'printf("{ours} %zu\\n", sizeof({theirs}));')
        for name in fields(structure):
            field = RENAMED.get(f"{ours}.{name}", name)
            place = f"offsetof({theirs}, {field}), sizeof((({theirs} *)0)->{field})"
            lines.append(f'printf("{ours}.{name} %zu %zu\\n", {place});')
    lines += [f'printf("{name} %d\\n", {name});' for name in CONSTANTS]
    source = tmp_path_factory.mktemp("program") / "program.c"
    headers = "".join(f"#include <{each}>\n" for each in ("stdio.h", "stddef.h", "rdma/rdma_cma.h"))
    body = "\n".join(lines)
    source.write_text(f"{headers}int main(void)\n{{\n{body}\nreturn 0;\n}}\n")
    ran = subprocess.run([compile_c(source)], capture_output=True, text=True, check=True)
    rows = (line.split() for line in ran.stdout.splitlines())
    return {name: tuple(int(each) for each in values) for name, *values in rows}


@pytest.mark.parametrize("structure", STRUCTURES, ids=lambda each: each.__name__)
def test_every_field_is_where_the_header_has_it(
    structure: type[Struct], in_c: dict[str, tuple[int, ...]]
) -> None:
    found = {name: getattr(structure, name) for name in fields(structure)}
    assert {name: (field.offset, field.size) for name, field in found.items()} == {
        name: in_c[f"{structure.__name__}.{name}"] for name in found
    }
    assert (ctypes.sizeof(structure),) == in_c[structure.__name__]


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_is_the_headers(name: str, in_c: dict[str, tuple[int, ...]]) -> None:
    assert in_c[name] == (CONSTANTS[name],)
