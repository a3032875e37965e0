#!/bin/sh
# HealthCheckProgram of slurmd, which does not look at exit codes: this drains the node itself.
# slurm.conf:  HealthCheckProgram=/etc/slurm/rdmadiag-healthcheck   HealthCheckInterval=300
#              HealthCheckNodeState=IDLE
# slurmd kills it after 60 s.
export PATH="$PATH:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
expected=${RDMADIAG_EXPECTED:-/etc/rdmadiag/expected.toml}

command -v rdmadiag >/dev/null || exit 0
set -- --profile slurm --quiet --timeout 20
[ ! -r "$expected" ] || set -- "$@" --expect "$expected"
told=$(rdmadiag preflight "$@")
# A program that cannot start, or is killed, has no verdict to drain for.
[ "$?" -eq 1 ] && [ -n "$told" ] || exit 0
exec scontrol update nodename="${SLURMD_NODENAME:-$(uname -n | cut -d. -f1)}" \
    state=drain reason="rdmadiag: $told"
