"""`exercise --cm`: the matrix of what librdmacm connects, on soft RoCE and soft iWARP."""

import signal
from typing import Any

import pytest

from lab.attempt import Attempts, until
from lab.resources import cm_listeners
from rdmadiag.facts.exercise import Via
from rdmadiag.verbs.matrix import MATRIX
from tests.lab.guest.test_cm import Port, kept, port  # noqa: F401  # the last two are fixtures

SECONDS = 90.0
WAITED = 60.0  # that a listener waits for the other end
READY_SECONDS = 60.0

RC = {(each.value, via.value) for via in Via for each in MATRIX["rc", via]}
BY_HAND_ALONE = {(each, "poll") for each in ("reset", "sqd", "alt_path")}
NOT_IN_RFC_5040 = {
    *(("send_imm", "poll"), ("send_imm", "srq"), ("write_imm", "poll")),
    *(("write_imm", "channel"), ("write_imm", "srq")),
    *((each, "poll") for each in ("cmp_swap", "fetch_add")),
}
NO_CALL = {(each, "poll") for each in ("resize_cq", "mw_type_1", "mw_type_2", "send_inv")}
"""siw_device_ops, sw/siw/siw_main.c, has neither resize_cq nor alloc_mw."""

NO_EVENT = {("send_solicited", "channel")}
"""Whatever was sent, siw_rqe_complete, sw/siw/siw_qp.c, notifies as of SIW_WQE_SIGNALLED."""


def cells(document: Any, state: str, kind: str = "rc") -> set[tuple[str, str]]:
    return {
        (each["operation"], each["via"])
        for each in document["cells"]
        if (each["state"], each["qp_type"]) == (state, kind)
    }


def test_each_cell_that_it_can_is_connected_and_verified_and_nothing_is_left(
    port: Port,  # noqa: F811
    attempts: Attempts,
) -> None:
    ended = attempts.start(*port.options, deadline=SECONDS, command="exercise").end()
    document, on_siw = ended.document, port.kind == "siw"
    absent = cells(document, "not_claimed") | cells(document, "refused")
    assert cells(document, "failed") == (NO_EVENT if on_siw else set()), document["cells"]
    not_there = NOT_IN_RFC_5040 | NO_CALL | {("alt_path", "poll")} if on_siw else set()
    assert absent == not_there
    # What the device says beforehand is not claimed, else its call is refused.
    assert cells(document, "not_claimed") >= (NOT_IN_RFC_5040 if on_siw else set())
    refused = [each for each in document["cells"] if each["state"] == "refused"]
    assert {each["errno_name"] for each in refused} == ({"EOPNOTSUPP"} if on_siw else set())
    assert cells(document, "not_tried") == BY_HAND_ALONE - not_there
    verified = RC - BY_HAND_ALONE - not_there - (NO_EVENT if on_siw else set())
    assert cells(document, "verified") == verified
    others = {each["state"] for each in document["cells"] if each["qp_type"] != "rc"}
    assert others <= {"not_claimed", "not_tried"}
    assert (document["outcome"], document["teardown"]) == ("done", "clean")
    assert document["by_cm"] is True
    assert ended.code == (2 if on_siw else 0)


@pytest.mark.other_kernels(2)
@pytest.mark.sampled(2)
def test_two_processes_try_what_both_name(port: Port, attempts: Attempts) -> None:  # noqa: F811
    only = "--only=send,write,read"
    started = {"deadline": SECONDS, "command": "exercise"}
    one, number = attempts.listen(port.address, *port.options, only, **started)  # type: ignore[arg-type]
    where = f"{port.address}:{number}"
    other = attempts.start(*port.options, where, only, **started)  # type: ignore[arg-type]
    for ended in (other.end(WAITED), one.end(WAITED)):
        assert (ended.code, ended.document["outcome"]) == (0, "done"), ended.document
        assert len(cells(ended.document, "verified")) == 6


@pytest.mark.other_kernels(2)
def test_an_end_that_is_killed_leaves_nothing(port: Port, attempts: Attempts) -> None:  # noqa: F811
    started = attempts.start(*port.options, deadline=SECONDS, command="exercise")
    assert until(lambda: cm_listeners() > 0 or started.has_ended(), READY_SECONDS)
    child = started.child()
    started.kill(signal.SIGTERM)
    ended = started.end()
    assert ended.document["outcome"] == "interrupted", (child, ended.document)
    assert ended.document["teardown"] == "clean"


def test_plain_exercise_names_what_iwarp_needs(
    port: Port,  # noqa: F811
    rdmadiag: Any,
) -> None:
    if port.kind != "siw":
        pytest.skip("of iWARP")
    code, said, _ = rdmadiag("exercise", "--allow-rtr", f"--device={port.device}")
    assert code == 3
    assert "rdmadiag exercise --cm --allow-rtr" in said
