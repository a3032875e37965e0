"""Facts of one host, out of its document."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import Missing, Why
from rdmadiag.fleet.fact_table import (
    MOST_ADAPTERS,
    MOST_LETTERS,
    MOST_PORTS,
    MOST_VARIABLES,
    NONE,
    VARIABLES,
    facts_of,
)
from tests.fleet_documents import changed, document

DENIED = {"why": "denied", "detail": "/sys/x: EACCES"}
DEVICE = "evidence.sysfs.devices.0."
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["why", "name", "devices", "ports", "pci", "address", "gids", "number"])
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


def test_facts_of_an_infiniband_host_by_the_values_in_its_files() -> None:
    facts = facts_of(document())
    for name, value in {
        "kernel": "6.1.0",
        "platform": "linux",
        "memlock.soft": "unlimited",
        "adapters": "2",
        "gpus": "0",
        "adapter[0].name": "mlx5_0",
        "adapter[0].firmware": "20.35.2000",
        "adapter[0].pci.address": "0000:3b:00.0",
        "adapter[0].pci.width": "16",
        "adapter[1].pci.address": "0000:af:00.0",
        "adapter[1].pci.numa_node": "1",
        "adapter[0].port[1].rate": "200 Gb/sec (4X HDR)",
        "adapter[0].port[1].pkeys": "0: 0xffff",
        "adapter[0].port[1].sm_lid": "1",
        "adapter[0].port[1].gid_table": "0: ib fe80000000000000",
        "adapter[0].port[1].netdev.mtu": NONE,
    }.items():
        assert facts[name] == value, name


def test_facts_of_a_roce_host_and_its_gpus() -> None:
    facts = facts_of(document("gpu-four-rails"))
    assert facts["gpus"] == "4"
    assert facts["gpu[3].numa_node"] == "1"
    assert facts["adapter[1].port[1].netdev.name"] == "rail0"
    assert facts["adapter[1].port[1].netdev.mtu"] == "9000"
    assert facts["adapter[1].port[1].gid_index"] == "3"
    assert facts["adapter[1].port[1].networks"] == "198.18.0.0/24"
    assert facts["adapter[1].port[1].gid_table"] == (
        "0: roce_v1 link-local, 1: roce_v2 link-local, 2: roce_v1 IPv4, 3: roce_v2 IPv4"
    )
    # 0000:08:00.0 is the first by its address; mlx5_4 by its name.
    assert facts["adapter[0].name"] == "mlx5_4"


def test_a_mac_has_its_own() -> None:
    facts = facts_of(document("mac-ready"))
    assert facts["macos.build"] == "25C56"
    assert facts["adapter[0].name"] == "rdma_en1"
    assert facts["adapter[0].port[1].link_layer"] == "thunderbolt"
    assert facts["adapter[0].firmware"] == Missing(Why.UNSUPPORTED, "Linux only")


def test_adapters_keep_their_numbers_under_other_names() -> None:
    renamed = document()
    evidence = renamed["evidence"]
    other = {"mlx5_0": "mlx5_1", "mlx5_1": "mlx5_0"}
    for source in ("sysfs", "nldev", "verbs"):
        for device in evidence[source]["devices"]:
            device["name"] = other[device["name"]]
    for row in (*evidence["topology"]["adapters"], *evidence["system"]["paths"]):
        row["device"] = other[row["device"]]
    before, after = facts_of(document()), facts_of(renamed)
    assert after["adapter[0].name"] == "mlx5_1"
    assert after["adapter[0].pci.address"] == before["adapter[0].pci.address"]
    assert after["adapter[0].node_guid"] == before["adapter[0].node_guid"]


@pytest.mark.parametrize(
    ("changes", "name", "value"),
    [
        ([(DEVICE + "hca_type", DENIED)], "hca_type", Missing(Why.DENIED, "/sys/x: EACCES")),
        ([(DEVICE + "hca_type", {"why": "absent", "detail": "ENOENT"})], "hca_type", NONE),
        ([(DEVICE + "firmware", DENIED)], "firmware", "20.35.2000"),
        (
            [
                (DEVICE + "firmware", {"why": "absent", "detail": ""}),
                ("evidence.nldev.devices.0.firmware", DENIED),
                ("evidence.verbs", DENIED),
            ],
            "firmware",
            Missing(Why.DENIED, "/sys/x: EACCES"),
        ),
        ([(DEVICE + "hca_type", {"why": "odd", "detail": 7})], "hca_type", Missing(Why.MALFORMED)),
        ([("evidence.system", DENIED)], "pci.slot_width", Missing(Why.DENIED, "/sys/x: EACCES")),
        (
            [("evidence.system", [])],
            "pci.slot_width",
            Missing(Why.MALFORMED, "of another shape"),
        ),
    ],
    ids=[
        "one that could not be read is a Missing",
        "one that there is not is known to be none",
        "another witness's is taken where the first could not look",
        "not known is more than absent elsewhere",
        "a reason that is none is no evidence either",
        "a whole source that could not be read",
        "a source of another shape",
    ],
)
def test_values_that_are_not_there(changes: list, name: str, value: object) -> None:
    assert facts_of(changed(document(), *changes))[f"adapter[0].{name}"] == value


NO_ROUTE = [("verdict.ports.0.route_gid_index", None), ("verdict.ports.0.route_gid", None)]
SYSFS_GIDS = DEVICE + "ports.0.gids"
VERBS_PORT = "evidence.verbs.devices.0.ports.0."


@pytest.mark.parametrize(
    ("changes", "value"),
    [
        ([], NONE),
        ([(SYSFS_GIDS, DENIED)], NONE),
        ([("evidence.verbs", DENIED)], NONE),
        ([(SYSFS_GIDS, DENIED), ("evidence.verbs", DENIED)], Missing(Why.DENIED, "/sys/x: EACCES")),
        (
            [(SYSFS_GIDS + ".unreadable", {"3": DENIED}), ("evidence.verbs", DENIED)],
            Missing(Why.MALFORMED, "rows of the GID table could not be read"),
        ),
        (
            [(SYSFS_GIDS, DENIED), (VERBS_PORT + "gids_unreadable", {"3": DENIED})],
            Missing(Why.DENIED, "/sys/x: EACCES"),
        ),
    ],
    ids=[
        "the whole table was read and nothing fits",
        "the library read it",
        "sysfs has it",
        "nobody read it",
        "a row of the only table could not be read",
        "the library alone answered, and not for all rows",
    ],
)
def test_no_gid_is_chosen_where_the_table_was_read(changes: list, value: object) -> None:
    facts = facts_of(changed(document("gpu-four-rails"), *NO_ROUTE, *changes))
    judged = document("gpu-four-rails")["verdict"]["ports"][0]["device"]
    at = next(name for name, text in facts.items() if name.endswith("].name") and text == judged)
    prefix = at.removesuffix("name") + "port[1]."
    assert (facts[prefix + "gid_index"], facts[prefix + "route_gid"]) == (value, value)


def test_a_field_that_an_older_version_did_not_write_is_not_read() -> None:
    older = document()
    del older["evidence"]["topology"]
    del older["evidence"]["system"]["limits"]
    facts = facts_of(older)
    assert facts["gpus"] == facts["open_files"] == Missing(Why.NOT_COLLECTED, "not in this report")


def test_modules_are_a_set_and_classes_by_priority_a_row() -> None:
    loaded = document()
    loaded["evidence"]["process"]["modules"].reverse()
    assert facts_of(loaded)["modules"] == facts_of(document())["modules"]
    ieee = {"ets": {"transmission": ["strict", "ets"]}}
    dcb = ("evidence.dcb.netdevs.0.ieee", ieee)
    name = "adapter[1].port[1].lossless.transmission"
    assert facts_of(changed(document("gpu-four-rails"), dcb))[name] == "strict, ets"


def test_variables_show_no_value_that_a_report_does_not_carry() -> None:
    names = {"NCCL_IB_HCA": "mlx5_0", "UCX_SECRET_TOKEN": "hunter2", "AWS_KEY": "hunter2"}
    facts = facts_of(changed(document(), ("evidence.process.environment", names)))
    assert facts["variable.NCCL_IB_HCA"] == "mlx5_0"
    assert facts["variable.UCX_SECRET_TOKEN"] == facts["variable.AWS_KEY"] == "(not recorded)"
    assert "hunter2" not in repr(dict(facts))
    unread = facts_of(changed(document(), ("evidence.process.environment", DENIED)))
    assert unread[VARIABLES] == Missing(Why.DENIED, "/sys/x: EACCES")


def test_a_variable_named_why_is_a_variable() -> None:
    facts = facts_of(changed(document(), ("evidence.process.environment", {"why": "not"})))
    assert VARIABLES not in facts


def test_long_values_are_cut_and_still_differ() -> None:
    one, other = (
        facts_of(changed(document(), ("host.kernel", "6" * 5000 + end)))["kernel"] for end in "ab"
    )
    assert one != other
    assert all(isinstance(each, str) and len(each) <= MOST_LETTERS for each in (one, other))


def test_there_is_an_end_to_adapters_ports_and_variables() -> None:
    much = document()
    port = much["evidence"]["sysfs"]["devices"][0]["ports"][0]
    much["evidence"]["sysfs"]["devices"] = [
        {"name": f"d{number}", "ports": [{**port, "number": each} for each in range(50)]}
        for number in range(1000)
    ]
    much["evidence"]["nldev"] = much["evidence"]["verbs"] = DENIED
    much["evidence"]["process"]["environment"] = {f"NCCL_{at}": "" for at in range(9999)}
    facts = facts_of(much)
    assert facts["adapters"] == "1000"
    assert sum(name.endswith("].name") for name in facts) == MOST_ADAPTERS
    assert sum(name.endswith("].rate") for name in facts) == MOST_PORTS
    assert sum(name.startswith("variable.") for name in facts) == MOST_VARIABLES


@given(JSON, st.sampled_from(["", "evidence", "evidence.sysfs", "evidence.sysfs.devices"]))
def test_any_json_gives_facts(value: object, place: str) -> None:
    whole = changed(document(), (place, value)) if place else {"evidence": value, "host": value}
    facts = facts_of(whole)
    assert facts["adapters"]
    for name, each in facts.items():
        assert isinstance(name, str)
        assert isinstance(each, Missing) or len(each) <= MOST_LETTERS


def test_hosts_of_one_shape_share_their_names_and_equal_values() -> None:
    one, other = facts_of(document()), facts_of(document())
    assert one == other
    assert one.names is other.names
    assert all(a is b for a, b in zip(one.texts, other.texts, strict=True))
