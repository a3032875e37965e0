"""The status of a work completion in a line: enum ibv_wc_status, and the vendor's number."""

import re
from typing import Final

from rdmadiag.explain.completions import completion, statuses
from rdmadiag.explain.log.line.numbers import is_of_efa
from rdmadiag.late import late

_WC_NAMES: Final = {row.name: row.number for row in statuses() if row.number}
_WC_NAME: Final = late(
    r"\bIBV_WC_([A-Z_]+)\b|\b("
    + "|".join(name for name in _WC_NAMES if name not in ("GENERAL_ERR", "FATAL_ERR", "TM_ERR"))
    + r")\b"
)
_WC_TEXTS: Final = tuple(
    (late(pattern, re.IGNORECASE), number)
    for pattern, number in (
        (
            (
                r"rnr retry (?:counter )?exceeded|receiver not ready retry exceeded"
                r"|receive-no-ready retry count"
            ),
            13,
        ),
        (
            (
                r"transport retry count(?:er)? exceeded|(?<!ready )retry exceeded error"
                r"|(?:^|[:)\]] )retry count(?:er)? exceeded\W?$"
            ),
            12,
        ),
        (r"work request flush\w*|wr flush\w*|request flushed error|flushed because", 5),
        (r"local protection(?: error| on)?\b", 4),
        (r"local length(?: error| on)", 1),
        (r"local qp operation", 2),
        (r"remote (?:memory )?access (?:error|on)", 10),
        (r"(?:remote )?invalid request error|invalid request on", 9),
        (r"remote operation(?:al)? error|remote QP on", 11),
        (r"local access error", 8),
        (r"memory management operation error", 6),
        (r"response timeout error", 20),
        (r"bad response error", 7),
    )
)
_COMPLETION: Final = late(
    r"completion(?! (?:queue|channel|vector))|\bwc\b|\bwc[._]|\bcqe?\b|wr_?id|opcode|vendor[ _]"
    r"|poll_cq failed, |\bwr id|\bvend_err"
    r"|syndrom|work request",
    re.IGNORECASE,
)
_MAKING_A_QUEUE: Final = late(
    r"(?:creat|resiz|destroy|allocat)\w* .{0,24}(?:\bcq\b|completion queue)", re.IGNORECASE
)
_WC_NUMBER: Final = late(
    r"(?<!non-zero )\b(?:wc[._ ])?(?:failed )?(?:status|error|err)(?: code"
    r"| number)?[ =:(]*\(?(\d{1,2})\b(?![-.:]\d)",
    re.IGNORECASE,
)
_OF_LNET: Final = late(r"kiblnd_[rt]x_complete\(\)\)? [RT]x .{1,80} failed: (\d{1,2})\b")
_OF_TARGET: Final = late(
    r"\b(?:isert|ib_srpt|srpt|nvmet_rdma)\b.{0,40}(?:receiving|sending|recv|send|rdma \w+) failed"
    r".{0,60}\bstatus (\d{1,2})\b",
    re.IGNORECASE,
)
_IN_BRACKETS: Final = late(r"\((\d{1,2})\) for wr_id")
_MLX5_SYNDROME: Final = late(
    r"\bsynd(?:rome)? 0x([0-9a-f]{1,2})[ ,]+(?:vend\b|vendor)", re.IGNORECASE
)
OF_MLX5: Final = {
    0x01: 1,
    0x02: 2,
    0x04: 4,
    0x05: 5,
    0x06: 6,
    0x10: 7,
    0x11: 8,
    0x12: 9,
    0x13: 10,
    0x14: 11,
    0x15: 12,
    0x16: 13,
    0x22: 16,
}
"""MLX5_CQE_SYNDROME_*, include/linux/mlx5/cq.h → enum ibv_wc_status."""


def status_of(text: str) -> int | None:
    """By symbol, by mlx5 syndrome, by text or by number."""
    for named in _WC_NAME.finditer(text):
        number = _WC_NAMES.get(named[1] or named[2])
        if number:
            return number
    if found := _MLX5_SYNDROME.search(text):
        return OF_MLX5.get(int(found[1], 16))
    for pattern, number in _WC_TEXTS:
        if pattern.search(text):
            return number
    if found := _OF_LNET.search(text) or _OF_TARGET.search(text):
        return int(found[1])
    if not _COMPLETION.search(text) or _MAKING_A_QUEUE.search(text) or is_of_efa(text):
        return None
    for found in (_IN_BRACKETS.search(text), *_WC_NUMBER.finditer(text)):
        if found and int(found[1]) and completion(int(found[1])):
            return int(found[1])
    return None


_VENDOR_ERROR: Final = late(
    r"\b(?:vend(?:or)?(?:[ _-]?(?:err(?:or)?|synd(?:rome)?|code))?"
    r"|syndrom)(?:_synd)?[ =:(]*(0x[0-9a-f]+|\d+)\b",
    re.IGNORECASE,
)
_DIGITS: Final = 10


def vendor_error_of(text: str) -> int | None:
    """The number that vendors add to a status, of up to ten digits; 0 says nothing."""
    found = _VENDOR_ERROR.search(text)
    if not found or len(found[1]) > _DIGITS:
        return None
    digits = found[1].lower()
    return int(digits, 16 if digits.startswith("0x") else 10) or None  # not base 0: "05" is none
