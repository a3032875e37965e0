"""A sample that was saved: read back, and refused where a difference would be false."""

import json
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from rdmadiag.facts import Identity, Missing
from rdmadiag.facts.counters import CounterFacts
from rdmadiag.host.given_file import WAIT, read_given, understood

MOST_BYTES: Final = 16 * 1024 * 1024  # of 64 adapters with --all some 5 MiB


class BaselineError(Exception):
    """A saved sample that cannot be used; the message is one line for the user."""


class Saved(BaseModel):
    """What `counters --json` prints, as far as it is needed again."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_version: str
    host: Identity
    generated_at: datetime
    sample: CounterFacts


def read_saved(path: str, deadline: float | None = None) -> Saved:
    """The sample in a file that `counters --json` printed; of several lines, the last.

    `deadline` is absolute on time.monotonic's clock, WAIT seconds from now by default.
    Raises BaselineError.
    """
    until = time.monotonic() + WAIT if deadline is None else deadline
    return understood(path, lambda: _read(path, until), BaselineError, until)


def _read(path: str, deadline: float) -> Saved:
    document = _document(path, deadline)
    version = document.get("schema_version")
    if "verdict" in document and "evidence" in document:
        raise BaselineError(
            f"{path}: a report of preflight, which reads no counters; save a sample with: "
            "rdmadiag counters --interval 0 --json > FILE"
        )
    if not isinstance(version, str) or version.partition(".")[0] != "1":
        raise BaselineError(f"{path}: schema version {version!r:.40} is not 1.x")
    try:
        saved = Saved.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        raise BaselineError(
            f"{path}: no sample of counters --json: {first['msg']} at {where}"
        ) from None
    for problem in _problems(saved.sample):
        raise BaselineError(f"{path}: no sample of counters --json: {problem}")
    return saved


def _problems(sample: CounterFacts) -> Iterator[str]:
    """What no host says: a difference with it would be false."""
    if not _is_time(sample.seconds):
        yield f"{sample.seconds} at sample.seconds is no time"
    keys = set()
    for number, each in enumerate(sample.sets):
        at = f"sample.sets.{number}"
        if each.key in keys:
            yield f"{at} is there twice"
        keys.add(each.key)
        if not _is_time(each.seconds):
            yield f"{each.seconds} at {at}.seconds is no time"
        for name, value in ({} if isinstance(each.values, Missing) else each.values).items():
            if not 0 <= value < 2**64:
                yield f"{at}.values.{name} is no count of 64 bits"
        if each.lifespan_ms is not None and not 0 <= each.lifespan_ms < 2**64:
            yield f"{at}.lifespan_ms is no time"


def _is_time(seconds: float | Missing) -> bool:
    return isinstance(seconds, Missing) or 0 <= seconds < _MOST_SECONDS


_MOST_SECONDS: Final = 1e10  # three hundred years


def _document(path: str, deadline: float) -> dict[str, Any]:
    try:
        content = read_given(path, MOST_BYTES, deadline)
    except OSError as error:
        raise BaselineError(f"{path}: {error.strerror}") from error
    if len(content) > MOST_BYTES:
        raise BaselineError(
            f"{path}: longer than {MOST_BYTES // 1024**2} MiB; of a watch, the last line is "
            "enough: tail -n 1"
        )
    lines = content.strip().splitlines()
    for text in (content, lines[-1] if lines else b""):  # one document, or one on each line
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict):
            return document
        break
    raise BaselineError(f"{path}: neither a JSON document nor lines of them")


def require_comparable(
    before: CounterFacts, host: Identity, after: CounterFacts, now: Identity
) -> None:
    """Raises BaselineError where the differences would be false.

    A boot's id is of one host alone: where it is the same, the host is too, whatever it is
    called (a container has a name of its own).
    """
    if isinstance(before.boot, Missing) or isinstance(after.boot, Missing):
        missing = before.boot if isinstance(before.boot, Missing) else after.boot
        raise BaselineError(f"whether both samples are of one boot is not known ({missing})")
    if before.boot != after.boot:
        if host.hostname != now.hostname:
            raise BaselineError(
                f"the samples are of two hosts, {host.hostname} and {now.hostname}: "
                "a difference would mean nothing"
            )
        raise BaselineError(
            f"{now.hostname} has been started since the first sample: its counters began anew"
        )
    if isinstance(before.seconds, Missing) or isinstance(after.seconds, Missing):
        return
    if after.seconds < before.seconds:
        raise BaselineError("the sample to compare with is the younger one; swap them")
