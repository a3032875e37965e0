"""The way to a peer."""

from rdmadiag.facts.gid import Gid
from rdmadiag.frozen import dataclass
from rdmadiag.verbs.abi import IbvAhAttr, IbvGid, IbvGlobalRoute
from rdmadiag.verbs.bringup import ROCE_HOPS
from rdmadiag.verbs.model.numbers import fits


@dataclass(frozen=True, slots=True)
class AHAttr:
    """struct ibv_ah_attr: the way to a peer, by its GID, by its LID, or by both."""

    dgid: Gid | None = None
    sgid_index: int = 0
    dlid: int = 0
    port_num: int = 1
    hop_limit: int = ROCE_HOPS
    traffic_class: int = 0
    flow_label: int = 0
    sl: int = 0
    src_path_bits: int = 0
    static_rate: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError where a number does not fit its field."""
        for name, *_ in IbvAhAttr._fields_:
            if name not in ("grh", "is_global"):
                fits(IbvAhAttr, name, getattr(self, name))
        for name in ("sgid_index", "hop_limit", "traffic_class", "flow_label"):
            fits(IbvGlobalRoute, name, getattr(self, name))

    def struct(self) -> IbvAhAttr:
        """As the library reads it; with a GRH where it has a GID."""
        made = IbvAhAttr(
            dlid=self.dlid,
            sl=self.sl,
            src_path_bits=self.src_path_bits,
            static_rate=self.static_rate,
            port_num=self.port_num,
        )
        if self.dgid is not None:
            made.is_global = 1
            made.grh.dgid = IbvGid(*self.dgid.raw)
            made.grh.sgid_index = self.sgid_index
            made.grh.hop_limit = self.hop_limit
            made.grh.traffic_class = self.traffic_class
            made.grh.flow_label = self.flow_label
        return made

    @classmethod
    def of(cls, found: IbvAhAttr) -> "AHAttr":
        """As the library wrote it."""
        return cls(
            dgid=Gid(bytes(found.grh.dgid)) if found.is_global else None,
            sgid_index=found.grh.sgid_index,
            dlid=found.dlid,
            port_num=found.port_num,
            hop_limit=found.grh.hop_limit,
            traffic_class=found.grh.traffic_class,
            flow_label=found.grh.flow_label,
            sl=found.sl,
            src_path_bits=found.src_path_bits,
            static_rate=found.static_rate,
        )
