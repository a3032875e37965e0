"""Whose a file is, and who else may read or change it: for files that decide what is done."""

import os
import stat

from rdmadiag.quoting import shell_word


def not_secret(path: str) -> str | None:
    """Why others know what is in a file that is to be a secret; None where none does.

    Its group may read it. A pipe, which a shell makes of `<(…)`, is its maker's. Raises OSError.
    """
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        return None
    mode = f"mode {stat.S_IMODE(found.st_mode):04o}"
    if found.st_uid not in (os.geteuid(), 0):
        return f"belongs to uid {found.st_uid}, who can read and change it"
    if found.st_mode & stat.S_IROTH:
        return f"every user of this host can read it ({mode}): chmod o= {shell_word(path)}"
    if found.st_mode & (stat.S_IWOTH | stat.S_IWGRP):
        return f"others can change it ({mode}): chmod go-w {shell_word(path)}"
    return None


def not_roots(path: str) -> str | None:
    """Why another user than root decides what is in this file; None where none does.

    As of sshd's authorized_keys (safe_path of OpenSSH's misc.c): the file, and all folders that
    it is in, as who changes one of them can put another file there. Raises OSError.
    """
    subject = os.path.realpath(path)
    found = os.stat(subject)
    while True:
        why = _not_roots(subject, found)
        if why is not None:
            return why
        folder = os.path.dirname(subject)
        if folder == subject:
            return None
        subject, found = folder, os.stat(folder)


def _not_roots(subject: str, found: os.stat_result) -> str | None:
    name = shell_word(subject)
    if found.st_uid != 0:
        return f"{name} belongs to uid {found.st_uid}"
    by_group = found.st_mode & stat.S_IWGRP and found.st_gid != 0
    by_all = found.st_mode & stat.S_IWOTH
    # In a folder such as /tmp a file stays its owner's, who is looked at by then.
    shared = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    if (by_all or by_group) and not shared:
        return f"{name} can be changed by others (mode {stat.S_IMODE(found.st_mode):04o})"
    return None
