#!/bin/sh
# Prolog of slurmd: a node whose RDMA would fail a job is drained before the job starts.
# slurm.conf:  Prolog=/etc/slurm/prolog.d/50-rdmadiag   PrologFlags=Alloc
#
# With --profile slurm nothing but a critical verdict exits 1: no warning, no unanswered
# question and no mistake in a file that all nodes read drains a node. Nor does a program that
# cannot start, or is killed: without a verdict on stdout a code other than 0 is no answer.
export PATH="$PATH:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
expected=${RDMADIAG_EXPECTED:-/etc/rdmadiag/expected.toml}

command -v rdmadiag >/dev/null || {
    echo "rdmadiag is not installed here" >&2
    exit 0
}
set -- --profile slurm --quiet --timeout 20
[ ! -r "$expected" ] || set -- "$@" --expect "$expected"
# Jobs start with slurmd's limit on locked memory, where slurm.conf has
# PropagateResourceLimitsExcept=MEMLOCK; else with that of whoever submits.
slurmd=$(pgrep -o -x slurmd) && set -- "$@" --pid "$slurmd"
told=$(rdmadiag preflight "$@")
code=$?
[ -z "$told" ] || echo "$told" >&2
[ "$code" -ne 1 ] || [ -z "$told" ]
