"""A saved sample: what is read back, and what is refused since a difference would be false."""

import json
from dataclasses import replace

import pytest

from rdmadiag.facts import Identity, Missing, Why
from rdmadiag.facts.counters import CounterSource
from rdmadiag.host.saved_sample import BaselineError, Saved, read_saved, require_comparable
from rdmadiag.render.json import document

pytestmark = pytest.mark.usefixtures("in_this_process")

HOST = Identity("node1", "linux", "6.1.0", "x86_64")


def text(sample, **changes):
    made = document({"host": HOST, "sample": sample, "verdict": {"status": "ok"}})
    return json.dumps(json.loads(made) | changes)


@pytest.fixture
def save(tmp_path):
    def saved(content):
        path = tmp_path / "base.json"
        path.write_text(content)
        return str(path)

    return saved


def test_what_is_printed_is_read_back_as_it_was(before, save):
    refused = {"odd": Missing(Why.UNSUPPORTED, "EINVAL")}
    sample = replace(before, sets=(replace(before.sets[0], refused=refused), *before.sets[1:]))
    found = read_saved(save(text(sample)))
    assert isinstance(found, Saved)
    assert (found.sample, found.host) == (sample, HOST)


def test_missing_parts_come_back_as_missing(before, save):
    gone = Missing(Why.TIMEOUT, "late")
    sample = replace(before, boot=gone, names=gone, failed=(gone,), sets=())
    assert read_saved(save(text(sample))).sample == sample


def test_of_a_watch_the_last_line_counts(before, save):
    later = replace(before, seconds=200.0)
    found = read_saved(save(f"{text(before)}\n{text(later)}\n"))
    assert found.sample.seconds == 200.0


def test_fields_of_a_newer_minor_version_are_passed_over(before, save):
    assert read_saved(save(text(before, schema_version="1.9", more=5))).sample == before


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "neither a JSON document"),
        ("[1, 2]", "neither a JSON document"),
        ("{", "neither a JSON document"),
        ("[" * 100_000, "neither a JSON document"),
        ('{"schema_version": "2.0"}', "schema version '2.0' is not 1.x"),
        ('{"schema_version": 7}', "schema version 7 is not 1.x"),
        ("{}", "schema version None is not 1.x"),
        ('{"schema_version": "1.0"}', "no sample of counters --json"),
        ('{"schema_version": "1.0", "verdict": {}, "evidence": {}}', "reads no counters"),
    ],
    ids=lambda text: text[:30],
)
def test_what_is_no_sample_is_refused_in_one_line(content, said, save):
    with pytest.raises(BaselineError, match=said.replace("(", r"\(")) as caught:
        read_saved(save(content))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seconds": float("nan")}, "nan at sample.seconds is no time"),
        ({"seconds": float("-inf")}, "-inf at sample.seconds is no time"),
        ({"seconds": 1e300}, r"1e\+300 at sample.seconds is no time"),
    ],
    ids=["nan", "before all time", "after all time"],
)
def test_a_time_that_no_host_says_is_refused(change, said, before, save):
    with pytest.raises(BaselineError, match=said):
        read_saved(save(text(replace(before, **change))))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"values": {"symbol_error": -1}}, "sets.0.values.symbol_error is no count of 64 bits"),
        ({"values": {"symbol_error": 2**64}}, "sets.0.values.symbol_error is no count"),
        ({"values": {"symbol_error": 10**400}}, "sets.0.values.symbol_error is no count"),
        ({"seconds": float("inf")}, "inf at sample.sets.0.seconds is no time"),
        ({"lifespan_ms": -1}, "sets.0.lifespan_ms is no time"),
        ({"source": CounterSource.HW}, "sets.1 is there twice"),
    ],
    ids=["negative", "65 bits", "400 digits", "no time", "no lifespan", "twice"],
)
def test_a_set_that_no_host_says_is_refused(change, said, before, save):
    sets = (replace(before.sets[0], **change), *before.sets[1:])
    with pytest.raises(BaselineError, match=said):
        read_saved(save(text(replace(before, sets=sets))))


def test_the_greatest_count_of_64_bits_is_one(before, save):
    sets = (replace(before.sets[0], values={"symbol_error": 2**64 - 1}), *before.sets[1:])
    assert read_saved(save(text(replace(before, sets=sets)))).sample.sets == sets


def test_a_file_that_is_too_long_is_refused_with_what_to_do(save):
    with pytest.raises(BaselineError, match=r"longer than 16 MiB; .* tail -n 1"):
        read_saved(save("[" + "[]," * 6_000_000))


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(BaselineError, match="No such file"):
        read_saved(str(tmp_path / "none.json"))


# --- comparable ----------------------------------------------------------------------------


def test_two_samples_of_one_boot_are_comparable_under_any_name(before):
    later = replace(before, seconds=200.0)
    require_comparable(before, HOST, later, HOST)
    require_comparable(before, HOST, later, replace(HOST, hostname="pod-7"))
    require_comparable(replace(before, seconds=Missing(Why.ABSENT)), HOST, later, HOST)


@pytest.mark.parametrize(
    ("earlier", "now", "said"),
    [
        ({"boot": "other"}, {}, "node1 has been started since"),
        ({"boot": "other"}, {"hostname": "node2"}, "two hosts, node1 and node2"),
        ({"boot": Missing(Why.DENIED)}, {}, "is not known"),
        ({"seconds": 300.0}, {}, "the younger one"),
    ],
    ids=["another boot", "another host", "an unknown boot", "the wrong way round"],
)
def test_a_difference_that_would_be_false_is_refused(earlier, now, said, before):
    with pytest.raises(BaselineError, match=said):
        require_comparable(replace(before, **earlier), HOST, before, replace(HOST, **now))
