"""Messages of perftest, of rdma-core's pingpongs and of librdmacm's examples.

What they print stands in perftest's src/perftest_communication.c, perftest_resources.c and
perftest_parameters.h, and in rdma-core's libibverbs/examples and librdmacm/examples. They exchange
their addresses over a TCP socket (or one queue pair of rdma_cm) before any data goes by RDMA:
 what fails there says that the other end has gone, is another program or never came.
"""

from collections.abc import Iterator
from typing import Final

from rdmadiag.explain.connection import EVENTS
from rdmadiag.explain.log.kind import NOT_STARTED, PORT_OF_PINGPONG, PORT_PRIVILEGED, Kind
from rdmadiag.explain.log.recognition.signs.sign import Errno, Sign, sign
from rdmadiag.explain.remedies import ADDRESSES, AT_PEER, DEVICES, GIDS
from rdmadiag.facts.attempt import Stage

_TOOL: Final = (
    r"(?:ibv_\w{1,16}_pingpong|ibv_devinfo|ib_(?:send|read|write|atomic)_(?:bw|lat)"
    r"|raw_ethernet_\w{2,16}|rping|udaddy|u?cmatose|mckey|cmtime|rcopy|rstream|riostream"
    r"|ucx_perftest|fi_\w{2,24}|rdmadiag|ib(?:v_devices|stat|hosts|ping|linkinfo|netdiscover)"
    r"|show_gids|ibdev2netdev|perfquery|sminfo|opensm)"
)
"""Programs that test RDMA, by their names."""
_PROGRAM: Final = _TOOL.replace(r"fi_\w{2,24}", r"fi_(?:info|pingpong|rdm|msg|dgram|rma|bw)\w*")
"""The same, and no function of libfabric."""
_USAGE: Final = ("# the program's own list of options: which of those that were given is none?",)
_SAME_TEST: Final = "# both ends: the same program, of the same version, with the same options?"


def _by_number() -> Iterator[Sign]:
    """perftest prints an event that it did not wait for as its number: enum rdma_cm_event_type."""
    for row in EVENTS:
        if row.failure and row.labels:
            yield sign(
                row.event.value.replace("_", "-"),
                Kind.FAILURE,
                Stage.CONNECT,
                rf"\bunexpected cm event(?: bl blka)? {row.event.number}$",
                row.labels,
            )


SIGNS: Final = (
    # --- the shell, or what starts a program, says it ------------------------------------------
    sign(
        NOT_STARTED,
        Kind.FAILURE,
        Stage.OPEN,
        rf"(?:^|[\s/'\u2018\"]){_PROGRAM}['\u2019\"]?: "
        r"(?:permission denied|no such file or directory|argument list too long|cannot execute"
        r"|bad cpu type|text file busy)",
        (NOT_STARTED,),
    ),
    # --- arguments, which the program itself refuses ------------------------------------------
    sign(
        "argument-refused",
        Kind.FAILURE,
        Stage.CREATE_QP,
        r"^max inline should be between \d+ and \d+",
        ("qp-too-large", "argument-refused"),
        ("# a smaller -I, or none", "rdmadiag capabilities{on}"),
    ),
    sign(
        "argument-refused",
        Kind.FAILURE,
        Stage.OPEN,
        r"parser function exited with error",
        ("argument-refused", "device-lacks-capability"),
    ),
    # An option took the next one for the name that it was to have: a variable was not set.
    sign(
        "argument-refused",
        Kind.FAILURE,
        Stage.OPEN,
        r"\bib device -[a-z-]{1,20} not found",
        ("argument-refused", "device-absent"),
        ("# the option before it has no value: is a variable of the script empty?",),
        errno=Errno.LAST,
    ),
    # perftest names what it refuses on a line before.
    sign(
        "argument-refused",
        Kind.FAILURE,
        Stage.OPEN,
        r"^invalid command (?:or flag\.$|line\. please check)"
        r"|^message size should be between \d+ and \d+$"
        # rping.c of librdmacm
        r"|^invalid (?:size -?\d+ \(valid range is \d+ to \d+\)|count -?\d+)$"
        # perftest.c of UCX
        r"|\binvalid option (?:argument for -|substring argument at position )\w+$"
        # of getopt_long
        rf"|^(?:[^ ]{{0,200}}/)?{_TOOL}: (?:(?:invalid|unrecognized|illegal) option\b"
        r"|option (?:requires an argument|'[^ ]{1,40}' (?:requires an argument"
        r"|is ambiguous|doesn't allow an argument)))",
        ("argument-refused",),
        errno=Errno.LAST,
    ),
    # What a program prints of itself where it does not begin: it takes no argument as it stands.
    # perftest prints it for --help alone; what it refuses it names (perftest_parameters.c, parser).
    sign(
        "argument-refused",
        Kind.FAILURE,
        Stage.OPEN,
        r"^(?:[^ ]{0,200}/[\w.-]{0,32})?ibv_\w{1,16}_pingpong[\w.-]{0,32} {4,}"
        r"start a server and wait for connection\b"
        rf"|^usage: (?:[^ ]{{0,200}}/)?{_TOOL}(?: \[ server-hostname \] \[ options \])?$"
        r"|^rping -s \[-[a-z]+\] \[",
        ("argument-refused",),
        _USAGE,
    ),
    # rdma_create_id, which opens nothing: the kernel knows no such port space (ucma_get_qp_type).
    sign(
        "argument-refused",
        Kind.FAILURE,
        Stage.CONNECT,
        r"\b(?:udaddy|u?cmatose): listen request failed: invalid argument",
        ("argument-refused", "no-rdma-device"),
        ("# of udaddy -p, of ucmatose -P is a port space, and no port",),
        errno=Errno.LAST,
    ),
    # rsocket.c: rpoll waits for the connection, and SO_ERROR is that of it
    sign(
        "rsocket-not-connected",
        Kind.FAILURE,
        Stage.CONNECT,
        r"\br(?:poll|connect|send|recv): (?:transport endpoint is not connected"
        r"|operation now in progress|connection refused)",
        ("peer-not-listening", "peer-unreachable", "firewall"),
        ("# the peer: does its program listen, by RDMA too (rstream without -T s)?", AT_PEER),
        errno=Errno.LAST,
    ),
    # The connection was refused, or ended, and the socket has no error of its own any more.
    sign(
        "rsocket-not-connected",
        Kind.FAILURE,
        Stage.CONNECT,
        r"\br(?:poll|connect|send|recv): success$",
        ("peer-refused", "peer-gone", "peer-not-listening"),
        ("# the peer: can its program make a queue pair? /etc/rdma/rsocket of it", AT_PEER),
        errno=Errno.STALE,
    ),
    sign(
        "arguments-differ",
        Kind.FAILURE,
        Stage.CONNECT,
        r"^[a-z][\w .-]{1,60} mismatch: local=[^ ,]{1,60}, remote=",
        ("arguments-differ", "other-program"),
    ),
    sign(
        "versions-differ",
        Kind.FAILURE,
        Stage.CONNECT,
        r"not compatible with versions older than|couldn't parse line <",
        ("other-program",),
        (_SAME_TEST, AT_PEER),
    ),
    sign(
        "payload-above-mtu",
        Kind.FAILURE,
        Stage.CREATE_QP,
        r"requested size larger than port mtu|max message size in ud cannot be greater than mtu",
        ("mtu-above-port",),
        ("# UD sends no message that is longer than a frame: a smaller -s",),
    ),
    # Of perftest -c XRC; the device opens no domain of that kind.
    sign(
        "capability-absent",
        Kind.FAILURE,
        Stage.CREATE_QP,
        r"error opening xrc domain|couldn't create xrc resources",
        ("qp-type-unsupported", "device-lacks-capability"),
        ("rdmadiag capabilities{on}",),
    ),
    sign(
        "no-memory",
        Kind.FAILURE,
        Stage.REG_MR,
        r"^couldn't allocate work buf",
        ("no-memory",),
        ("ulimit -a   # as the job has it: virtual memory", "free -h"),
    ),
    # --- the two ends meet --------------------------------------------------------------------
    # getaddrinfo, as the pingpongs, perftest and rping print what it says of a name.
    sign(
        "address-unknown",  # of digits alone, which asks no DNS
        Kind.FAILURE,
        Stage.RESOLVE_ADDRESS,
        r"^(?:temporary failure in name resolution|name or service not known)"
        r" for [\d.]{3,40}:\d{1,5}$",
        ("peer-address-wrong", "name-not-resolved"),
        ("getent ahosts PEER",),
    ),
    sign(
        "name-unknown",
        Kind.FAILURE,
        Stage.RESOLVE_ADDRESS,
        r"^(?:temporary failure in name resolution|name or service not known"
        r"|no address associated with hostname|non-recoverable failure in name resolution)"
        r" for [^ ]{1,255}:\d{1,5}$|getaddrinfo failed \(.{1,80}invalid hostname or ip address",
        ("name-not-resolved", "peer-address-wrong"),
        ("getent ahosts PEER", "cat /etc/hosts /etc/resolv.conf"),
    ),
    sign(
        PORT_PRIVILEGED,
        Kind.FAILURE,
        Stage.CONNECT,
        r"couldn't listen to port (?:\d{1,3}|10[01]\d|102[0-3])\b",
        ("tcp-port-privileged", "tcp-port-taken"),
    ),
    # ibv_*_pingpong, which take row 0 of the partition keys
    sign(
        PORT_OF_PINGPONG,
        Kind.FAILURE,
        Stage.INIT,
        r"^failed to modify qp to init$",
        ("no-such-port", "access-flags", "pkey-index"),
    ),
    sign(
        "port-taken",
        Kind.FAILURE,
        Stage.CONNECT,
        r"couldn't listen to port \d+",
        ("tcp-port-taken", "tcp-port-privileged"),
    ),
    sign(
        "gids-do-not-fit",
        Kind.FAILURE,
        Stage.RTR,
        r"incompatibility issue with gid types",
        ("gid-index-or-family", "gid-families-differ", "gid-row-empty"),
        (GIDS, ADDRESSES, "# both ends: rows of one family, none empty: -x"),
    ),
    *_by_number(),
    # The first thing that perftest reads from its peer is what that one calls itself.
    sign(
        "peer-says-nothing-known",
        Kind.CONSEQUENCE,
        Stage.CONNECT,
        r"ethernet_read_data: couldn't read reports",
        ("other-program", "peer-gone"),
        (_SAME_TEST, AT_PEER),
        errno=Errno.STALE,
    ),
    sign(
        "peer-left",
        Kind.CONSEQUENCE,
        Stage.CONNECT,
        r"(?:ethernet_read_keys: |\d+/\d+: |^)couldn't read remote address"
        r"|couldn't read/write remote address|^(?:client read/write|server read): "
        r"|couldn't send(?:/recv)? local address|couldn't send reports"
        r"|unable to (?:read|write) (?:from|to) socket/rdma_cm"
        r"|failed to exchange .{0,60}between server and client"
        r"|failed to close connection between server and client"
        r"|failed to sync between server and client",
        ("peer-gone", "other-program"),
        (AT_PEER, _SAME_TEST),
        errno=Errno.STALE,
    ),
    # --- devices and ports ---------------------------------------------------------------------
    sign(
        "no-such-port",
        Kind.FAILURE,
        Stage.OPEN,
        r"unable to query port (?:info for port )?\d+(?: attributes)?$|couldn't get port info",
        ("no-such-port", "device-removed", "uverbs-node-stale"),
        (DEVICES,),
    ),
)
