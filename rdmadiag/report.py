"""The report: who was looked at, when, and the evidence. It judges nothing.

`rdmadiag.collect()` makes one; `rdmadiag preflight --json` prints one with the verdict on it.
Both are read back by the same class and judged again, elsewhere and by a newer version:

    >>> import rdmadiag
    >>> report = rdmadiag.collect(sample="roce-healthy")
    >>> again = Report.model_validate_json(report.model_dump_json())
    >>> again == report, rdmadiag.judge(again).status
    (True, <Status.OK: 'ok'>)
"""

import time
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationError,
    WithJsonSchema,
)

from rdmadiag import SCHEMA_VERSION, __version__
from rdmadiag.facts import Identity
from rdmadiag.facts.evidence import Evidence
from rdmadiag.frozen import dataclass
from rdmadiag.host.given_file import WAIT, read_given, understood

MOST_BYTES: Final = 64 * 1024 * 1024  # of 64 adapters with full tables some 30 MiB


class ReportError(Exception):
    """A saved report that cannot be used; the message is one line for the user."""


@dataclass(frozen=True, slots=True)
class Tool:
    """What printed the document."""

    name: Literal["rdmadiag"]
    version: str


def _whole_seconds(when: datetime) -> datetime:
    """In UTC, which it is in where it names no zone."""
    try:
        whole = when.replace(microsecond=0, tzinfo=when.tzinfo or UTC)
        return whole.astimezone(UTC)
    except OverflowError as error:  # of the year 1 or 9999, in another zone
        raise ValueError("no time in UTC") from error


When = Annotated[
    datetime,
    AfterValidator(_whole_seconds),
    WithJsonSchema(
        {
            "description": "UTC",
            "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$",
            "title": "Generated At",
            "type": "string",
        }
    ),
]


class Document(BaseModel):
    """What every document begins with. Readers pass over fields that they do not know.

    Facts stand in it as they are and are dumped by what they are (SerializeAsAny), so that
    printing one needs no validator: those are made when the first document is read back.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    schema_version: str = Field(pattern=r"^1\.[0-9]+$")
    tool: Tool
    generated_at: When

    @classmethod
    def of(cls, when: datetime | None = None, **parts: Any) -> Self:
        """The document of these parts, which are taken as they are; `when` is now by default."""
        return cls.model_construct(  # type: ignore[return-value]  # pydantic's plugin: not Self
            schema_version=SCHEMA_VERSION,
            tool=Tool("rdmadiag", __version__),
            generated_at=_whole_seconds(when or datetime.now(UTC)),
            **parts,
        )


class HostDocument(Document):
    """A document of one host."""

    host: SerializeAsAny[Identity]


class Report(HostDocument):
    """Facts grouped by source."""

    evidence: SerializeAsAny[Evidence]


def read_report(path: str, deadline: float | None = None) -> Report:
    """The report in a file that `preflight --json` printed; raises ReportError.

    `deadline` is absolute on time.monotonic's clock, WAIT seconds from now by default.
    """
    until = time.monotonic() + WAIT if deadline is None else deadline
    return understood(path, lambda: _read(path, until), ReportError, until)


def _read(path: str, deadline: float) -> Report:
    try:
        content = read_given(path, MOST_BYTES, deadline)
        if len(content) > MOST_BYTES:
            raise ReportError(f"{path}: longer than {MOST_BYTES // 1024**2} MiB")
        return Report.model_validate_json(content)
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        if first["loc"] == ("schema_version",) and isinstance(first["input"], str):
            version = first["input"][:40].encode("unicode_escape").decode()
            raise ReportError(f"{path}: schema version {version} is not 1.x") from error
        where = ".".join(str(step) for step in first["loc"])
        place = f" at {where}" if where else ""
        raise ReportError(
            f"{path}: not a report of preflight --json: {first['msg']}{place}"
        ) from error
