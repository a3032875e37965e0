#!/bin/sh
# Prolog of slurmd: a node whose RDMA would fail a job is drained before the job starts.
# slurm.conf:  Prolog=/etc/slurm/prolog.d/50-rdmadiag   PrologFlags=Alloc
#
# With --profile slurm nothing but a critical verdict exits 1: no warning, no unanswered
# question and no mistake in a file that all nodes read drains a node. Nor does a program that
# cannot start, or is killed: without a verdict on stdout a code other than 0 is no answer.
# The verdict is in the node's syslog, with the tag rdmadiag: of a Prolog that exits 0 slurmd
# shows nothing.
export PATH="$PATH:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
# slurmd gives it no variables of its own: /etc/rdmadiag/slurm.env may set those below.
# shellcheck source=/dev/null
[ ! -r /etc/rdmadiag/slurm.env ] || . /etc/rdmadiag/slurm.env
expected=${RDMADIAG_EXPECTED:-/etc/rdmadiag/expected.toml}

say() {
    echo "$1" >&2
    logger -t rdmadiag -p "daemon.$2" -- "${SLURM_JOB_ID:+job $SLURM_JOB_ID: }$1" 2>/dev/null || :
}

command -v rdmadiag >/dev/null || {
    say "rdmadiag is not installed here" notice
    exit 0
}
set -- --profile slurm --quiet --timeout 20
[ ! -r "$expected" ] || set -- "$@" --expect "$expected"
# Jobs start with slurmd's limit on locked memory, where slurm.conf has
# PropagateResourceLimitsExcept=MEMLOCK; else with that of whoever submits.
slurmd=$(pgrep -o -x slurmd) && set -- "$@" --pid "$slurmd"
verdict=$(timeout -k 5 40 rdmadiag preflight "$@")
code=$?
if [ -z "$verdict" ]; then
    say "no verdict: rdmadiag ended with $code" warning
    exit 0
fi
case $verdict in
    OK*) say "$verdict" info ;;
    CRITICAL*) say "$verdict" err ;;
    *) say "$verdict" warning ;;
esac
[ "$code" -ne 1 ]
