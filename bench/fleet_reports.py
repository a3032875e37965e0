"""Reports of ten thousand hosts, made of recorded ones by planted changes."""

import json
import random
from collections.abc import Iterator
from typing import Any, Final

import rdmadiag
from rdmadiag.facts import Identity
from rdmadiag.facts.attempt import Attempt, EndFacts, Latency, Outcome, Stage, Teardown
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import GidType, LinkLayer, PortState, QpState, QpType
from rdmadiag.fleet.rounds import plan
from rdmadiag.render.json import document
from rdmadiag.render.judged import PreflightDocument
from rdmadiag.render.pingpong import document as pingpong
from rdmadiag.verbs.attempt import Result

BYTES: Final = 25_000
"""Of a report, at least."""

_SAMPLES: Final = ("roce-healthy", "gpu-four-rails", "infiniband-two-hca")
_SHARES: Final = (70, 10, 20)
_BAD: Final = "infiniband-no-subnet-manager"


def reports(number: int, seed: int = 19) -> Iterator[bytes]:
    """Documents on one line each: node00000 and on. Of a hundred hosts, one is critical, two have
    another kernel, two another firmware; each has its own name, addresses, GUIDs and times."""
    chosen = random.Random(seed)  # noqa: S311
    made = {name: _document(name) for name in (*_SAMPLES, _BAD)}
    for at in range(number):
        name = chosen.choices(_SAMPLES, _SHARES)[0]
        name = _BAD if chosen.random() < 0.01 else name
        text = made[name]
        text = text.replace('"@HOST@"', f'"node{at:05d}"')
        text = text.replace("@WHEN@", f"2026-11-{1 + at % 28:02d}T06:{at % 60:02d}:00Z")
        text = text.replace("198.18.0.", f"198.18.{at % 250}.")
        if chosen.random() < 0.02:
            text = text.replace('"kernel":"', '"kernel":"9.')
        if chosen.random() < 0.02:
            text = text.replace('"firmware":"', '"firmware":"9.')
        yield text.encode()


def outcomes(number: int, rounds: int, seed: int = 19) -> Iterator[bytes]:
    """What both ends of each pair print, a line each: round by round, all of them verified."""
    chosen = random.Random(seed)  # noqa: S311
    text = _outcome()
    nodes = [f"node{at:05d}" for at in range(number)]
    places = {node: at for at, node in enumerate(nodes)}
    for each in plan(nodes, seed, rounds=rounds):
        when = f"2026-11-{each.number:02d}T06:00:00Z"
        for pair in each.pairs:
            for mine, other, role in ((*pair, "connect"), (*reversed(pair), "listen")):
                made = text.replace("@HOST@", mine).replace("@ROLE@", role).replace("@WHEN@", when)
                for word, node in (("198.18.255.1", mine), ("198.18.255.2", other)):
                    high, low = divmod(places[node], 250)
                    made = made.replace(f'{word}"', f'198.18.{high}.{low}"')
                time = chosen.lognormvariate(0.7, 0.05)
                yield made.replace('"median":2.0', f'"median":{time:.3f}').encode()


def _outcome() -> str:
    here, there = (
        EndFacts(
            device="mlx5_0",
            port=1,
            link_layer=LinkLayer.ETHERNET,
            state=PortState.ACTIVE,
            gid_index=3,
            gid=Gid.parse(f"::ffff:198.18.255.{number}"),
            gid_type=GidType.ROCE_V2,
            lid=0,
            qp_type=QpType.RC,
            mtu=1024,
            queue_pair=17,
            psn=1,
            qp_state=QpState.RTS,
        )
        for number in (1, 2)
    )
    attempt = Attempt(
        outcome=Outcome.VERIFIED,
        stage=Stage.DONE,
        platform="linux",
        summary="both payloads arrived as they were sent",
        call=None,
        errno=None,
        completion=None,
        local=here,
        remote=there,
        peer_failure=None,
        problems=(),
        data_verified=True,
        latency=Latency(1.5, 2.0, 3, 4.5, 100, 64, "compiled", 0.2, histogram=((2, 90), (5, 10))),
        teardown=Teardown.CLEAN,
        steps=(),
        touched=True,
        role="connect",
    )
    host = Identity("@HOST@", "linux", "6.1.0", "x86_64")
    made = json.loads(document({"host": host} | pingpong(Result(attempt, (), ()))))
    made |= {"role": "@ROLE@", "generated_at": "@WHEN@"}
    return json.dumps(made, separators=(",", ":"))


def _document(sample: str) -> str:
    """At least of BYTES: one that is shorter carries what readers pass over."""
    report = rdmadiag.collect(sample=sample)
    verdict = rdmadiag.judge(report)
    whole = PreflightDocument.of(host=report.host, evidence=report.evidence, verdict=verdict)
    made: dict[str, Any] = json.loads(whole.model_dump_json())
    made["host"]["hostname"] = "@HOST@"
    made["generated_at"] = "@WHEN@"
    short = BYTES - len(json.dumps(made, separators=(",", ":")))
    if short > 0:
        made["padding"] = [
            f"as long as a host of eight ports has it {n}" for n in range(short // 44 + 1)
        ]
    return json.dumps(made, separators=(",", ":"))
