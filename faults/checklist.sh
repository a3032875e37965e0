#!/bin/bash
# What a person with a list of the usual commands would check on a host, in this order; the first
# that is wrong is the answer. DEV is the device, PEER the other end's address.
say() { echo "cause: $1"; exit 0; }

ls /dev/infiniband/uverbs* >/dev/null 2>&1 || say container-without-device
rdma link show "$DEV/1" >/dev/null 2>&1 || say device-absent
devices=$(ibv_devices 2>&1) || say verbs-library-missing
grep -q "no userspace device-specific driver" <<<"$devices" && say provider-missing
grep -qw "$DEV" <<<"$devices" || say device-absent
info=$(ibv_devinfo -d "$DEV" 2>&1)
grep -q "Failed to open device" <<<"$info" && say uverbs-node-not-openable
grep -q "PORT_ACTIVE" <<<"$info" || say port-down
[ -r /dev/infiniband/rdma_cm ] || say rdma-cm-node-not-openable
limit=$(ulimit -l)
[ "$limit" = unlimited ] || [ "$limit" -ge 1024 ] || say memlock
[ "$(ulimit -n)" -ge 256 ] || say open-files-limit
gid=$(cat "/sys/class/infiniband/$DEV/ports/1/gids/1" 2>/dev/null)
case $DEV in siw*) ;; *)
    case $gid in *ffff:*) ;; *) say no-ipv4-gid ;; esac ;;
esac
ip route get "$PEER" >/dev/null 2>&1 || say no-route
busybox ping -c 1 -W 1 "$PEER" >/dev/null 2>&1 || say peer-unreachable
# RoCE takes the path MTU from the interface's: does a full frame get through?
read -r mtu </sys/class/net/eth0/mtu
busybox ping -c 1 -W 1 -s $((mtu - 28)) "$PEER" >/dev/null 2>&1 || say mtu-too-large
echo "cause: none"
