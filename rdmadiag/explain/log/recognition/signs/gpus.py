"""GPU memory that a NIC cannot reach: a module, dmabuf, or the place of the two."""

from typing import Final

from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.recognition.signs.sign import sign
from rdmadiag.facts.attempt import Stage

_MODULE: Final = r"\b(?:nvidia_|nvidia-|nv_|amdgpu_|amdgpu-|ib_)?peer[_-]?mem\w*\b"
_REFUSED: Final = (
    r"could not insert|disagrees about version|unknown symbol|failed to (?:load|insert)"
    r"|fail\w* to register|not (?:been )?loaded|invalid argument|\bnot found\b"
)

_GPU: Final = r"(?:gpu|cuda|\bhip\b|hmem|dmabuf)"
_NOT_TAKEN: Final = r"(?:bad address|invalid argument|errno[ =:]*(?:14|22)\b)"

SIGNS: Final = (
    # memory that is shared over NVLink by a fabric handle, which a channel of IMEX gives
    sign(
        "fabric-memory-refused",
        Kind.FAILURE,
        Stage.REG_MR,
        r"\bcumem(?:create|exporttoshareablehandle|importfromshareablehandle)\b"
        r".{0,200}not[_ ]permitted"
        r"|\bnot[_ ]permitted\b.{0,80}\bcumem(?:create|export|import)",
        ("imex-not-ready", "gpu-not-usable"),
    ),
    sign(
        "peer-memory-module",
        Kind.FAILURE,
        Stage.REG_MR,
        rf"{_MODULE}.{{0,80}}(?:{_REFUSED})|(?:{_REFUSED}).{{0,40}}{_MODULE}"
        r"|ib_(?:un)?register_peer_memory_client.{0,40}(?:err|fail|unknown|disagree)",
        ("gdr-off", "provider-release"),
    ),
    sign(
        "gpu-memory-not-registered",
        Kind.FAILURE,
        Stage.REG_MR,
        r"(?:fail\w*|unable|could ?n[o']t|cannot) (?:to )?register (?:\w+ ){0,3}?"
        r"(?:gpu|cuda|device|hip|dma-?buf) (?:mr|memory|buffer)"
        r"|(?:buffer|memory|mr) regist\w+ fail.{0,200}dma_?buf"
        r"|ibv_reg_dmabuf_mr.{0,60}(?:fail|error|invalid|bad address|not supported)"
        rf"|{_GPU}.{{0,40}}(?:ibv_reg_mr|mr_reg).{{0,80}}{_NOT_TAKEN}"
        rf"|(?:ibv_reg_mr|mr_reg).{{0,80}}{_GPU}.{{0,80}}{_NOT_TAKEN}"
        r"|ibv_reg_mr\(gpu\) failed"
        r"|failed to register address 0x[0-9a-f]+ (?:\(|mem_type (?:bit )?)(?:0x[2-9a-f]|cuda|rocm)"
        r"|cannot allocate buffer on the specified memory type"
        r"|\bregister\w* .{0,40}(?:cuda|gpu|hmem|device) (?:memory|buffer|pointer).{0,60}fail",
        ("gdr-off", "memory-kind", "acs-or-iommu", "memory-not-mapped"),
    ),
)
