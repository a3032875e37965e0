"""Causes in the machine around the adapter: memory, rights, interrupts, the IOMMU, GPUs."""

from typing import Final

from rdmadiag.explain.causes.cause import Cause
from rdmadiag.explain.remedies import NODES

ROWS: Final = (
    # --- memory --------------------------------------------------------------------------
    Cause(
        "shm-too-small",
        "shared memory (/dev/shm) is full, too small, or not shared between containers",
        linux=(
            "df -h /dev/shm; ls -la /dev/shm | head",
            "docker run --shm-size=8g --ipc=host IMAGE",
        ),
    ),
    Cause(
        "process-memory-refused",
        "perhaps one process may not open the memory of another: separate containers or users, or "
        "kernel.yama.ptrace_scope",
        linux=(
            "sysctl kernel.yama.ptrace_scope",
            "docker run --ipc=host --pid=host --cap-add=SYS_PTRACE IMAGE",
        ),
    ),
    Cause(
        "hugepages-missing",
        "no huge pages, or too few, are set up for the program, or hugetlbfs is not mounted",
        linux=(
            "grep -i huge /proc/meminfo",
            "sudo sysctl -w vm.nr_hugepages=1024",
            "mount | grep hugetlbfs || sudo mount -t hugetlbfs none /dev/hugepages",
        ),
    ),
    Cause(
        "killed-for-memory",
        "it was killed, mostly for the memory that it used: the limit of the job or the container, "
        "or the host's, was reached",
        linux=(
            "sudo dmesg -T | grep -iE 'oom|killed process' | tail",
            "sacct -j JOB --format=JobID,State,MaxRSS,ReqMem   # of Slurm",
            "kubectl describe pod POD | grep -iE 'oomkilled|limits|memory'   # of Kubernetes",
            "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.events   # in the container",
        ),
        darwin=("vm_stat; sysctl vm.swapusage", "log show --last 10m | grep -i jetsam"),
    ),
    Cause(
        "host-memory-failed",
        "memory of the host, or its processor, failed beyond what it corrects: it wants a repair",
        linux=(
            "sudo dmesg -T | grep -iE 'edac|mce:|hardware error|memory failure' | tail",
            "sudo ipmitool sel elist | grep -iE 'memory|dimm|ecc|cpu' | tail   # which module",
            "# take the node out of the batch system until the module is changed",
        ),
    ),
    Cause(
        "disk-failed",
        "a disk of this host, or what it is attached to, does not answer or reports errors",
        linux=(
            "sudo dmesg -T | grep -iE 'nvme|ata[0-9]|sd[a-z]|I/O error' | tail -30",
            "sudo smartctl -a /dev/nvme0; sudo nvme list   # of the disk that is named",
            "# take the node out of the batch system until the disk is changed",
        ),
    ),
    Cause(
        "process-limit",
        "the limit on processes and threads is reached: ulimit -u, or pids of the container or job",
        linux=(
            "ulimit -u; ps -u $(id -u) -L | wc -l   # limit, and the threads that there are",
            "cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids.events   # in the container",
            "export OMP_NUM_THREADS=8   # fewer threads of each process",
        ),
        darwin=("launchctl limit maxproc; sysctl kern.maxproc kern.maxprocperuid",),
    ),
    Cause(
        "disk-full",
        "a file system has no room left, or the quota of the user is reached",
        linux=(
            "df -h . /tmp; df -i . /tmp   # room, and inodes",
            "quota -s; lfs quota -h -u $USER /lustre   # of the user",
        ),
        darwin=("df -h",),
    ),
    # --- rights --------------------------------------------------------------------------
    Cause(
        "needs-root",
        "the command needs root, or a capability such as CAP_NET_ADMIN",
        linux=("sudo COMMAND", NODES),
        darwin=("sudo COMMAND",),
    ),
    Cause(
        "raw-packet-privilege",
        "the process lacks CAP_NET_RAW, which raw packets, flow rules and DevX need",
        linux=(
            "sudo setcap cap_net_raw+ep PROGRAM",
            "docker run --cap-add=NET_RAW --device=/dev/infiniband IMAGE",
        ),
    ),
    Cause(
        "credentials-changed",
        "the process changed its user or group after it had opened the device",
        linux=(NODES, "# open the device after the change, or give the user the nodes"),
    ),
    # --- interrupts and DMA --------------------------------------------------------------
    Cause(
        "interrupts-lost",
        "perhaps interrupts of the device are lost or come late",
        linux=(
            "grep -E 'mlx|bnxt|ice|efa' /proc/interrupts   # twice: do the counts grow?",
            "sudo dmesg | grep -iE 'nobody cared|soft lockup|Recovered .*eqe'",
        ),
    ),
    Cause(
        "too-few-vectors",
        "the device got too few interrupt vectors (MSI-X), or all of them are in use",
        linux=(
            "lspci -vv | grep MSI-X",
            "sudo ethtool -L {netdev} combined 8   # leave some to RDMA",
        ),
    ),
    Cause(
        "iommu-fault",
        "the IOMMU refused a DMA of the device",
        linux=(
            "sudo dmesg | grep -E 'DMAR:|AMD-Vi:|arm-smmu'",
            "cat /proc/cmdline   # try iommu=pt on the kernel's command line",
        ),
    ),
    Cause(
        "secure-boot",
        "Secure Boot is on, and the module is not signed with a key that is enrolled",
        linux=("mokutil --sb-state", "modinfo -F signer mlx5_core nvidia_peermem"),
    ),
    Cause(
        "module-in-use",
        "another module or a running program still uses the kernel module",
        linux=(
            "lsmod | grep -E 'ib_core|mlx5_core|rdma_cm'   # the right column names the users",
            "sudo fuser -v /dev/infiniband/*",
        ),
    ),
    # --- GPUs ----------------------------------------------------------------------------
    Cause(
        "gpu-not-usable",
        "the GPU cannot be used by this process: its driver, library or context failed",
        linux=("nvidia-smi; sudo dmesg | grep -i xid", "ldconfig -p | grep -E 'libcuda|libamdhip'"),
    ),
    Cause(
        "gpu-memory-full",
        "the memory of the GPU is used up: by this program, or by another one on the same GPU",
        linux=(
            "nvidia-smi   # whose memory is it? of AMD: rocm-smi --showpids",
            "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv",
            "# then a smaller batch, or end what an earlier job left there",
        ),
        darwin=(
            "sysctl iogpu.wired_limit_mb hw.memsize; vm_stat   # MB for GPUs; 0: default",
            "sudo sysctl iogpu.wired_limit_mb=MB   # till the next boot; leave macOS some",
        ),
    ),
    Cause(
        "gpu-fault",
        "the GPU itself, its memory or its link has failed: it needs a reset, or its host a repair",
        linux=(
            "sudo dmesg -T | grep -iE 'xid|nvrm|amdgpu' | tail",
            "nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT",
            "sudo nvidia-smi --gpu-reset -i INDEX   # when no program uses it; else drain the host",
        ),
    ),
    Cause(
        "fabric-manager-down",
        "the fabric manager of the NVSwitches does not run, or is of another release than the "
        "driver: no program can use a GPU until it does",
        linux=(
            "systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A3 -i fabric",
            "nv-fabricmanager --version; cat /proc/driver/nvidia/version   # one release?",
            "sudo systemctl restart nvidia-fabricmanager",
        ),
    ),
    Cause(
        "gdrdrv-missing",
        "gdrcopy is not usable: its library or its module gdrdrv is missing, too old, or not given "
        "to the container",
        linux=(
            "lsmod | grep gdrdrv || sudo modprobe gdrdrv; ls -l /dev/gdrdrv",
            "ldconfig -p | grep gdrapi",
            "docker run --device=/dev/gdrdrv IMAGE",
        ),
    ),
    Cause(
        "gpu-bar-exhausted",
        "the BAR1 of the GPU has no room for more memory that is mapped for a NIC or gdrcopy",
        linux=("nvidia-smi -q -d MEMORY | grep -A3 BAR1",),
    ),
    Cause(
        "imex-not-ready",
        "the NVLink domain over several hosts is not ready: the IMEX service does not run, or the "
        "container has no channel of it",
        linux=(
            "nvidia-imex-ctl -N; systemctl status nvidia-imex",
            "ls -l /dev/nvidia-caps-imex-channels/",
            "export NCCL_MNNVL_ENABLE=0   # by the NICs instead",
        ),
    ),
    Cause(
        "accelerator-port-not-configured",
        "the accelerator's own network port has no address, gateway or link",
        linux=(
            "hccn_tool -i 0 -ip -g; hccn_tool -i 0 -link -g   # Ascend",
            "cat /etc/gaudinet.json   # Gaudi",
        ),
    ),
)
