"""Which form and which profile a command line asks for, where it could not be followed.

A program that reads JSON, and a monitor that knows four exit codes, want them of a failure
too; by then click may not have come as far as these options.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rdmadiag.cli.exits import PLAIN, PROFILES, Profile

_FORMS: Final = ("-o", "--format")
_TRUE: Final = ("1", "true", "t", "yes", "y", "on")  # as click.BOOL has it
_PROFILE: Final = ("--profile",)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a failure is shown as, and the codes it ends with."""

    form: str
    profile: Profile


def asked(
    argv: Sequence[str], environment: Mapping[str, str], defaults: Mapping[str, Any], command: str
) -> Asked:
    """The last of the command line, else of the variables, else of the configuration file."""
    prefix = f"RDMADIAG_{command.upper()}_"
    own = defaults.get(command, {})
    name = _last(argv, _PROFILE) or environment.get(f"{prefix}PROFILE") or own.get("profile") or ""
    profile = PROFILES.get(str(name), PLAIN)
    variable = environment.get(f"{prefix}JSON", "").lower()
    for as_json, form in (
        ("--json" in argv, _last(argv, _FORMS)),
        (variable in _TRUE, environment.get(f"{prefix}FORMAT")),
        (own.get("as_json"), own.get("format")),
    ):
        if as_json or form:
            return Asked("json" if as_json else str(form), profile)
    return Asked(profile.form, profile)


def _last(argv: Sequence[str], names: Sequence[str]) -> str | None:
    """The value of the last option of these names: `-o X`, `-oX`, `--format X`, `--format=X`."""
    found = None
    for number, word in enumerate(argv):
        for name in names:
            if word == name and number + 1 < len(argv):
                found = argv[number + 1]
            elif name.startswith("--") and word.startswith(f"{name}="):
                found = word[len(name) + 1 :]
            elif len(name) == 2 and word.startswith(name) and not word.startswith("--"):
                found = word[2:].removeprefix("=") or found
    return found
