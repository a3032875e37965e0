#!/bin/bash
# Runs as root in a guest: put what python needs into memory, then run "$@" in the checkout.
# From the job script: LAB_OUT, LAB_CHECKOUT, LAB_VENV, and one path a line in LAB_TARS, LAB_MOUNTS.
# Writes LAB_OUT/started at once, and LAB_OUT/exitcode when "$@" has ended: without the first the
# guest did not boot, without the second it died or was killed.
set -eu
touch "$LAB_OUT/started"

area=/run/lab # /tmp is an overlay on 9p, /dev/shm is noexec
mkdir -p "$area"
mount -t tmpfs -o mode=755,size=75% lab "$area"
mkdir "$area/files" "$area/out" "$area/home" "$area/open"
mount --bind "$LAB_OUT" "$area/out" # what follows may hide its own path

while read -r tar; do
    tar -C "$area/files" --no-same-owner -xf "$tar"
done <<<"$LAB_TARS"

# Let an ordinary user reach the interpreter below a closed folder such as /root. The 9p root is
# read-only, so the folder's mode is changed on an overlay that only this guest sees.
open_parents() {
    local parent=$1
    local -a closed=()
    while [ "$parent" != / ]; do
        parent=$(dirname "$parent")
        case $(stat -c %A "$parent") in *x | *t) ;; *) closed=("$parent" "${closed[@]}") ;; esac
    done
    for parent in "${closed[@]}"; do
        local over
        over=$(mktemp -d -p "$area/open")
        mkdir "$over/upper" "$over/work"
        mount -t overlay -o "lowerdir=$parent,upperdir=$over/upper,workdir=$over/work" overlay "$parent"
        chmod a+rx "$parent"
    done
}
while read -r path; do
    open_parents "$path"
    [ -e "$path" ] || mkdir -p "$path"
    mount --bind "$area/files$path" "$path"
done <<<"$LAB_MOUNTS"

export HOME=$area/home LANG=C.UTF-8 RDMADIAG_LAB_OUT=$area/out PYTHONUNBUFFERED=1
export PATH=$LAB_VENV/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
cd "$LAB_CHECKOUT"
unset LAB_TARS LAB_MOUNTS LAB_CHECKOUT LAB_VENV LAB_OUT

set +e
"$@"
code=$?
echo "$code" >"$RDMADIAG_LAB_OUT/exitcode"
exit "$code"
