"""What stands around RDMA in a job, and says itself that it is in trouble.

A job's processes find each other before RDMA carries anything: by launchers, stores and sockets.
Where these give up, nothing is known to be wrong with RDMA, and the log is none of a healthy job.
Tools for adapters and switches that give up are here, too.

>>> is_of_the_job("[n1:9] PMIX ERROR: UNREACHABLE in file ptl_tcp.c at line 688")
True
>>> is_of_the_job("[0] NCCL WARN Cuda failure 'out of memory'")
False
"""

from typing import Final

from rdmadiag.late import late

_OF_THE_JOB: Final = late(
    # Open MPI and its launchers: ORTE_ERROR_LOG and its likes print file and line
    r"\b(?:ORTE_ERROR_LOG|PRTE ERROR|OPAL ERROR|PMIX ERROR): [\w -]{1,60} in file \S+ at line"
    # the sockets by which the ranks of NCCL, RCCL, HCCL and Neuron meet
    r"|\b(?:NCCL|RCCL|CCOM) WARN (?!.{0,80}(?:/dev/shm|[Cc]uda|nvml)).{0,120}(?:\b[Ss]ockets?\b"
    r"|\bconnect(?:ion)?\b|\baccept\b|\bbind\b|\blisten\b|\bpeer\b|NET/Socket|[Bb]ootstrap"
    r"|\b[Tt]ime-?out\b|\btimed out\b)"
    r"|\bncclSocket\w+: .{0,60}\b(?:neither|failed|refused|reset|timed out|unexpected)"
    r"|\bsocket(?:Poll|Start|Finalize)\w*: .{0,80}retrying \([1-9]\d+/"
    r"|\b[Nn]o socket interface found|\(EI00\d\d\)"
    # those of Hydra, of Slurm's PMIx, and what MPI_Init itself comes to
    r"|^\[(?:mpiexec|proxy:[\d:]+|bstrap:[\d:]+)@\S+\] (?:HYD[A-Z]?_sock_connect|HYD_spawn"
    r"|HYD_bstrap_setup|launch_bstrap_proxies|check_exit_codes) ?\("
    r"|\bpmixp_\w+: .{0,120}\b(?:collective timeout|[Cc]annot (?:send|connect)|send failed)"
    r"|\bAn error occurred in MPI_Init(?:_thread)?\b"
    r"|\bFatal error in (?:P?MPI|internal)_Init(?:_thread)?: "
    # an assertion of UCX, whatever it is about, and a fabric of GPUs that nobody set up
    r"|^(?:\[[\d.]+\] )?\[[\w.-]+:\d+ *:\d+(?::\d+)?\] +\w+\.(?:c|h|cc|inl):\d+ +"
    r"(?:Assertion `|Fatal: )"
    r"|\bcudaErrorSystemNotReady\b|\bsystem not yet initialized\b"
    # those of Gloo and of PyTorch's store
    r"|\bgloo/transport/(?:tcp|uv|ibverbs)/\w+\.cc:\d+\] (?!.*\b(?:INFO|success))"
    r"|\bGloo connectFullMesh failed|\bgloo::(?:IoException|TimeoutException)"
    r"|\bThe client socket has (?:timed out after|failed to connect to any)\b"
    r"|\b(?:DistNetworkError|DistStoreError|Rendezvous(?:Connection|Timeout|Closed)Error)\b: "
    # NVIDIA's tools for its adapters and switches
    r"|^\s*-E- \S",
)


def is_of_the_job(text: str) -> bool:
    """Whether processes of a job do not find each other, or a tool for an adapter gives up."""
    return _OF_THE_JOB.search(text) is not None
