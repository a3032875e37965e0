"""A cause: one sentence, and the label by which programs know it.

>>> cause = Cause("memlock", "the limit on locked memory (ulimit -l) is too low")
>>> cause.label, cause.startswith("the limit")
('memlock', True)
"""

from typing import Self


class Cause(str):
    """The sentence is the string. A label stays when its sentence is worded anew."""

    label: str

    def __new__(cls, label: str, sentence: str) -> Self:
        cause = super().__new__(cls, sentence)
        cause.label = label
        return cause
