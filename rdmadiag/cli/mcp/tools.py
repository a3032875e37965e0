"""The tools by name, and what bounds each of them."""

from typing import Final

TOOLS: Final = {
    "preflight": "Verdict on this host or on a record: what will fail with RDMA, why, and the fix.",
    "gids": "GID tables, the GID index to use on each port, and what each stack would pick.",
    "explain": "What an errno, status, state, variable, rule or cause means; what failed in a log.",
    "diff": "What changed between two records, or from a record to this host now.",
    "records": "Names of the records and logs that the other tools take.",
}
"""Each tool and what it is for."""

SECONDS: Final = 25.0
"""For one call, the wait for its turn included."""

COLLECTING: Final = 20.0
"""Seconds of those for the sources of a host, or for one record."""

AT_ONCE: Final = 2
"""Calls that are worked on side by side; the others wait."""

ANSWER_BYTES: Final = 65536
"""Of one answer; of a longer one the longest lists are shortened, and named."""

NAMES: Final = 500
"""Records that are listed."""

LOG: Final = 16_000
"""Characters of a log that is given as text; a longer one is a file of the folder."""

WORDS: Final = 200
"""Characters of what is to be explained, of a device or of a stack."""
