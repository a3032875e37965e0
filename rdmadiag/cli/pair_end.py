"""One end of a pair of `fleet pairs`: the job its node reads from stdin, and what it then does."""

import os
import select
import signal
import socket
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from rdmadiag.cli import page
from rdmadiag.cli.addresses import host_and_port
from rdmadiag.cli.exits import Refused
from rdmadiag.cli.meeting import TCP_PORT, meeting
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.attempt import Outcome, Stage
from rdmadiag.facts.ib import DataOp
from rdmadiag.fleet.pair_job import LONGEST, Job, JobPair, parse_job
from rdmadiag.preflight.candidate import Wanted
from rdmadiag.preflight.safety import Reason
from rdmadiag.verbs.secret import parse
from rdmadiag.view.select import Selector

if TYPE_CHECKING:
    from rdmadiag.host import Host
    from rdmadiag.verbs.attempt import Result

LINE_SECONDS: Final = 30.0
"""For the line to come whole."""

_LOOKING_SHARE: Final = 0.5  # of the wait: at most this goes to a look at who uses the device
_AGAIN_SECONDS: Final = 0.25
_CHUNK: Final = 1 << 16


def read_line(handle: int, deadline: float) -> bytes:
    """The first line of a stream that stays open behind it; raises Refused.

    `deadline` is absolute on time.monotonic's clock.
    """
    found = bytearray()
    while b"\n" not in found:
        left = deadline - time.monotonic()
        if len(found) > LONGEST:
            raise Refused(f"--job: a line of more than {LONGEST} bytes on stdin")
        if left <= 0 or not select.select([handle], [], [], left)[0]:
            raise Refused("--job: no line came on stdin")
        more = os.read(handle, _CHUNK)
        if not more:
            raise Refused("--job: stdin ended before its line did (is it passed on?)")
        found += more
    return bytes(found[: found.index(b"\n")])


def read_job(handle: int, deadline: float) -> Job:
    """What is to be done in this round; raises Refused."""
    job = parse_job(read_line(handle, deadline))
    if isinstance(job, Missing):
        raise Refused(f"--job: the line on stdin is none of fleet pairs: {job.detail}")
    return job


def end_with(handle: int) -> None:
    """Nobody is left to read what comes of it once the stream ends: SIGTERM to this process."""

    def watch() -> None:
        with suppress(OSError):
            while os.read(handle, _CHUNK):
                pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def own_pair(job: Job, named: str) -> tuple[str, JobPair]:
    """This node's name in the job, and its pair; `named` as --job= named it, "" where it did not.

    Raises Refused.
    """
    if named:
        names = [named]
    else:
        own = socket.gethostname()
        names = [os.environ.get("SLURMD_NODENAME", ""), own, own.partition(".")[0]]
    for name in names:
        if pair := job.of(name):
            return name, pair
    raise Refused(f"--job: {' and '.join(filter(None, names))}: in no pair of this round")


def end_of_pair(job: Job, named: str, accepted: frozenset[Reason]) -> "Result":
    """The attempt of this end, once its partner is there; raises NoSuchDevice and Refused."""
    from rdmadiag.host.live import LiveHost
    from rdmadiag.verbs import attempt

    begun = time.monotonic()
    host = LiveHost()
    node, pair = own_pair(job, named)
    try:
        secret = parse(job.secret.encode())
        device = pair.device(node)
        chosen = () if device is None else (Selector.parse(device),)
    except ValueError as error:
        raise Refused(f"--job: {error}") from error
    listens = node == pair.receiver
    if why := _loopback(host, pair.address):
        return _unattempted(Outcome.NO_PEER, Stage.CONNECT, why, host)
    if not job.busy:
        looking = begun + job.wait * _LOOKING_SHARE
        if why := _in_use(host, {each.device for each in chosen}, looking):
            return _unattempted(Outcome.NOT_ALLOWED, Stage.GATE, why, host)
    if listens:
        where = meeting(None, pair.address, max(1.0, begun + job.wait - time.monotonic()))
    else:
        if why := _until_listened(pair.address, begun + job.wait):
            return _unattempted(Outcome.NO_PEER, Stage.CONNECT, why, host)
        where = meeting(pair.address, None, job.wait)
    wanted = Wanted(
        payload_bytes=job.payload,
        iterations=job.iterations,
        accepted=accepted,
        op=DataOp.WRITE if job.bandwidth else DataOp.SEND,
        bandwidth_seconds=job.bandwidth,
    )
    start = time.monotonic()
    return attempt.run(
        host, wanted, chosen, where, secret, start, job.deadline, lambda record: None
    )


def _unattempted(outcome: Outcome, stage: Stage, why: str, host: "Host") -> "Result":
    from rdmadiag.verbs.attempt import Result, unattempted

    return Result(unattempted(outcome, stage, why, host.identity.platform), (), ())


def _loopback(host: "Host", address: str) -> str | None:
    """Debian's /etc/hosts has 127.0.1.1 for a host's own name, where no peer gets to."""
    from rdmadiag.sources.hosts import addresses_of

    name, _ = host_and_port(address, TCP_PORT)
    with suppress(ValueError):
        ip_address(name)
        return None
    found = addresses_of(host, name)
    if isinstance(found, Missing) or not all(ip_address(each).is_loopback for each in found):
        return None
    return (
        f"{name} is {found[0]} in /etc/hosts here, where no other node gets to: "
        "fleet pairs --suffix or --addresses says which address is meant"
    )


def _in_use(host: "Host", devices: Collection[str], deadline: float) -> str | None:
    """Why a port is left alone: programs have queue pairs there, or that is not known.

    No `devices`: any. What the kernel itself has there is not counted. `deadline` is absolute.
    """
    from rdmadiag.sources.sampling import resources

    facts = resources(host, deadline)
    if isinstance(facts, Missing):
        if facts.why is Why.UNSUPPORTED:  # a Mac
            return None
        return f"whether it is in use is not known ({facts}): --busy tries it all the same"
    for each in facts.devices:
        if devices and each.name not in devices:
            continue
        if isinstance(each.queue_pairs, Missing):
            return (
                f"whether {each.name} is in use is not known ({each.queue_pairs}): "
                "--busy tries it all the same"
            )
        held = [one for one in each.queue_pairs if one.owner.kernel is None]
        if held:
            pids = sorted({one.owner.pid for one in held if one.owner.pid is not None})
            whose = f" of process {', '.join(map(str, pids[:4]))}" if pids else ""
            count = f"{len(held)} queue pair{'s' if len(held) > 1 else ''}"
            return f"{each.name} is in use, {count}{whose}: --busy tries it all the same"
    return None


def _until_listened(address: str, until: float) -> str | None:
    """Waits for the partner, as TCP alone; why it is not there by `until`.

    Only then do the seconds of the attempt begin: nodes of a round start at their own pace.
    """
    host, port = host_and_port(address, TCP_PORT)
    why = "it did not answer"
    while (left := until - time.monotonic()) > 0:
        try:
            socket.create_connection((host, port), timeout=left).close()
        except TimeoutError:
            continue
        except OSError as error:
            why = error.strerror or str(error)
            time.sleep(min(_AGAIN_SECONDS, max(0.0, until - time.monotonic())))
        else:
            return None
    return f"nobody listened at {address} in time: {why}"


job_option: Final = page.option(
    "--job",
    metavar="NODE",
    allow_from_autoenv=False,
    help="What fleet pairs starts: the end of NODE, as the line of JSON on stdin has it; "
    '"" for the name of this host.',
)
