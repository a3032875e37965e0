"""Why a lab could not run: one line for the person who asked, and the exit code."""

EX_USAGE = 64  # sysexits.h: the command line makes no sense
EX_UNAVAILABLE = 69  # sysexits.h: something that the lab needs is not there
EX_LATE = 124  # timeout(1): the deadline passed


class LabFailure(Exception):
    """The lab itself failed; a failing test is not one of these."""

    def __init__(self, message: str, exit_code: int = EX_UNAVAILABLE) -> None:
        super().__init__(message)
        self.exit_code = exit_code
