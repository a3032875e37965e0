"""Whether lines are of RDMA, or of a job that uses it."""

import re
from typing import Final

from rdmadiag.explain.log.recognition.reader import Candidate
from rdmadiag.explain.log.recognition.trouble import names_rdma
from rdmadiag.late import late


def stands_in_a_job(candidate: Candidate) -> bool:
    """Whether the line, or those around it, are of RDMA or of a job that uses it."""
    around = b"\n".join((candidate.above, candidate.line, candidate.after))
    return is_of_a_job(around.decode("utf-8", "replace"))


def is_of_a_job(text: str) -> bool:
    """Whether some of the lines are of RDMA, or of a job that uses it."""
    return _OF_A_JOB.search(text) is not None or any(map(names_rdma, text.splitlines()))


_OF_A_JOB: Final = late(
    r"\b(?:nccl|rccl|mpirun|mpiexec|orted|prted|hydra|pmix|srun|slurmstepd|torchrun|torch\.distributed"
    r"|horovod|gloo|megatron|deepspeed|nvidia|fabric ?manager|gdrdrv"
    r"|gdrcopy|c10d|processgroup\w+|vllm|sglang)",
    re.IGNORECASE,
)
"""Beside the names that RDMA has: launchers, libraries of collectives, and GPUs."""
