"""Texts as launchers write them: each report is its host's, and nothing is dropped."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.fleet.collect import Collected
from rdmadiag.fleet.document import MOST_BYTES, Reader
from rdmadiag.fleet.merged import Gap, Merged
from rdmadiag.fleet.nodes import Expected
from rdmadiag.fleet.streams import read_lines, read_text
from rdmadiag.preflight.verdict import Status
from tests.fleet_reports import NO_SM, collected, document, finding, merged, text

LAUNCHERS = Path(__file__).parent / "launchers"
"""What Slurm 22.05, ClusterShell 1.10, pdsh 2.34, kubectl 1.32 and ansible-core 2.16 with
ansible.posix really wrote for five hosts: n1 is fine, n2 critical, n3 has no rdmadiag, n4 was
killed after 1300 bytes, n5 printed its report over many lines."""


def statuses(found: Merged) -> dict[str, str | None]:
    return {row.node: row.status and str(row.status) for row in found.rows}


def gaps(found: Merged) -> set[tuple[str | None, Gap]]:
    return {(each.node, each.gap) for each in found.unused}


@pytest.mark.parametrize("expected", [None, "n[1-6]"], ids=["nobody expected", "six expected"])
@pytest.mark.parametrize("name", ["srun", "clush", "clush_b", "pdsh", "dshbak"])
def test_what_launchers_really_wrote(name: str, expected: str | None) -> None:
    found = merged((LAUNCHERS / f"{name}.txt").read_bytes(), expected=expected)
    never = {"n6": None} if expected else {}
    assert statuses(found) == {
        "n1": "ok",
        "n2": "critical",
        "n3": None,
        "n4": None,
        "n5": "ok",
        **never,
    }
    assert ("n3", Gap.FOREIGN) in gaps(found)
    assert ("n4", Gap.TORN) in gaps(found)
    assert {("n3", Gap.FAILED), ("n4", Gap.FAILED)} <= gaps(found)
    assert ("n2", Gap.FAILED) not in gaps(found), "it ended with 2, as its verdict says"
    assert ("n6", Gap.NEVER_REPORTED) in gaps(found) or not expected


def test_what_kubectl_really_wrote_is_of_the_hosts_that_pods_ran_on() -> None:
    found = merged((LAUNCHERS / "kubectl.txt").read_bytes())
    assert statuses(found) == {
        "n1": "ok",
        "n2": "critical",
        "n5": "ok",
        "rdmadiag-n3": None,
        "rdmadiag-n4": None,
    }
    found = merged((LAUNCHERS / "kubectl.txt").read_bytes(), expected="n[1-5]")
    assert statuses(found)["n3"] is statuses(found)["n4"] is None
    assert len(found.rows) == 5, "pods are none of the nodes that are expected"
    assert [each.detail for each in found.unused if each.gap is Gap.TORN] == [
        "pod rdmadiag-n4: ends in its middle, after 1300 bytes"
    ]


def test_what_ansible_really_wrote() -> None:
    found = merged((LAUNCHERS / "ansible.txt").read_bytes())
    assert statuses(found) == {
        "n1": "ok",
        "n2": "critical",
        "n3": None,
        "n4": None,
        "n5": "ok",
        "n6": None,
    }
    why = {each.node: each.detail for each in found.unused if each.gap is Gap.FAILED}
    assert why["n3"] == "bash: line 1: rdmadiag: command not found (exit code 127)"
    assert why["n6"].startswith("unreachable: Failed to connect to the host via ssh")


def test_ansible_says_a_failure_where_the_playbook_calls_no_code_one() -> None:
    result = {"rc": 127, "stdout": "", "stderr": "no rdmadiag", "failed": False}
    stdout = json.dumps({"plays": [{"tasks": [{"hosts": {"n1": result}}]}], "stats": {"n2": {}}})
    found = merged(stdout)
    assert {(each.node, each.detail) for each in found.unused} == {
        ("n1", "no rdmadiag (exit code 127)"),
        ("n2", "no task printed a report"),
    }


# --- documents of many hosts in one text --------------------------------------------------------


def srun(outputs: dict[int, bytes], width: int = 1) -> bytes:
    """As slurmstepd sends it, 1024 bytes at a time, in turn, and srun labels each piece."""
    pieces = {
        task: [out[at : at + 1024] for at in range(0, len(out), 1024)]
        for task, out in outputs.items()
    }
    written = []
    while any(pieces.values()):
        for task, left in pieces.items():
            if left:
                lines = left.pop(0).removesuffix(b"\n").split(b"\n")
                written += [b"%0*d: %s\n" % (width, task, line) for line in lines]
    return b"".join(written)


ODD = st.text(alphabet=st.sampled_from('a"{}[]\\\n:,é節\U0001f41d '), max_size=3000)


@given(st.lists(ODD, min_size=1, max_size=4), st.booleans())
def test_reports_that_srun_breaks_in_pieces_are_put_together(odd: list[str], pretty: bool) -> None:
    outputs = {}
    for task, each in enumerate(odd):
        made = document(f"n{task}", "critical", [finding(summary="x", remedy=[each])])
        made["host"]["more"] = each
        shown = json.dumps(made, indent=2 if pretty else None, ensure_ascii=False)
        outputs[task] = shown.encode() + b"\n"
    found = merged(srun(outputs))
    assert statuses(found) == {f"n{task}": "critical" for task in outputs}
    assert found.unused == ()


@pytest.mark.parametrize("label", ["{node}: ", "[pod/{node}/main] "], ids=["a name", "a pod"])
def test_lines_of_several_hosts_in_turn_come_apart(label: str) -> None:
    shown = {
        node: json.dumps(document(node, "warn"), indent=1).splitlines()
        for node in ("n1", "n2", "n3")
    }
    lines = [
        label.format(node=node) + line
        for together in zip(*shown.values(), strict=True)
        for node, line in zip(shown, together, strict=True)
    ]
    found = merged("\n".join(lines))
    assert statuses(found) == {"n1": "warn", "n2": "warn", "n3": "warn"}
    assert found.unused == ()


@pytest.mark.parametrize(
    "content",
    [
        text("n1") + "\n" + text("n2") + "\n",
        text("n1") + "\r\n" + text("n2") + "\r\n",
        json.dumps(document("n1"), indent=4) + "\n" + json.dumps(document("n2"), indent=4),
        json.dumps([document("n1"), document("n2")]),
        "\n\n" + text("n1") + "\n\n" + text("n2"),
    ],
    ids=["a line each", "of Windows", "over many lines each", "a list, as of jq -s", "empty lines"],
)
def test_documents_without_labels(content: str) -> None:
    assert statuses(merged(content)) == {"n1": "ok", "n2": "ok"}
    to = Collected(Reader(lambda document: {}))
    read_lines(to, "stdin", [content.encode()[at : at + 7] for at in range(0, len(content), 7)])
    reports, unused = to.result()
    assert [each.node for each in reports] == ["n1", "n2"]
    assert unused == ()


def test_a_torn_report_does_not_swallow_the_next_one() -> None:
    whole = text("n1")
    for content in (f"{whole[:200]}\n{whole}\n", f"n1: {whole[:200]}\nn1: {whole}\n"):
        found = merged(content)
        assert statuses(found) == {"n1": "ok"}
        assert [each.gap for each in found.unused] == [Gap.TORN]


def test_a_host_that_ends_no_line_does_not_swallow_the_next_one() -> None:
    """pdsh puts the next label right behind it; what was torn may end in letters."""
    torn = text("n1")[:-40] + "rule-3"
    found = merged(f"n1: {torn}n2: {text('n2')}\n")
    assert statuses(found) == {"n1": None, "n2": "ok"}
    assert gaps(found) == {("n1", Gap.TORN)}


# --- whose -------------------------------------------------------------------------------------


def test_the_launchers_name_of_a_node_is_taken_before_the_hosts_own() -> None:
    assert statuses(merged(f"n1: {text('localhost')}")) == {"n1": "ok"}


def test_of_a_task_of_srun_the_hosts_own_name_is_taken() -> None:
    assert statuses(merged(f"0: {text('n7')}")) == {"n7": "ok"}
    assert statuses(merged(f"0: {text('n7.example')}", expected="n7")) == {"n7": "ok"}


@pytest.mark.parametrize(
    ("lines", "whose"),
    [
        ([f"0: {text('n1')}", f"1: {text('n2')}", "2: no"], "n3"),
        ([f"0: {text('n1')}", f"1: {text('n3')}", "2: no"], None),
        ([f"0: {text('n1')}", f"1: {text('n2')}", "3: no"], None),
        ([f"0: {text('n1')}", "2: no"], None),
        ([f"0: {text('n1')}", "2: no", "srun: error: n3: task 2: Killed"], "n3"),
        ([f"0: {text('n1')}", "2: no", "srun: error: n[2-3]: tasks 1-2: Killed"], None),
    ],
    ids=[
        "reports stand in the order of the nodes",
        "they do not",
        "there are more tasks than nodes",
        "one alone proves no order",
        "srun names both",
        "srun names sets of both, in no order",
    ],
)
def test_a_task_is_mapped_to_a_node_only_where_that_is_certain(
    lines: list[str], whose: str | None
) -> None:
    found = merged("\n".join(lines), expected="n[1-3]")
    (foreign,) = (each for each in found.unused if each.gap is Gap.FOREIGN)
    assert foreign.node == whose
    assert foreign.detail.removeprefix("task ") in (("no",) if whose else ("2: no", "3: no"))


def test_lines_of_equal_hosts_in_one_block_are_of_each_of_them() -> None:
    block = "---------------\nn[1-3] (3)\n---------------\nno rdmadiag here\n"
    assert gaps(merged(block)) == {(f"n{i}", Gap.FOREIGN) for i in (1, 2, 3)}


@pytest.mark.parametrize(
    ("line", "node", "gap"),
    [
        ("srun: error: n1: task 0: Exited with exit code 9", "n1", Gap.FAILED),
        ("srun: error: n1: task 0: Out Of Memory", "n1", Gap.FAILED),
        ("srun: error: Unable to create step for job 7: Invalid", None, Gap.FAILED),
        ("srun: job 7 queued and waiting for resources", None, Gap.FOREIGN),
        ("clush: n1: exited with exit code 255", "n1", Gap.FAILED),
        ("clush: n[1-2] (2): command timeout", "n1", Gap.FAILED),
        ("pdsh@login: n1: ssh exited with exit code 255", "n1", Gap.FAILED),
        ("n1: ssh: connect to host n1 port 22: No route to host", "n1", Gap.FOREIGN),
        ("Warning: Permanently added 'n1' to the list of known hosts.", None, Gap.FOREIGN),
        ("just a banner", None, Gap.FOREIGN),
    ],
)
def test_what_a_launcher_says_itself_is_named(line: str, node: str | None, gap: Gap) -> None:
    assert (node, gap) in gaps(merged(line))


@pytest.mark.parametrize(
    ("word", "is_node"),
    [
        ("RuntimeError", False),
        ("torch.cuda.OutOfMemoryError", False),
        ("java.io.IOException", False),
        ("KeyboardInterrupt", False),
        ("python3.11", False),
        ("timeout", False),
        ("CRITICAL", False),
        ("node7", True),
        ("error-log.example.org", True),
        ("time-server", True),
    ],
)
def test_what_programs_and_exceptions_begin_a_line_with_is_no_node(
    word: str, is_node: bool
) -> None:
    found = merged(f"{word}: no RDMA device\n")
    assert gaps(found) == {(word if is_node else None, Gap.FOREIGN)}


def test_an_exit_code_that_is_not_the_verdicts_is_named_beside_the_report() -> None:
    content = f"n1: {text('n1', 'critical', [finding()])}\nclush: n1: exited with exit code %d\n"
    assert gaps(merged(content % 2)) == set()
    assert gaps(merged(content % 137)) == {("n1", Gap.FAILED)}
    assert statuses(merged(content % 137)) == {"n1": "critical"}


def test_a_file_is_its_nodes_where_it_is_called_so() -> None:
    to = Collected(Reader(lambda document: {}), Expected(("n1", "n2")))
    read_text(to, "run/n1/report.json", text("localhost").encode(), ("report", "n1", "run"))
    read_text(to, "run/n2.json", text("n2").encode()[:100], ("n2.json", "n2"))
    reports, unused = to.result()
    assert [each.node for each in reports] == ["n1"]
    assert [(each.node, each.gap) for each in unused] == [("n2", Gap.TORN)]


# --- what is no report -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "gap", "detail"),
    [
        ("", Gap.TORN, "nothing is in it"),
        ("hello", Gap.FOREIGN, "hello"),
        ('{"a": 1}', Gap.FOREIGN, 'JSON, but no document of rdmadiag: {"a": 1}'),
        (text()[:50], Gap.TORN, "ends in its middle, after 50 bytes"),
        (text("n9", schema_version="2.0"), Gap.OTHER_SCHEMA, "schema 2.0 of rdmadiag 0.1.0"),
        (text("n9", schema_version="0.9"), Gap.OTHER_SCHEMA, "schema 0.9 of rdmadiag 0.1.0"),
        (
            text(host=None, error={"message": "no --json", "exit_code": 64}),
            Gap.FAILED,
            "no --json (exit code 64)",
        ),
    ],
    ids=["nothing", "text", "other JSON", "torn", "a newer schema", "an older one", "an error"],
)
def test_what_is_no_report_is_named(content: str, gap: Gap, detail: str) -> None:
    found = merged(content, text("n1"))
    (unused,) = found.unused
    assert unused.gap is gap
    assert unused.detail.startswith(detail)
    assert unused.where is not None
    assert unused.where.startswith("0")


def test_of_two_reports_of_a_host_the_newer_one_is_taken_and_the_other_named() -> None:
    old = text("n1", "critical", [finding()], generated_at="2026-11-22T07:00:00Z")
    for files in ((old, text("n1")), (text("n1"), old)):
        found = merged(*files)
        assert statuses(found) == {"n1": "ok"}
        (second,) = found.unused
        assert (second.gap, second.node) == (Gap.SECOND, "n1")
        assert second.detail.startswith("of 2026-11-22T07:00:00Z; taken is ")


def test_counters_of_a_host_add_to_its_preflight() -> None:
    counters = document("n1", "warn", [finding("counter-rose", "warn")])
    counters["sample"] = counters.pop("evidence")
    found = merged(text("n1"), json.dumps(counters))
    assert statuses(found) == {"n1": "warn"}
    assert found.unused == ()


def test_many_lines_of_one_host_are_named_once_with_their_number() -> None:
    found = merged("\n".join(["n1: x", *(f"n1: line {i}" for i in range(500))]))
    (unused,) = found.unused
    assert unused.detail == "x (and 500 more)"


def test_many_lines_of_nobody_are_bounded_and_counted() -> None:
    found = merged("\n".join(f"line {i}" for i in range(5000)))
    assert len(found.unused) == 50
    assert found.unused[-1].detail == "line 49 (and 4950 more)"


def test_a_line_without_an_end_is_given_up() -> None:
    to = Collected(Reader(lambda document: {}))
    read_lines(to, "stdin", iter([b"x" * (1 << 20)] * ((MOST_BYTES >> 20) + 2)))
    _, unused = to.result()
    assert [each.gap for each in unused] == [Gap.TORN]


@given(st.binary(max_size=2000))
def test_no_bytes_raise_and_none_are_dropped(content: bytes) -> None:
    for whole in (content, content + text("n1").encode() + b"\n" + content):
        to = collected(whole)
        reports, unused = to.result()
        assert reports or unused


LINE = st.sampled_from(
    [
        "n1: ",
        "0: ",
        "[pod/p/c] ",
        "-" * 15,
        "n[1-3] (3)",
        "pdsh@x: n1: y",
        "{",
        "}",
        text("n2"),
        text("n2")[:99],
        '"',
        "\\",
        "[",
        "]",
        "srun: error: n1: task 0: Killed",
    ]
)


@given(st.lists(LINE, max_size=30), st.sampled_from(["\n", "", " "]))
def test_no_mixture_of_marks_raises(lines: list[str], between: str) -> None:
    found = merged(between.join(lines))
    assert found.status in Status
    assert NO_SM not in {each.reason for each in found.groups}
