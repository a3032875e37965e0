#!/bin/bash
# Runs as root in a guest: prepares it (lab/uml.sh, lab/qemu.sh), then runs "$@" in the checkout.
# From the job script: LAB_MACHINE, LAB_NAME, LAB_OUT, LAB_CHECKOUT, LAB_VENV, one path a line in
# LAB_PLACES (what python needs), and what the machine's own script asks for.
# Writes to the out folder `started`, and `exitcode` when "$@" has ended: without the first the
# guest did not boot, without the second it died or was killed.
set -eu
area=/run/lab # a tmpfs; $area/out is the out folder
export PATH=$LAB_VENV/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
. "$LAB_CHECKOUT/lab/$LAB_MACHINE.sh"
touch "$area/out/started"

export HOME=$area/home LANG=C.UTF-8 RDMADIAG_LAB_OUT=$area/out PYTHONUNBUFFERED=1
export RDMADIAG_LAB_MACHINE=$LAB_MACHINE
cd "$LAB_CHECKOUT"
# Duplicate address detection keeps a link-local address, and its GID, for one to two seconds.
echo 1 >/proc/sys/net/core/devconf_inherit_init_net # in namespaces too
echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad
unset LAB_TARS LAB_PLACES LAB_CHECKOUT LAB_VENV LAB_OUT LAB_NAME LAB_MACHINE

set +e
"$@"
code=$?
echo "$code" >"$RDMADIAG_LAB_OUT/exitcode"
finish "$code"
