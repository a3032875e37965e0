"""Pickles of containers are read, and nothing of a pickle is ever run."""

import pickle
import pickletools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.explain.job.plain_pickle import NotPlain, parse_plain_pickle

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 200), 1 << 200)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(PLAIN, st.integers(2, 5))
def test_containers_come_back_as_they_were(value: object, protocol: int) -> None:
    made = pickle.dumps(value, protocol)
    # Protocol 2 knows no bytes: it calls _codecs.encode, or bytes, which would be code.
    if all(opcode.name != "GLOBAL" for opcode, _, _ in pickletools.genops(made)):
        assert parse_plain_pickle(made) == value


def test_what_stands_in_two_places_is_one_value() -> None:
    shared = ["a"]
    found = parse_plain_pickle(pickle.dumps({"x": shared, "y": shared, "z": {1, 2}}, 4))
    assert found["x"] is found["y"]
    assert found["z"] == {1, 2}


class Runs:
    """Unpickled by pickle, it would call."""

    def __reduce__(self) -> object:
        return (print, ("run",))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(pickle.dumps(Runs(), 2), id="a call by name"),
        pytest.param(pickle.dumps(Runs(), 4), id="a call by stack"),
        pytest.param(pickle.dumps(Runs, 4), id="a class"),
        pytest.param(b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00id\x85R.", id="os.system"),
        pytest.param(b"\x80\x02(X\x02\x00\x00\x00idios\nsystem\n.", id="INST"),
        pytest.param(b"\x80\x02\x82\x01.", id="an extension"),
        pytest.param(b"\x80\x02X\x01\x00\x00\x00xQ.", id="a persistent id"),
        pytest.param(b"\x80\x02}}b.", id="BUILD"),
    ],
)
def test_whatever_would_run_is_refused(content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NotPlain, match="run code"):
        parse_plain_pickle(content)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80",
        b"\x80\x04",
        b"\x80\x04.",
        b"\x80\x04(.",
        b"\x80\x04X\xff\xff\xff\x7fabc.",
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fx.",
        b"\x80\x02j\x01\x00\x00\x00.",
        b"\x80\x04\x8b\xff\xff\xff\x00.",
        b"\x80\x02}]Ns.",
        b"\x80\x02Na.",
        b"\x80\x02(NNNd.",
        b"\x80\x02Ne.",
        b"\x80\x02\xff.",
        b"\x80\x02(q\x01.",
    ],
    ids=repr,
)
def test_what_is_damaged_is_refused_in_one_line(content: bytes) -> None:
    with pytest.raises(NotPlain) as refused:
        parse_plain_pickle(content)
    assert "\n" not in str(refused.value)


def test_a_row_of_the_memo_takes_no_more_than_itself() -> None:
    far = b"\x80\x02]r\xff\xff\xff\xff."  # `pickle` makes room for four thousand million
    assert parse_plain_pickle(far) == []


@given(st.binary(max_size=300))
def test_any_bytes_are_a_value_or_refused(content: bytes) -> None:
    for each in (content, b"\x80\x02" + content):
        try:
            parse_plain_pickle(each)
        except NotPlain:
            continue


def test_no_opcode_of_pickle_is_both_known_and_code() -> None:
    refused = {"GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX"}
    for each in pickletools.opcodes:
        if each.name in refused | {"EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID"}:
            with pytest.raises(NotPlain, match="run code"):
                parse_plain_pickle(b"\x80\x02" + each.code.encode("latin-1") + b".")
