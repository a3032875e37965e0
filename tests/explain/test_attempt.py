"""What is advised after an attempt: one that went well, and one change."""

import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from rdmadiag.explain.attempt import CAUSES, NOTHING, REMEDY, advice
from rdmadiag.explain.calls import ANY, known
from rdmadiag.explain.causes import ROWS, stated
from rdmadiag.explain.completions import completion
from rdmadiag.facts.attempt import (
    Attempt,
    BadCompletion,
    Outcome,
    PeerFailure,
    Problem,
    Stage,
    Step,
    Teardown,
)
from rdmadiag.facts.errnos import Platform
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import GidType, LinkLayer, PortState, QpType
from rdmadiag.verbs.protocol import mismatches
from tests.verbs.attempts import HERE, HERE_FACTS, THERE, VERIFIED

PLATFORMS: tuple[Platform, ...] = ("linux", "darwin")
SILENT = (Outcome.VERIFIED, Outcome.NOT_ALLOWED, Outcome.NOT_SAFE)

ROCE = HERE_FACTS
THUNDERBOLT = replace(
    ROCE,
    device="rdma_en1",
    link_layer=LinkLayer.THUNDERBOLT,
    gid_index=1,
    gid=Gid.parse("::ffff:169.254.11.1"),
    gid_type=None,
    qp_type=QpType.UC,
    mtu=4096,
)
INFINIBAND = replace(
    ROCE,
    link_layer=LinkLayer.INFINIBAND,
    gid_index=None,
    gid=Gid.parse("fe80::c42:a103:0:1"),
    gid_type=GidType.IB,
    lid=3,
)


def ended(**changes: Any) -> Attempt:
    """An attempt that verified its data, but for `changes`."""
    if changes.get("platform") == "darwin":
        far = replace(THUNDERBOLT, gid=Gid.parse("::ffff:169.254.11.2"))
        changes = {"local": THUNDERBOLT, "remote": far, **changes}
    return replace(VERIFIED, **changes)


def refused(stage: Stage | str, errno: int | None, **changes: Any) -> Attempt:
    changes = {"call": "ibv_modify_qp", "outcome": Outcome.CALL_FAILED, **changes}
    return ended(stage=Stage(stage), errno=errno, **changes)


def completed(status: int, vendor_error: int = 0, **changes: Any) -> Attempt:
    bad = BadCompletion("local", status, vendor_error, is_receive=False)
    changes = {"completion": bad, **changes}
    return ended(outcome=Outcome.COMPLETION_ERROR, stage=Stage.DATA, **changes)


@cache
def every_attempt() -> list[Attempt]:
    """One of each kind of failure on each platform and link."""
    found = []
    for platform in PLATFORMS:
        found += [ended(platform=platform, outcome=outcome, pid=77) for outcome in Outcome]
        found += [completed(status, platform=platform) for status in range(1, 25)]
        for stage in Stage:
            numbers = {**known(stage, platform), **known(ANY, platform), 4242: ()}
            found += [refused(stage, number, platform=platform) for number in numbers]
    found += [replace(each, teardown=Teardown.FAILED) for each in found]
    link_local = Gid.parse("fe80::2")
    near = replace(ROCE, gid=Gid.parse("fe80::1"))
    linux = [each for each in found if each.platform == "linux"]
    for each in linux:
        found.append(replace(each, local=None, remote=None))
        found.append(replace(each, local=INFINIBAND, remote=replace(INFINIBAND, lid=4)))
        found.append(replace(each, local=near, remote=replace(near, gid=link_local)))
    return found


# --- every attempt -----------------------------------------------------------------------


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("outcome", [each for each in Outcome if each not in SILENT])
def test_every_outcome_that_is_not_the_callers_own_has_advice(
    outcome: Outcome, platform: Platform
) -> None:
    found = advice(ended(outcome=outcome, platform=platform))
    assert found.causes or found.remedy


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("outcome", SILENT)
def test_what_the_caller_has_words_for_has_none(outcome: Outcome, platform: Platform) -> None:
    assert advice(ended(outcome=outcome, platform=platform)) == NOTHING


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("stage", [*Stage, ANY])
def test_every_known_cause_of_an_errno_is_given(stage: str, platform: Platform) -> None:
    at = [Stage.OPEN, Stage.REG_MR, Stage.DATA] if stage == ANY else [Stage(stage)]
    for number, expected in known(stage, platform).items():
        for where in at:
            bare = advice(refused(where, number, platform=platform, local=None, remote=None))
            assert {each.text for each in expected} <= set(bare.causes)
            assert advice(refused(where, number, platform=platform)).remedy


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("status", range(1, 24))
def test_every_status_of_a_completion_has_its_causes_and_something_to_look_at(
    status: int, platform: Platform
) -> None:
    known_status = completion(status)
    assert known_status
    bare = advice(completed(status, platform=platform, local=None, remote=None))
    assert bare.causes == tuple(each.text for each in known_status.causes)
    assert advice(completed(status, platform=platform)).remedy


def test_lists_are_short_and_say_nothing_twice() -> None:
    for attempt in every_attempt():
        found = advice(attempt)
        assert len(found.causes) <= CAUSES
        assert len(found.remedy) <= REMEDY
        assert len(set(found.causes)) == len(found.causes)
        assert len(set(found.remedy)) == len(found.remedy)


def test_every_line_is_something_a_shell_takes() -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    lines = {line for attempt in every_attempt() for line in advice(attempt).remedy}
    done = subprocess.run([bash, "-n"], input="\n".join(sorted(lines)), text=True, check=False)
    assert done.returncode == 0


def test_no_comment_has_a_quote() -> None:
    """The shell of macOS takes no comments at its prompt: a lone quote would wait for more."""
    for attempt in every_attempt():
        for line in advice(attempt).remedy:
            _, _, comment = line.rpartition("#")
            assert not re.search("['\"`]", comment if "#" in line else "")


def test_no_line_has_an_unfilled_place() -> None:
    lines = [line for attempt in every_attempt() for line in advice(attempt).remedy]
    assert [line for line in lines if re.search("[{}]", line)] == []


@pytest.mark.parametrize(
    "word", ["ip ", "ulimit", "dmesg", "rdma ", "ss ", "/sys/", "/proc/", "ibtracert"]
)
def test_a_mac_is_not_told_a_command_of_linux(word: str) -> None:
    for attempt in every_attempt():
        if attempt.platform == "darwin":
            assert [line for line in advice(attempt).remedy if line.startswith(word)] == []
            assert [line for line in advice(attempt).remedy if f" {word}" in line] == []


@pytest.mark.parametrize(
    "word", ["ifconfig", "arp -an", "route -n", "ioreg", "log show", "rdma_ctl", "bridge0"]
)
def test_linux_is_not_told_a_command_of_a_mac(word: str) -> None:
    for attempt in every_attempt():
        if attempt.platform == "linux":
            assert [line for line in advice(attempt).remedy if word in line] == []


def test_nothing_advises_another_attempt_on_thunderbolt() -> None:
    for attempt in every_attempt():
        if attempt.platform == "darwin":
            text = "\n".join(advice(attempt).remedy)
            assert "pingpong" not in text
            assert not re.search("retry|try again|run it again|once more", text)


@pytest.mark.parametrize("number", [16, 22, 60, 96, 102, 4242])
def test_a_failed_rtr_on_thunderbolt_warns_of_a_second(number: int) -> None:
    found = advice(refused(Stage.RTR, number, platform="darwin"))
    assert [line for line in found.remedy if line.startswith("# no second RTR")]


# --- calls that failed -------------------------------------------------------------------


@pytest.mark.parametrize("number", [110, 101, 113])
def test_an_rtr_that_reaches_nobody_asks_for_route_neighbour_and_ping(number: int) -> None:
    assert advice(refused(Stage.RTR, number)).remedy[:3] == (
        "ip route get 192.0.2.2 from 192.0.2.1",
        "ip neigh show 192.0.2.2",
        "ping -c 1 -I 192.0.2.1 192.0.2.2",
    )


@pytest.mark.parametrize("number", [61, 22, 19])
def test_an_rtr_with_a_bad_gid_asks_for_the_gid_table(number: int) -> None:
    assert advice(refused(Stage.RTR, number)).remedy[0] == "rdmadiag gids --device mlx5_0:1"


def test_limits_are_asked_for_of_the_device_where_it_is_known() -> None:
    line = "ibv_devinfo -v -d mlx5_0 | grep max_cqe"
    assert advice(refused(Stage.CREATE_CQ, 22)).remedy[0] == line
    bare = advice(refused(Stage.CREATE_CQ, 22, local=None, remote=None))
    assert bare.remedy[0] == "ibv_devinfo -v | grep max_cqe"


def test_addresses_of_ipv6_gids_are_used_as_they_are() -> None:
    far = replace(ROCE, gid=Gid.parse("2001:db8::2"))
    found = advice(
        refused(Stage.RTR, 110, local=replace(ROCE, gid=Gid.parse("2001:db8::1")), remote=far)
    )
    assert found.remedy[0] == "ip route get 2001:db8::2 from 2001:db8::1"


def test_a_link_local_address_is_asked_for_with_its_interface() -> None:
    near = replace(ROCE, gid=Gid.parse("fe80::1"))
    found = advice(
        refused(Stage.RTR, 110, local=near, remote=replace(near, gid=Gid.parse("fe80::2")))
    )
    ndev = '"$(cat /sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/3)"'
    assert found.remedy[:2] == (
        f"ping -c 1 -I {ndev} fe80::2",
        f"ip neigh show fe80::2 dev {ndev}",
    )


def test_gids_of_two_families_make_no_path() -> None:
    far = replace(ROCE, gid=Gid.parse("2001:db8::2"))
    assert advice(refused(Stage.RTR, 110, remote=far)).remedy == (
        "rdmadiag gids --device mlx5_0:1",
    )


def test_a_gid_of_thunderbolt_without_ipv4_is_no_address_to_ask_for() -> None:
    near = replace(THUNDERBOLT, gid=Gid.parse("fe80::1"))
    far = replace(THUNDERBOLT, gid=Gid.parse("fe80::2"))
    found = advice(refused(Stage.RTR, 60, platform="darwin", local=near, remote=far))
    assert not [line for line in found.remedy if "fe80" in line]
    assert "rdmadiag gids --device rdma_en1:1" in found.remedy


def test_a_platform_without_tables_has_the_preflight() -> None:
    found = advice(refused(Stage.RTR, 22, platform="unknown"))
    assert (found.causes, found.remedy) == ((), ("rdmadiag preflight",))
    found = advice(ended(outcome=Outcome.WATCHDOG, platform="unknown"))
    assert (found.causes, found.remedy) == ((), ("rdmadiag preflight",))


def test_the_end_that_failed_is_the_one_asked_for_where_both_are_on_this_host() -> None:
    step = Step("remote", Stage.RTR, "ibv_modify_qp", 1.0, 110)
    found = advice(refused(Stage.RTR, 110, steps=(step,)))
    assert found.remedy[0] == "ip route get 192.0.2.1 from 192.0.2.2"
    assert found.remedy[3] == "rdmadiag gids --device mlx5_7:1"


def test_an_earlier_failure_at_another_stage_does_not_change_the_end() -> None:
    step = Step("remote", Stage.REG_MR, "ibv_reg_mr", 1.0, 22)
    found = advice(refused(Stage.RTR, 110, steps=(step,)))
    assert found.remedy[0] == "ip route get 192.0.2.2 from 192.0.2.1"


@pytest.mark.parametrize("stage", ["reg_mr", "create_cq", "create_qp"])
def test_enomem_of_what_is_locked_asks_for_the_limit(stage: str) -> None:
    found = advice(refused(stage, 12))
    assert found.remedy[0] == "ulimit -l"
    assert any("LimitMEMLOCK=infinity" in line for line in found.remedy)


def test_a_node_that_may_not_be_opened_is_shown_with_its_owner() -> None:
    assert advice(refused("open", 13)).remedy[:2] == (
        "ls -l /dev/infiniband/",
        "id   # is this user the owner, or in the group?",
    )


def test_a_device_that_was_not_opened_leaves_out_what_needs_its_path() -> None:
    found = advice(refused(Stage.RTR, 110, local=None, remote=None))
    assert found.remedy == ("rdmadiag gids",)


def test_a_number_that_poll_cq_gives_is_no_errno() -> None:
    found = advice(refused("data", 22, call="poll_cq"))
    assert not {each.text for each in known(Stage.DATA, "linux")[22]} & set(found.causes)
    assert found.causes
    assert found.remedy


def test_an_errno_without_known_causes_asks_the_kernel_log() -> None:
    assert advice(refused("create_cq", 4242)).causes == ()
    assert advice(refused("create_cq", 4242)).remedy[0].startswith("sudo dmesg")
    found = advice(refused("create_cq", 4242, platform="darwin"))
    assert "com.apple.AppleThunderboltRDMA" in found.remedy[0]


def test_a_call_that_failed_without_an_errno_has_the_causes_of_0() -> None:
    down = replace(THUNDERBOLT, state=PortState.DOWN)
    for errno in (0, None):
        found = advice(refused("alloc_pd", errno, platform="darwin", local=down))
        assert found.causes == tuple(each.text for each in known(Stage.ALLOC_PD, "darwin")[0])


def test_a_wedge_is_never_answered_with_another_call() -> None:
    found = advice(refused("create_qp", 60, platform="darwin"))
    assert found.remedy[0].startswith("# start no other RDMA program")
    assert any("shutdown -r now" in line for line in found.remedy)


# --- completions -------------------------------------------------------------------------


def test_a_peer_that_never_acknowledges_is_pinged_with_frames_of_the_path_mtu() -> None:
    found = advice(completed(12, 129))
    assert found.remedy[:3] == advice(refused(Stage.RTR, 110)).remedy[:3]
    # GRH, BTH and ICRC are 40 + 12 + 4; ping's own headers are 20 + 8.
    assert found.remedy[3].startswith("ping -M do -s 1052 -c 1 -I 192.0.2.1 192.0.2.2")
    assert any(line.startswith("# at once: GID or routing") for line in found.remedy)


def test_on_infiniband_the_path_is_one_of_lids() -> None:
    far = replace(INFINIBAND, lid=4)
    found = advice(completed(12, local=INFINIBAND, remote=far))
    assert found.remedy[0] == "sudo ibtracert -C mlx5_0 -P 1 3 4"
    assert not [line for line in found.remedy if line.startswith(("ip ", "ping "))]
    assert any("/ports/1/pkeys" in line for line in found.remedy)


def test_a_lid_that_no_subnet_manager_gave_is_not_traced() -> None:
    found = advice(completed(12, local=replace(INFINIBAND, lid=0), remote=INFINIBAND))
    assert found.remedy[0].startswith("sudo sminfo -C mlx5_0 -P 1")


def test_the_completion_says_which_end_it_was() -> None:
    found = advice(completed(12, completion=BadCompletion("remote", 12, 129, is_receive=False)))
    assert found.remedy[0] == "ip route get 192.0.2.1 from 192.0.2.2"


def test_a_local_protection_error_looks_at_acs_and_iommu() -> None:
    found = advice(completed(4, 81))
    assert "ACS" in found.causes[0]
    assert found.causes[-1].startswith("with mlx5, vendor error 81")
    assert any("iommu" in line for line in found.remedy)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_after_a_flush_the_first_failure_is_looked_for(platform: Platform) -> None:
    found = advice(completed(5, 249, platform=platform))
    assert "an earlier request failed" in found.causes[0]
    assert found.remedy[0].startswith("# look at what the peer printed")


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("status", [9, 10, 11, 13])
def test_what_is_the_peers_doing_is_looked_for_at_the_peer(status: int, platform: Platform) -> None:
    assert "the peer" in advice(completed(status, platform=platform)).remedy[0]


# --- other outcomes ----------------------------------------------------------------------


def test_no_data_on_uc_is_no_wonder() -> None:
    found = advice(ended(outcome=Outcome.NO_DATA, local=replace(ROCE, qp_type=QpType.UC)))
    assert found.causes[0].startswith("UC gives no error for a lost message")
    assert not [cause for cause in found.causes if "rnr_retry" in cause]


def test_no_data_on_rc_may_be_a_receiver_that_is_never_ready() -> None:
    assert "rnr_retry 7" in advice(ended(outcome=Outcome.NO_DATA)).causes[0]


def mismatching(**changes: Any) -> tuple[Problem, ...]:
    """What the two ends say of each other after `changes` to one of them."""
    far = replace(THERE, active_mtu=1024, **changes)
    return tuple(Problem(each.code, each.text) for each in mismatches(HERE, far))


@pytest.mark.parametrize(
    ("change", "first"),
    [
        ({"link_layer": LinkLayer.INFINIBAND}, "rdmadiag devices"),
        ({"state": PortState.DOWN}, "rdmadiag preflight"),
        ({"permitted": False}, "rdmadiag preflight"),
        ({"mtu": 4096}, "ibv_devinfo -d mlx5_0 -i 1"),
        ({"gid_type": GidType.ROCE_V1}, "rdmadiag gids --device mlx5_0:1"),
        ({"gid": Gid.parse("2001:db8::2")}, "rdmadiag gids --device mlx5_0:1"),
        ({"gid": Gid.parse("::ffff:169.254.1.1")}, "rdmadiag gids --device mlx5_0:1"),
        ({"qp_type": QpType.UC}, "# start both ends with the same"),
        ({"payload_bytes": 65}, "# start both ends with the same"),
        ({"iterations": 1}, "# start both ends with the same"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_every_mismatch_has_a_cause_and_something_to_do(change: dict[str, Any], first: str) -> None:
    problems = mismatching(**change)
    found = advice(ended(outcome=Outcome.MISMATCH, stage=Stage.AGREE, problems=problems))
    assert len(found.causes) == len(problems)
    assert found.remedy[0].startswith(first)


def test_a_mismatch_that_is_not_known_has_the_gid_tables_to_compare() -> None:
    problem = Problem("some_new_mismatch", "the ends differ")
    found = advice(ended(outcome=Outcome.MISMATCH, problems=(problem,)))
    assert found.causes == ()
    assert found.remedy[0] == "rdmadiag gids --device mlx5_0:1"


def test_a_peer_that_failed_at_rtr_has_the_same_path_to_look_at() -> None:
    failure = PeerFailure("rtr", "ibv_modify_qp failed with errno 110 on linux")
    found = advice(ended(outcome=Outcome.PEER_FAILED, peer_failure=failure))
    assert found.remedy[0].startswith("# look at what the peer printed")
    assert found.remedy[1] == "ip route get 192.0.2.2 from 192.0.2.1"


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_deadline_that_came_first_at_the_peer_is_no_failure_of_the_peer(
    platform: Platform,
) -> None:
    failure = PeerFailure("data", "its deadline came", Outcome.LATE, None, 53)
    attempt = ended(outcome=Outcome.PEER_FAILED, peer_failure=failure, platform=platform)
    assert advice(attempt) == advice(ended(outcome=Outcome.LATE, platform=platform))


def test_a_peer_that_failed_elsewhere_has_its_own_output() -> None:
    failure = PeerFailure("reg_mr", "ibv_reg_mr failed with errno 12 on linux")
    found = advice(ended(outcome=Outcome.PEER_FAILED, peer_failure=failure))
    assert len(found.remedy) == 1


def test_a_late_attempt_can_do_less_or_have_more_time() -> None:
    (line,) = advice(ended(outcome=Outcome.LATE)).remedy
    assert "--iterations" in line
    assert "--deadline" in line


def test_a_hang_on_linux_shows_where_the_kernel_holds_it() -> None:
    found = advice(ended(outcome=Outcome.WATCHDOG, stage=Stage.RTR, pid=4242))
    assert found.remedy[0].startswith("sudo cat /proc/4242/stack")
    assert found.remedy[-1].startswith("# process 4242 cannot be killed")


def test_a_hang_whose_process_is_gone_names_none() -> None:
    found = advice(ended(outcome=Outcome.WATCHDOG, stage=Stage.RTR))
    assert found.remedy[0].startswith("sudo dmesg")
    assert not [line for line in found.remedy if "process" in line]


def test_a_hang_on_thunderbolt_ends_in_a_replug_or_a_reboot() -> None:
    changes = {"outcome": Outcome.WATCHDOG, "stage": Stage.RTR, "pid": 4242}
    found = advice(ended(platform="darwin", teardown=Teardown.ABANDONED, **changes))
    assert "wedged" in found.causes[0]
    assert found.remedy[0].startswith("# start no other RDMA program")
    places = [
        next(at for at, line in enumerate(found.remedy) if word in line)
        for word in ("bridge0", "unplug", "shutdown -r now", "process 4242")
    ]
    assert places == sorted(places)


@pytest.mark.parametrize("stage", [Stage.REG_MR, Stage.DATA])
def test_a_crash_of_apples_provider_has_the_causes_of_its_stage(stage: Stage) -> None:
    expected = {Stage.REG_MR: "Thunderbolt 4", Stage.DATA: "link dropped"}[stage]
    assert expected in advice(ended(platform="darwin", outcome=Outcome.DIED, stage=stage)).causes[0]


@pytest.mark.parametrize(
    ("platform", "first"), [("linux", "rdma res show qp link mlx5_0"), ("darwin", "ioreg ")]
)
def test_what_could_not_be_destroyed_is_looked_for(platform: Platform, first: str) -> None:
    attempt = refused("teardown", 16, platform=platform, outcome=Outcome.TEARDOWN_FAILED)
    assert advice(attempt).remedy[0].startswith(first)
    assert "the data had arrived" in advice(attempt).causes[-1]


@pytest.mark.parametrize("teardown", [Teardown.FAILED, Teardown.ABANDONED])
def test_what_was_left_behind_is_the_last_line_of_another_failure(teardown: Teardown) -> None:
    found = advice(completed(12, teardown=teardown))
    assert found.remedy[0].startswith("ip route get")
    assert found.remedy[-1].startswith("rdma res show qp link mlx5_0")
    assert len(found.remedy) == REMEDY


def test_an_interruption_that_left_nothing_needs_nothing() -> None:
    found = advice(ended(outcome=Outcome.INTERRUPTED))
    assert found.causes
    assert found.remedy == ()


# --- names -------------------------------------------------------------------------------

ODD = "mlx5_0; rm -rf $HOME 'x' #\n`id`"


def test_a_name_with_odd_characters_is_one_word_of_the_shell_on_one_line() -> None:
    odd = ODD.replace("\n", "\\n")
    local, remote = replace(ROCE, device=ODD), replace(ROCE, gid=Gid.parse("::ffff:192.0.2.2"))
    expected = {
        refused(Stage.RTR, 61): ("rdmadiag", "gids", "--device", f"{odd}:1"),
        refused("alloc_pd", 12): ("rdma", "res", "show", odd),
        ended(outcome=Outcome.TEARDOWN_FAILED): ("rdma", "res", "show", "qp", "link", odd),
    }
    for attempt, words in expected.items():
        line = advice(replace(attempt, local=local, remote=remote)).remedy[0]
        assert tuple(shlex.split(line, comments=True)) == words


def test_no_name_stands_in_a_comment() -> None:
    """A line break in it would end the comment, and the rest would be run."""
    for attempt in every_attempt():
        if attempt.local is None:
            continue
        for line in advice(replace(attempt, local=replace(attempt.local, device="NAME"))).remedy:
            code = shlex.join(shlex.split(line, comments=True))
            assert line.count("NAME") <= code.count("NAME")


STEP_OF_THE_OTHER_END = Step("remote", Stage.OPEN, "ibv_open_device", 0.1, None)


def test_who_held_both_ends_is_not_sent_to_a_peer_nor_to_ping_itself() -> None:
    both = ended(
        outcome=Outcome.NO_DATA,
        stage=Stage.DATA,
        local=ROCE,
        remote=ROCE,
        steps=(STEP_OF_THE_OTHER_END,),
    )
    lines = " ".join(advice(both).remedy)
    assert "the peer printed" not in lines
    assert "ping" not in lines
    assert "the peer printed" in " ".join(advice(replace(both, steps=())).remedy)


@pytest.mark.parametrize("stage", [Stage.RTR, Stage.DATA])
def test_a_thunderbolt_port_that_does_not_reach_itself_is_thought_of(stage: Stage) -> None:
    alone = ended(
        outcome=Outcome.CALL_FAILED,
        platform="darwin",
        stage=stage,
        errno=22,
        local=THUNDERBOLT,
        remote=THUNDERBOLT,
        steps=(STEP_OF_THE_OTHER_END,),
    )
    assert "does not reach itself" in advice(alone).causes[0]
    other = replace(alone, remote=replace(THUNDERBOLT, device="rdma_en9"))
    assert "does not reach itself" not in " ".join(advice(other).causes)


# --- what the attempt itself excludes ----------------------------------------------------

_LOOP = (Step("remote", Stage.OPEN, "ibv_open_device", 0.1, None),)


@pytest.mark.parametrize(
    ("label", "changes", "neighbour"),
    [
        (
            "gid-index-0",
            {"stage": Stage.RTR, "errno": 60, "platform": "darwin"},
            {"local": replace(THUNDERBOLT, gid_index=0)},
        ),
        (
            "shared-subnet",
            {
                "stage": Stage.RTR,
                "errno": 60,
                "platform": "darwin",
                "steps": _LOOP,
                "remote": THUNDERBOLT,
            },
            {"remote": replace(THUNDERBOLT, device="rdma_en2")},
        ),
        (
            "rc-on-thunderbolt",
            {"stage": Stage.RTR, "errno": 102, "platform": "darwin"},
            {"local": replace(THUNDERBOLT, qp_type=QpType.RC)},
        ),
        (
            "no-ipv4-gid",
            {"stage": Stage.RTR, "errno": 22, "platform": "darwin"},
            {"local": replace(THUNDERBOLT, gid=Gid.parse("fe80::1"))},
        ),
        (
            "gid-row-empty",
            {"stage": Stage.RTR, "errno": 61},
            {"local": replace(ROCE, gid=Gid.parse("::"))},
        ),
        (
            "gid-row-removed",
            {"stage": Stage.RTR, "errno": 61, "local": replace(ROCE, gid=Gid.parse("::"))},
            {"local": ROCE},
        ),
        (
            "gid-not-an-address",
            {"stage": Stage.RTR, "errno": 22},
            {"local": replace(ROCE, gid=Gid.parse("fe80::1"))},
        ),
        (
            "gid-index-or-family",
            {"stage": Stage.RTR, "errno": 22},
            {"remote": replace(ROCE, gid=Gid.parse("2001:db8::2"))},
        ),
        (
            "iwarp-needs-rdma-cm",
            {"stage": Stage.RTS, "errno": 22},
            {"local": replace(ROCE, gid_type=None)},
        ),
        (
            "peer-is-this-host",
            {"stage": Stage.RTR, "errno": 19, "steps": _LOOP},
            {"steps": ()},
        ),
        (
            "port-down",
            {"stage": Stage.ALLOC_PD, "errno": 0, "platform": "darwin"},
            {"local": replace(THUNDERBOLT, state=PortState.DOWN)},
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_cause_that_the_attempts_own_facts_exclude_is_not_given(
    label: str, changes: dict[str, Any], neighbour: dict[str, Any]
) -> None:
    contexts = (f"errno {changes['errno']}", changes["stage"], changes.get("platform", "linux"))
    text = stated(label, *contexts).text
    assert text not in advice(refused(**changes)).causes
    assert text in advice(refused(**{**changes, **neighbour})).causes


@pytest.mark.parametrize("label", ["gid-does-not-route", "peer-gone"])
def test_a_completion_is_not_put_down_to_what_the_facts_exclude(label: str) -> None:
    text = stated(label, "wc 12").text
    loop = {"steps": _LOOP} if label == "peer-gone" else {}
    assert text not in advice(completed(12, **loop)).causes
    near = replace(ROCE, gid=Gid.parse("fe80::1"))
    assert text in advice(completed(12, local=near)).causes


def test_every_exclusion_is_held_by_a_test_above() -> None:
    excluded = {row.label for row in ROWS if row.excluded_by}
    mark = test_a_cause_that_the_attempts_own_facts_exclude_is_not_given.pytestmark[0]  # type: ignore[attr-defined]
    held = {row[0] for row in mark.args[1]} | {"gid-does-not-route", "peer-gone"}
    assert excluded == held
