"""python -m tests.redact.faults [FAULT…]: the proof of redaction over the records of faults/.

Of each host before a fault no name is left, and the verdict on what is left is the same. Exits 1
where that is not so. It takes minutes.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.redact import records
from tests.redact.test_nothing_left import require_nothing_left
from tests.redact.test_same_answer import require_the_same_verdict


def main(argv: list[str]) -> int:
    """Prints what is wrong, and how many records there are."""
    every = sorted(records.FAULTS.glob("*.tar.gz"))
    every = [each for each in every if not argv or each.name.split(".")[0] in argv]
    wrong = 0
    for archive in every:
        with TemporaryDirectory() as packed, TemporaryDirectory() as made:
            try:
                path = records.unpacked(archive, Path(packed))
                require_nothing_left(path)
                require_the_same_verdict(path, Path(made))
            except Exception as error:  # noqa: BLE001  # each is one of the answers
                wrong += 1
                sys.stderr.write(f"{archive.name}: {type(error).__name__}: {error}"[:2000] + "\n")
        records.host_of.cache_clear()
        records.recording_of.cache_clear()
    sys.stdout.write(f"{len(every)} records, {wrong} wrong\n")
    return int(bool(wrong) or not every)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
