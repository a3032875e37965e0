"""Causes in programs, libraries and the services beside them: their releases, parts and starts."""

from typing import Final

from rdmadiag.explain.causes.cause import Cause
from rdmadiag.explain.remedies import ADDRESSES, CRASH_REPORTS

ROWS: Final = (
    Cause(
        "versions-differ",
        "the two ends run releases of the program or of its library that do not fit together",
        linux=(
            "ucx_info -v; fi_info --version   # on both hosts: compare",
            "dpkg -l | grep -E 'ucx|fabric|perftest' || rpm -qa | grep -E 'ucx|fabric|perftest'",
        ),
    ),
    Cause(
        "library-mismatch",
        "the library that was loaded is absent or of another release than the program was built "
        "with",
        linux=(
            "ldd \"$(command -v PROGRAM)\" | grep -E 'ucp|uct|fabric|psm|pmix|not found'",
            "grep -ohE '/[^ ]*lib(ucp|fabric|psm|pmix)[^ ]*' /proc/PID/maps | sort -u",
        ),
        darwin=('otool -L "$(command -v PROGRAM)"   # what it was linked with', "sw_vers"),
    ),
    Cause(
        "feature-not-built",
        "the program, library or kernel was built or installed without the part that is asked for",
        {
            "rank 0 twice": "nccl-tests was built without MPI (make MPI=1): each process is rank 0 "
            "of a program of its own"
        },
        linux=(
            "ucx_info -d | grep Transport; fi_info -l   # the parts that UCX and libfabric have",
            "ompi_info | grep -E 'pml|mtl|btl'   # those of Open MPI",
            "grep -E 'SMB_DIRECT|XPRT_RDMA|NVME_RDMA' /boot/config-$(uname -r)",
        ),
        darwin=(
            "sw_vers   # RDMA over Thunderbolt: macOS 26.2 or newer",
            "python3 -m pip list | grep -i mlx   # a release that has JACCL?",
        ),
    ),
    Cause(
        "program-not-started",
        "the program itself was not started: the shell, or what was to start it, says why",
        linux=(
            'command -v PROGRAM || echo "$PATH"   # is it there?',
            'ls -l "$(command -v PROGRAM)"   # may this user run it?',
            "# Debian: apt-get install perftest ibverbs-utils rdmacm-utils infiniband-diags",
            "# Red Hat: dnf install perftest libibverbs-utils librdmacm-utils infiniband-diags",
            "getconf ARG_MAX; env | wc -c   # arguments and variables are too long together",
        ),
        darwin=(
            'command -v PROGRAM || echo "$PATH"   # is it there?',
            'ls -l "$(command -v PROGRAM)"   # may this user run it?',
        ),
    ),
    Cause(
        "program-error",
        "the program ended with an error of its own, which its own output names: above, or in the "
        "file of the rank that failed first",
        linux=(
            "grep -nE 'Traceback|Error: |error: ' LOG | head   # the first is the reason",
            "torchrun --redirects 3 --log-dir LOGS   # a file for each rank; srun: --output=%t",
        ),
        darwin=("grep -nE 'Traceback|Error: |error: ' LOG | head   # the first is the reason",),
    ),
    Cause(
        "program-fault",
        "perhaps a fault of the program or of a library itself: another release may mend it",
        linux=(
            "ldconfig -p | grep -E 'nccl|ucp|fabric|nvshmem'   # then the newest of these releases",
            "ulimit -c unlimited   # run again, and keep the core file",
        ),
        darwin=(
            CRASH_REPORTS,
            "python3 -m pip list | grep -iE 'mlx|exo'   # then the newest of these",
        ),
    ),
    Cause(
        "network-plugin-missing",
        "the network plugin or transport library that was asked for is not on the library path",
        linux=(
            "env | grep -E 'NCCL_NET|NVSHMEM_REMOTE_TRANSPORT|LD_LIBRARY_PATH'",
            "ldconfig -p | grep -E 'libnccl-net|nvshmem_transport'",
            "unset NCCL_NET NCCL_NET_PLUGIN   # back to the transport that is built in",
        ),
    ),
    Cause(
        "launcher-mismatch",
        "the program was started by no launcher, or by one whose PMI it does not have: its ranks "
        "do not find each other",
        linux=(
            "srun --mpi=list; ompi_info | grep -iE 'pmix|slurm'",
            "srun --mpi=pmix PROGRAM   # or the mpirun of the same MPI",
        ),
        darwin=("env | grep ^MLX_   # a rank, and the devices; or let mlx.launch start all ranks",),
    ),
    Cause(
        "ssh-refused",
        "ssh to another host is refused, or would ask something: its key, the host's key, or a "
        "password",
        linux=(
            "ssh -o BatchMode=yes HOST true; echo $?   # as the same user, in the same container",
            "ssh-keyscan HOST >> ~/.ssh/known_hosts   # where its key is not known",
            "ssh-copy-id HOST   # where it asks for a password",
        ),
        darwin=(
            "ssh -o BatchMode=yes HOST true; echo $?   # as the same user",
            "sudo systemsetup -getremotelogin   # on HOST: Remote Login",
            "ssh-copy-id HOST   # where it asks for a password",
        ),
    ),
    Cause(
        "job-ended",
        "the batch system, the cluster or somebody ended the job: its time, a preemption, a "
        "cancellation, or a node that is drained",
        linux=(
            "sacct -j JOB --format=JobID,State,Elapsed,Timelimit,Reason   # of Slurm",
            "kubectl describe pod POD | tail -20   # of Kubernetes",
        ),
        darwin=("log show --last 10m | grep -iE 'jetsam|sigterm|shutdown'",),
    ),
    Cause(
        "name-not-resolved",
        "a name has no address here: DNS, /etc/hosts, or a name that is known elsewhere only",
        linux=(
            "getent ahosts HOST; cat /etc/resolv.conf   # in the same container",
            "kubectl get pods -o wide   # of Kubernetes: does the pod of that name run?",
            "grep -n HOST /etc/hosts   # or give the address in place of the name",
        ),
        darwin=("dscacheutil -q host -a name HOST; scutil --dns | head",),
    ),
    Cause(
        "outside-unreachable",
        "a server outside (a hub of models, a registry, a mirror) is not reached: no way out, a "
        "proxy, or DNS",
        linux=(
            "curl -sSI --max-time 5 https://HOST | head -1; env | grep -i _proxy",
            "export HF_HUB_OFFLINE=1   # take what is in the cache",
        ),
        darwin=(
            "curl -sSI --max-time 5 https://HOST | head -1; env | grep -i _proxy",
            "export HF_HUB_OFFLINE=1   # take what is in the cache",
        ),
    ),
    Cause(
        "bootstrap-service-unreachable",
        "the service that brings the ends together (etcd, metadata server, master, TCPStore) does "
        "not answer at its address",
        linux=(
            "env | grep -iE 'etcd|master|metadata|bootstrap|side_channel'",
            "nc -vz -w 3 HOST PORT   # from the host that failed",
            "ss -ltnp   # on the service's host: does it listen, and at which address?",
        ),
    ),
    Cause(
        "bootstrap-interface",
        "the interface for the TCP connections beside RDMA (NCCL_SOCKET_IFNAME) is not there, is "
        "down, or does not reach the other hosts",
        linux=(
            ADDRESSES,
            "ip route get {target}   # by which interface?",
            "export NCCL_SOCKET_IFNAME=INTERFACE GLOO_SOCKET_IFNAME=INTERFACE   # that one",
        ),
        darwin=(
            "ifconfig | grep 'inet '",
            "env | grep ^MLX_   # MLX_JACCL_COORDINATOR: an address of rank 0 that all reach",
        ),
    ),
    Cause(
        "rank-missing",
        "perhaps a rank did not come in time: it hangs, has ended, or took another way through the "
        "program",
        linux=(
            "grep -lE 'Error|Traceback|Xid|Killed' LOGS   # of all ranks: who printed that first?",
            "export TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1   # PyTorch",
            "rdmadiag explain --log 'LOGS/*'   # all ranks as one story",
        ),
    ),
    Cause(
        "helper-service-down",
        "a service that it needs does not run or does not answer: ibacm, iwpmd, Slingshot's "
        "cxi_rh, or the SHARP aggregation manager",
        linux=(
            "systemctl status ibacm iwpmd 'cxi_rh@*' --no-pager",
            "systemctl status sharp_am --no-pager   # on the host of the subnet manager",
        ),
    ),
    Cause(
        "target-not-exported",
        "the storage target exports nothing of that name, or not to this host",
        linux=(
            "nvme discover -t rdma -a ADDRESS -s 4420; cat /etc/nvme/hostnqn",
            "ls /sys/kernel/config/nvmet/ports/*/subsystems   # on the target",
            "targetcli ls   # on the target, for SRP and iSER",
        ),
    ),
    Cause(
        "lnet-nids-differ",
        "the NIDs, network numbers or routes of LNet do not match on the two ends",
        linux=(
            "lctl list_nids; lnetctl net show; lnetctl route show   # on both ends",
            "lctl ping NID",
        ),
    ),
    Cause(
        "cxi-service",
        "Slingshot: the job has no CXI service or VNI on this NIC, or the limits of the service "
        "are used up",
        linux=("cxi_service list", "env | grep SLINGSHOT"),
    ),
    Cause(
        "resource-not-advertised",
        "the node advertises no such resource, or none is left: the selectors of the device plugin "
        "match no device, or it does not run there",
        linux=(
            "kubectl describe node NODE | grep -iE 'rdma|sriov|efa'",
            "kubectl logs -n NAMESPACE POD | tail -50   # of the device plugin",
        ),
    ),
    Cause(
        "cni-config",
        "the network attachment of the pod is wrong or missing",
        linux=(
            "kubectl get network-attachment-definitions -A",
            "kubectl describe pod POD | tail -20",
        ),
    ),
    Cause(
        "netns-mode-shared",
        "RDMA devices are shared among network namespaces, and exclusive mode is needed here",
        linux=(
            "rdma system show",
            "sudo rdma system set netns exclusive   # while no container holds a device",
        ),
    ),
)
