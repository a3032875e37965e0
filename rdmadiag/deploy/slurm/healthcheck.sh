#!/bin/sh
# HealthCheckProgram of slurmd, which does not look at exit codes: this drains the node itself.
# slurm.conf:  HealthCheckProgram=/etc/slurm/rdmadiag-healthcheck   HealthCheckInterval=300
#              HealthCheckNodeState=IDLE
# slurmd kills it after 60 s.
#
# A node that somebody else has drained, or marked down, keeps its state and its reason.
export PATH="$PATH:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
# slurmd gives it no variables of its own: /etc/rdmadiag/slurm.env may set those below.
# shellcheck source=/dev/null
[ ! -r /etc/rdmadiag/slurm.env ] || . /etc/rdmadiag/slurm.env
expected=${RDMADIAG_EXPECTED:-/etc/rdmadiag/expected.toml}
resume=${RDMADIAG_RESUME:-no} # yes: a node that this script drained is resumed when it is well
tag="rdmadiag:"

say() {
    logger -t rdmadiag -p "daemon.$2" -- "$1" 2>/dev/null || :
}

command -v rdmadiag >/dev/null || exit 0
set -- --profile slurm --quiet --timeout 20
[ ! -r "$expected" ] || set -- "$@" --expect "$expected"
verdict=$(timeout -k 5 40 rdmadiag preflight "$@" 2>/dev/null)
code=$?
# A program that cannot start, or is killed, has no verdict to drain for, nor to resume for.
if [ -z "$verdict" ]; then
    say "no verdict: rdmadiag ended with $code" warning
    exit 0
fi

node=${SLURMD_NODENAME:-$(uname -n | cut -d. -f1)}
# "drained rdmadiag: CRITICAL ...", "idle none"; without an answer nothing is changed.
shown=$(timeout 10 sinfo --noheader --nodes="$node" --format='%T %E' | head -n 1)
state=${shown%% *}
reason=${shown#* }
[ -n "$state" ] || exit 0
case $reason in
    "$tag"*) ours=yes ;;
    *) ours=no ;;
esac

case $state in
    drain* | down* | fail* | maint* | reboot* | power*) out=yes ;;
    *) out=no ;;
esac
if [ "$code" -eq 1 ]; then
    say "$verdict" err
    if [ "$out" = yes ] && [ "$ours" = no ]; then
        say "$node is $state already, and its reason stays: $reason" notice
        exit 0
    fi
    # What was noted of a node in service is kept behind ours.
    case $reason in
        none | "$tag"*) before= ;;
        *) before=" (before: $reason)" ;;
    esac
    [ "$out$ours$reason" != "yesyes$tag $verdict" ] || exit 0
    exec timeout 10 scontrol update nodename="$node" state=drain reason="$tag $verdict$before"
fi
# Unknown is no health: "OK" and "WARN" alone give a node back.
case $resume$state$ours$verdict in
    yesdrain*yesOK* | yesdrain*yesWARN*)
        say "resuming $node: $verdict" notice
        exec timeout 10 scontrol update nodename="$node" state=resume
        ;;
esac
