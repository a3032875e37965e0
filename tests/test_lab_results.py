"""What a run of the lab says at its end of the tests that failed."""

import pytest

from lab import results

pytestmark = pytest.mark.once

JUNIT = """<testsuites><testsuite>
<testcase classname="tests.lab.guest.test_cm" name="test_passes"/>
<testcase classname="tests.lab.guest.test_cm" name="test_breaks">
  <failure message="assert 3 == 0&#10; where 3 = exit code">trace</failure></testcase>
<testcase classname="tests.lab.guest.test_cm.TestData" name="test_has_no_host">
  <error message="no guest"/></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def out(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "OUT", tmp_path)
    shard = tmp_path / "guest" / "cm"
    shard.mkdir(parents=True)
    (shard / "console.txt").touch()
    return shard


def test_each_test_that_failed_is_named_with_its_message(out):
    (out / "junit.xml").write_text(JUNIT)
    assert list(results.failures("guest")) == [
        "guest/cm: tests/lab/guest/test_cm.py::test_breaks: assert 3 == 0 where 3 = exit code",
        "guest/cm: tests/lab/guest/test_cm.py::TestData::test_has_no_host: no guest",
    ]


def test_what_failed_is_named_as_pytest_takes_it(out):
    (out / "junit.xml").write_text(JUNIT)
    assert results.failed(out) == [
        "tests/lab/guest/test_cm.py::test_breaks",
        "tests/lab/guest/test_cm.py::TestData::test_has_no_host",
    ]


@pytest.mark.parametrize("content", [None, JUNIT[:100]], ids=["no result", "a half result"])
def test_of_a_guest_that_died_it_is_not_known_what_failed(out, content):
    if content is not None:
        (out / "junit.xml").write_text(content)
    assert results.failed(out) is None


def test_a_guest_that_left_no_result_is_named(out):
    assert list(results.failures("guest")) == ["guest/cm: ended without a result"]


def test_a_result_that_was_cut_off_is_named(out):
    (out / "junit.xml").write_text(JUNIT[:100])
    assert [line.partition(":")[0] for line in results.failures("guest")] == ["guest/cm/junit.xml"]


def test_a_part_that_never_ran_has_no_failures(out):
    assert list(results.failures("two")) == []
