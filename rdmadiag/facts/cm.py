"""Numbers of the connection manager, each once: its events, and what it rejects with.

What they mean, and what was traced to them, is said by rdmadiag.explain.

>>> CmEvent.from_number(8), CmEvent.REJECTED.constant
(<CmEvent.REJECTED: 'rejected'>, 'RDMA_CM_EVENT_REJECTED')
>>> RejectReason.from_number(8).constant
'IB_CM_REJ_INVALID_SERVICE_ID'
"""

from rdmadiag.facts.ib import Numbered


class CmEvent(Numbered):
    """enum rdma_cm_event_type, rdma/rdma_cma.h; newer ones have those from 16 on."""

    ADDR_RESOLVED = "addr_resolved", 0
    ADDR_ERROR = "addr_error", 1
    ROUTE_RESOLVED = "route_resolved", 2
    ROUTE_ERROR = "route_error", 3
    CONNECT_REQUEST = "connect_request", 4
    CONNECT_RESPONSE = "connect_response", 5
    CONNECT_ERROR = "connect_error", 6
    UNREACHABLE = "unreachable", 7
    REJECTED = "rejected", 8
    ESTABLISHED = "established", 9
    DISCONNECTED = "disconnected", 10
    DEVICE_REMOVAL = "device_removal", 11
    MULTICAST_JOIN = "multicast_join", 12
    MULTICAST_ERROR = "multicast_error", 13
    ADDR_CHANGE = "addr_change", 14
    TIMEWAIT_EXIT = "timewait_exit", 15
    ADDRINFO_RESOLVED = "addrinfo_resolved", 16
    ADDRINFO_ERROR = "addrinfo_error", 17
    USER = "user", 18

    @property
    def constant(self) -> str:
        return f"RDMA_CM_EVENT_{self.name}"


class CmState(Numbered):
    """enum rdma_cm_state, include/rdma/rdma_cm.h: what nldev shows of an id."""

    IDLE = "idle", 0
    ADDR_QUERY = "addr_query", 1
    ADDR_RESOLVED = "addr_resolved", 2
    ROUTE_QUERY = "route_query", 3
    ROUTE_RESOLVED = "route_resolved", 4
    CONNECT = "connect", 5
    DISCONNECT = "disconnect", 6
    ADDR_BOUND = "addr_bound", 7
    LISTEN = "listen", 8
    DEVICE_REMOVAL = "device_removal", 9
    DESTROYING = "destroying", 10


class RejectReason(Numbered):
    """enum ib_cm_rej_reason, include/rdma/ib_cm.h: IBA 12.6.7.2, status of REJECTED on IB, RoCE.

    No errnos, whatever a program prints beside them: 8 is no ENOEXEC, 28 no ENOSPC.
    """

    NO_QP = "no_qp", 1
    NO_EEC = "no_eec", 2
    NO_RESOURCES = "no_resources", 3
    TIMEOUT = "timeout", 4
    UNSUPPORTED = "unsupported", 5
    INVALID_COMM_ID = "invalid_comm_id", 6
    INVALID_COMM_INSTANCE = "invalid_comm_instance", 7
    INVALID_SERVICE_ID = "invalid_service_id", 8
    INVALID_TRANSPORT_TYPE = "invalid_transport_type", 9
    STALE_CONN = "stale_conn", 10
    RDC_NOT_EXIST = "rdc_not_exist", 11
    INVALID_GID = "invalid_gid", 12
    INVALID_LID = "invalid_lid", 13
    INVALID_SL = "invalid_sl", 14
    INVALID_TRAFFIC_CLASS = "invalid_traffic_class", 15
    INVALID_HOP_LIMIT = "invalid_hop_limit", 16
    INVALID_PACKET_RATE = "invalid_packet_rate", 17
    INVALID_ALT_GID = "invalid_alt_gid", 18
    INVALID_ALT_LID = "invalid_alt_lid", 19
    INVALID_ALT_SL = "invalid_alt_sl", 20
    INVALID_ALT_TRAFFIC_CLASS = "invalid_alt_traffic_class", 21
    INVALID_ALT_HOP_LIMIT = "invalid_alt_hop_limit", 22
    INVALID_ALT_PACKET_RATE = "invalid_alt_packet_rate", 23
    PORT_CM_REDIRECT = "port_cm_redirect", 24
    PORT_REDIRECT = "port_redirect", 25
    INVALID_MTU = "invalid_mtu", 26
    INSUFFICIENT_RESP_RESOURCES = "insufficient_resp_resources", 27
    CONSUMER_DEFINED = "consumer_defined", 28
    INVALID_RNR_RETRY = "invalid_rnr_retry", 29
    DUPLICATE_LOCAL_COMM_ID = "duplicate_local_comm_id", 30
    INVALID_CLASS_VERSION = "invalid_class_version", 31
    INVALID_FLOW_LABEL = "invalid_flow_label", 32
    INVALID_ALT_FLOW_LABEL = "invalid_alt_flow_label", 33
    VENDOR_OPTION_NOT_SUPPORTED = "vendor_option_not_supported", 35

    @property
    def constant(self) -> str:
        return f"IB_CM_REJ_{self.name}"


class SidrStatus(Numbered):
    """enum ib_cm_sidr_status, include/rdma/ib_cm.h: status of UNREACHABLE for a UD id.

    cma_sidr_rep_handler() in drivers/infiniband/core/cma.c hands it on as it is.
    """

    SUCCESS = "success", 0
    UNSUPPORTED = "unsupported", 1
    REJECT = "reject", 2
    NO_QP = "no_qp", 3
    REDIRECT = "redirect", 4
    UNSUPPORTED_VERSION = "unsupported_version", 5

    @property
    def constant(self) -> str:
        return f"IB_SIDR_{self.name}"


class IwarpStatus(Numbered):
    """Status of an event on iWARP: a negative errno of Linux, which cma_iw_handler() in cma.c
    makes an event of: these two REJECTED, the third UNREACHABLE, any other CONNECT_ERROR."""

    CONNECTION_RESET = "connection_reset", -104
    CONNECTION_REFUSED = "connection_refused", -111
    TIMED_OUT = "timed_out", -110
