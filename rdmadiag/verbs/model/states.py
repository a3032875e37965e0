"""The states of a queue pair: what each step takes, and what the kernel has of it."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final, TypeVar

from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import MTU_NUMBER, QpState
from rdmadiag.frozen import dataclass
from rdmadiag.verbs.abi import IbvQpAttr, IbvQpCap, IbvQpInitAttr
from rdmadiag.verbs.bringup import (
    MAX_RD_ATOMIC,
    MIN_RNR_TIMER,
    RETRY_COUNT,
    RNR_RETRY,
    ROCE_HOPS,
    TIMEOUT,
)
from rdmadiag.verbs.model.address import AHAttr
from rdmadiag.verbs.model.constants import Access, QPState, QPType
from rdmadiag.verbs.model.lifetime import Held, VerbsError
from rdmadiag.verbs.model.numbers import fits
from rdmadiag.verbs.objects import QueuePair
from rdmadiag.verbs.transitions import Attribute, Transition, transition

_ALT_PATH: Final = ("alt_ah_attr", "alt_pkey_index", "alt_port_num", "alt_timeout")

ATTRIBUTES: Final[Mapping[str, Attribute]] = {
    "cur_qp_state": Attribute.CUR_STATE,
    "en_sqd_async_notify": Attribute.EN_SQD_ASYNC_NOTIFY,
    "qp_access_flags": Attribute.ACCESS_FLAGS,
    "pkey_index": Attribute.PKEY_INDEX,
    "port_num": Attribute.PORT,
    "qkey": Attribute.QKEY,
    "ah_attr": Attribute.AV,
    "path_mtu": Attribute.PATH_MTU,
    "timeout": Attribute.TIMEOUT,
    "retry_cnt": Attribute.RETRY_CNT,
    "rnr_retry": Attribute.RNR_RETRY,
    "rq_psn": Attribute.RQ_PSN,
    "max_rd_atomic": Attribute.MAX_QP_RD_ATOMIC,
    **dict.fromkeys(_ALT_PATH, Attribute.ALT_PATH),
    "min_rnr_timer": Attribute.MIN_RNR_TIMER,
    "sq_psn": Attribute.SQ_PSN,
    "max_dest_rd_atomic": Attribute.MAX_DEST_RD_ATOMIC,
    "path_mig_state": Attribute.PATH_MIG_STATE,
    "cap": Attribute.CAP,
    "dest_qp_num": Attribute.DEST_QPN,
}
"""Field of struct ibv_qp_attr → its bit of enum ibv_qp_attr_mask."""


class WrongAttributes(VerbsError, ValueError):
    """Not the attributes that the state table has for a transition."""

    def __init__(self, step: Transition, missing: Attribute, forbidden: Attribute) -> None:
        parts = [f"{step.before.name} → {step.after.name}"]
        if missing:
            parts.append(f"needs {_names(missing)}")
        if forbidden:
            parts.append(f"does not take {_names(forbidden)}")
        super().__init__(", ".join(parts))
        self.missing = missing
        self.forbidden = forbidden


def _names(mask: Attribute) -> str:
    return ", ".join(name for name, bit in ATTRIBUTES.items() if mask & bit)


@dataclass(frozen=True, slots=True)
class QPCapacity:
    """struct ibv_qp_cap; the defaults are those of gordma's DefaultQPCapacity."""

    max_send_wr: int = 256
    max_recv_wr: int = 256
    max_send_sge: int = 1
    max_recv_sge: int = 1
    max_inline_data: int = 64

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            fits(IbvQpCap, name, value)

    @classmethod
    def of(cls, found: IbvQpCap) -> "QPCapacity":
        """As the library wrote it."""
        return cls(**found.numbers())


@dataclass(frozen=True, slots=True)
class RCConnParams:
    """What a connected queue pair must know of its peer, exchanged by other means; of UC too."""

    dest_qpn: int
    dest_psn: int
    local_psn: int
    mtu: int = 1024  # bytes, of the path
    port_num: int = 1
    dest_gid: Gid | None = None  # without one by LID, on InfiniBand alone
    sgid_index: int = 0
    dest_lid: int = 0
    hop_limit: int = ROCE_HOPS
    sl: int = 0
    traffic_class: int = 0
    max_rd_atomic: int = MAX_RD_ATOMIC
    max_dest_rd_atomic: int = MAX_RD_ATOMIC
    min_rnr_timer: int = MIN_RNR_TIMER
    timeout: int = TIMEOUT
    retry_cnt: int = RETRY_COUNT
    rnr_retry: int = RNR_RETRY

    def path(self) -> AHAttr:
        """The address vector."""
        return AHAttr(
            dgid=self.dest_gid,
            sgid_index=self.sgid_index,
            dlid=self.dest_lid,
            port_num=self.port_num,
            hop_limit=self.hop_limit,
            traffic_class=self.traffic_class,
            sl=self.sl,
        )


Q = TypeVar("Q", bound=QueuePair)


class Stateful(Held[Q]):
    """A queue pair as far as its states go."""

    kind = "queue pair"
    qp_type: QPType
    qp_num: int

    def _label(self) -> str:
        return f" {self.qp_num}"

    def query(self) -> tuple[IbvQpAttr, IbvQpInitAttr]:
        """ibv_query_qp, all of it, by the names of infiniband/verbs.h; raises CallFailed."""
        everything = Attribute.STATE
        for each in ATTRIBUTES.values():
            everything |= each
        with self.session.lock:
            return self.made.query(everything)

    @property
    def state(self) -> QPState:
        """As the kernel has it; raises CallFailed."""
        with self.session.lock:
            return QPState(self.made.query(Attribute.STATE)[0].qp_state)

    def modify(self, state: QPState, **attributes: Any) -> None:
        """ibv_modify_qp with the attributes that are named: those of the state table.

        They have the names of struct ibv_qp_attr; `path_mtu` is in bytes, an `ah_attr` is a
        AHAttr. ERR and RESET take none. Raises WrongAttributes before the library is
        called where one is missing or one too many, and CallFailed.
        """
        unknown = attributes.keys() - ATTRIBUTES.keys()
        if unknown:
            raise TypeError(f"not in struct ibv_qp_attr: {', '.join(sorted(unknown))}")
        mask = Attribute.STATE
        for name in attributes:
            mask |= ATTRIBUTES[name]
        self._check_step(state, mask)
        wanted = IbvQpAttr(qp_state=state)
        for name, value in attributes.items():
            setattr(wanted, name, _lowered(name, value))
        with self.session.lock:
            self.made.modify_by(wanted, mask)

    def _check_step(self, state: QPState, mask: Attribute) -> None:
        step = self._transition(state, mask)
        missing = step.required & ~mask
        forbidden = mask & ~(step.required | step.optional)
        if missing or forbidden:
            raise WrongAttributes(step, missing, forbidden)

    def _transition(self, state: QPState, mask: Attribute) -> Transition:
        """The row of the state table: the kernel's qp_state_table, drivers/infiniband/core."""
        after = state.named
        if state in (QPState.ERR, QPState.RESET):
            return Transition(after, after, Attribute.STATE, Attribute(0))
        if state is QPState.SQD:
            notice = Attribute.EN_SQD_ASYNC_NOTIFY
            return Transition(QpState.RTS, after, Attribute.STATE, notice)
        step = transition(self.qp_type.named, after)
        if state is QPState.RTS and step.required & ~mask and self.state is not QPState.RTR:
            # From RTS, SQD and SQE it takes what RTR → RTS may have, and needs none.
            return Transition(self.state.named, after, Attribute.STATE, step.optional)
        return step

    def modify_to_init(
        self, port_num: int = 1, access: Access = Access.NONE, *, pkey_index: int = 0, qkey: int = 0
    ) -> None:
        """RESET → INIT, with what of these its type takes; raises CallFailed."""
        self._step(
            QPState.INIT,
            {
                "port_num": port_num,
                "pkey_index": pkey_index,
                "qp_access_flags": int(access),
                "qkey": qkey,
            },
        )

    def modify_to_rtr(self, params: RCConnParams | None = None) -> None:
        """INIT → RTR; `params` of a connected type. Raises CallFailed and WrongAttributes."""
        if params is None:
            self.modify(QPState.RTR)
            return
        self._step(
            QPState.RTR,
            {
                "path_mtu": params.mtu,
                "dest_qp_num": params.dest_qpn,
                "rq_psn": params.dest_psn,
                "ah_attr": params.path(),
                "max_dest_rd_atomic": params.max_dest_rd_atomic,
                "min_rnr_timer": params.min_rnr_timer,
            },
        )

    def modify_to_rts(self, params: RCConnParams | None = None, *, sq_psn: int = 0) -> None:
        """RTR → RTS; `params` of a connected type, `sq_psn` of UD. Raises CallFailed."""
        given: dict[str, Any] = {"sq_psn": sq_psn}
        if params:
            given = {
                "sq_psn": params.local_psn,
                "timeout": params.timeout,
                "retry_cnt": params.retry_cnt,
                "rnr_retry": params.rnr_retry,
                "max_rd_atomic": params.max_rd_atomic,
            }
        self._step(QPState.RTS, given)

    def _step(self, state: QPState, given: dict[str, Any]) -> None:
        required = transition(self.qp_type.named, state.named).required
        self.modify(
            state, **{name: each for name, each in given.items() if ATTRIBUTES[name] & required}
        )


def _lowered(name: str, value: Any) -> Any:
    """As struct ibv_qp_attr has it."""
    if name == "path_mtu":
        if value not in MTU_NUMBER:
            sizes = ", ".join(str(size) for size in MTU_NUMBER)
            raise ValueError(f"an MTU of {value} bytes: one of {sizes}")
        return MTU_NUMBER[value]
    if name == "cap":
        return IbvQpCap(**asdict(value))
    return value.struct() if name.endswith("ah_attr") else fits(IbvQpAttr, name, int(value))
