"""What a job stands on beside RDMA, and says itself that it gave up, is shown: it may be RDMA."""

import io

import pytest

from rdmadiag.explain.log.recognition.of_the_job import is_of_the_job
from rdmadiag.explain.log.recognition.vocabulary import NEEDLES, is_candidate
from rdmadiag.explain.log.scan import collect
from rdmadiag.explain.log.text.short_text import read_whole
from rdmadiag.sieve.lines import Sieve

GAVE_UP = (
    "[n1:7] PMIX ERROR: UNREACHABLE in file ptl_tcp_component.c at line 1790",
    "[n1:7] [[4,0],2] ORTE_ERROR_LOG: Data unpack would read past end in file nidmap.c at line 9",
    "n1:7:9 [1] include/socket.h:361 NCCL WARN Call to connect timeout : Connection refused",
    "n1:7:9 [0] transport/net_socket.cc:200 NCCL WARN NET/Socket : message truncated",
    "ncclSocketInit: connecting to address  with family 7 is neither AF_INET(2) nor AF_INET6(10)",
    "socketPollConnect: connect to 192.0.2.2<9> returned Connection refused, retrying (13/34)",
    "Bootstrap : no socket interface found",
    "[mpiexec@n1] HYDU_sock_connect (utils/sock/sock.c:145): unable to connect from n1 to n2",
    "slurmstepd: error:  mpi/pmix_v4: pmixp_coll_ring_reset: node [0]: collective timeout seq=0",
    "[n1:9] *** An error occurred in MPI_Init_thread",
    "Fatal error in internal_Init: Other MPI error, error stack:",
    "[n1:3026441:0:3026441] proto_common.inl:126  Assertion `a <= b' failed: req 0x5615",
    "Test CUDA failure common.cu:941 'system not yet initialized'",
    "RuntimeError: [../gloo/transport/tcp/pair.cc:598] Connection closed by peer [fe80::7]:21658",
    "[E108 20:04:34.467 socket.cpp:957] [c10d] The client socket has timed out after 900s while",
    "torch.distributed.DistNetworkError: failed to recv, got 0 bytes",
    "Get_Socket_Timeout(EI0006): Getting socket times out.",
    "-E- PSID mismatch. The PSID on flash (MT_7) differs from the PSID in the given image (MT_9).",
)


@pytest.mark.parametrize("line", GAVE_UP)
def test_what_gave_up_is_shown(line: str) -> None:
    assert is_of_the_job(line)
    assert is_candidate(line.encode())
    sieve = Sieve(NEEDLES)
    collector = collect(sieve.segments(io.BytesIO(line.encode())))
    read_whole(collector, line.encode())
    assert collector.says_trouble


@pytest.mark.parametrize(
    "line",
    [
        "n1:7:9 [0] include/alloc.h:58 NCCL WARN Cuda failure 'out of memory' in a peer",
        "NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl-7 of a peer",
        "socketPollConnect: connect to 192.0.2.2<9> returned Connection refused, retrying (1/34)",
        "[W108 20:04:34.4 socket.cpp:697] [c10d] The client socket has failed to connect to [n1]:9",
        "[mpiexec@n1] match_arg (arg/hydra_arg.c:91): unrecognized argument x",
        "[n1:9] *** An error occurred in MPI_Allgather",
        "slurmstepd: error: mpi/pmix_v5: _dmdx_req: n1 [0]: Bad request from n2",
        "grep -E- something",
        "PMIX_SUCCESS in file a.c at line 3",
    ],
)
def test_another_program_that_fails_and_a_first_try(line: str) -> None:
    assert not is_of_the_job(line)


@pytest.mark.parametrize(
    "piece", ["NCCL WARN ", "[1] ", "pmixp_a: ", "socketPoll: ", "gloo/transport/tcp/a.cc:1] "]
)
def test_no_line_takes_long(piece: str) -> None:
    import time

    began = time.process_time()
    is_of_the_job((piece * 4096)[:4096])
    assert time.process_time() - began < 1.0
