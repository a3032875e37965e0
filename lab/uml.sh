# Sourced by lab/guest.sh as process 1 of a User Mode Linux kernel, whose root is this machine's
# own files, read-only: an overlay in memory goes over them, and the out folder is mounted.

finish() {
    sync
    echo o >/proc/sysrq-trigger
    sleep 60
}
trap 'finish 1' EXIT # process 1 must not end

mount -t tmpfs -o mode=755 lab /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root
cd /mnt/root
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t debugfs debugfs sys/kernel/debug
mount -t devtmpfs devtmpfs dev
mkdir -p dev/pts dev/shm dev/char # libibverbs waits for udev in the last one
mount -t devpts -o ptmxmode=666 devpts dev/pts
mount -t tmpfs -o mode=1777 shm dev/shm
mount -t tmpfs -o mode=1777 tmp tmp
mount -t tmpfs -o mode=755 run run
pivot_root . mnt
cd /
umount --lazy /mnt

mkdir -p "$area/out" "$area/home"
mount -t hostfs -o "$LAB_OUT/" out "$area/out"
hostname "$LAB_NAME"
ip link set lo up

# modprobe takes what is built in for loaded.
modules=/lib/modules/$(uname -r)
mkdir -p "$modules"
printf 'kernel/drivers/%s.ko\n' infiniband/sw/{rxe/rdma_rxe,siw/siw} net/bonding/bonding \
    net/netdevsim/netdevsim >"$modules/modules.builtin"
printf 'kernel/net/ipv4/%s.ko\n' inet_diag tcp_diag >>"$modules/modules.builtin"
printf 'kernel/net/netfilter/%s.ko\n' nfnetlink nf_tables >>"$modules/modules.builtin"
touch "$modules/modules.order" "$modules/modules.builtin.modinfo"
depmod

# An ordinary user reaches the interpreter below a closed folder such as /root.
while read -r path; do
    while [ "$path" != / ]; do
        path=$(dirname "$path")
        chmod a+rx "$path"
    done
done <<<"$LAB_PLACES"
