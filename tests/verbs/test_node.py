"""A closed node is reported at once."""

from errno import EISDIR
from pathlib import Path

import pytest

from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.node import try_node


def test_a_node_that_refuses_fails_before_libibverbs_waits_for_another(tmp_path: Path) -> None:
    (tmp_path / "uverbs0").mkdir()
    with pytest.raises(CallFailed) as refused:
        try_node("uverbs0", str(tmp_path))
    assert (refused.value.call, refused.value.errno) == ("ibv_open_device", EISDIR)
    (tmp_path / "uverbs1").touch()
    for name in ("uverbs1", "uverbs2", ""):
        try_node(name, str(tmp_path))
