"""Lines of transports that say what does not fit: corpus/fabrics.txt."""

import pytest

from rdmadiag.explain.log.recognition.signs import fabrics
from rdmadiag.explain.log.recognition.signs.sign import Sign
from tests.explain.score import FOLDER, Excerpt, read, score

LINES = read(FOLDER / "fabrics.txt")


@pytest.mark.parametrize("line", LINES, ids=lambda each: each.name)
def test_a_line_of_a_transport_names_its_cause_first(line: Excerpt) -> None:
    assert score(line).first


@pytest.mark.parametrize("sign", fabrics.SIGNS, ids=lambda each: f"{each.word} {each.labels[0]}")
def test_each_sign_has_a_line(sign: Sign) -> None:
    texts = [each.log.decode().lower() for each in LINES]
    assert any(
        sign.pattern.search(each) and (sign.only is None or sign.only.search(each))
        for each in texts
    )


@pytest.mark.parametrize(
    "line",
    [
        "[1724245876.1] [node1:812  :0] ib_device.c:1480 UCX  DEBUG mlx5_0: failed to find port",
        "libfabric:812:1724245876::verbs:core:vrb_read_params():300<info> gid index is 3",
        "node1:rank3.a.out: PSM3_RDMA=1: mode 1",
    ],
)
def test_what_is_no_failure_is_none(line: str) -> None:
    assert score(Excerpt("x", {}, f"{line}\n".encode())).account.first is None
