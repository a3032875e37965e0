"""The steps by librdmacm that every attempt takes: the channel, an address, a route, a queue pair.

Each is written down before it is made, and none is made twice.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.cm import CmEvent
from rdmadiag.facts.ib import MTU_BYTES, QpState
from rdmadiag.verbs import records
from rdmadiag.verbs.abi import IbvQpAttr
from rdmadiag.verbs.bounds import Bounds
from rdmadiag.verbs.cm_end import CmEnd
from rdmadiag.verbs.cm_events import RESOLVE_MILLISECONDS, RESOLVE_SECONDS, Events
from rdmadiag.verbs.cm_load import loaded
from rdmadiag.verbs.cm_meeting import Side
from rdmadiag.verbs.cm_objects import AddressInfo, EventChannel, Identifier
from rdmadiag.verbs.cm_ud import end_of
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.open_end import Failed
from rdmadiag.verbs.protocol import End
from rdmadiag.verbs.recorded_caller import RecordedCaller
from rdmadiag.verbs.records import CmRequest, EndName
from rdmadiag.verbs.transcript import Transcript

_BACKLOG: Final = 8


class Steps:
    """Those of one run, and what they have made."""

    def __init__(self, request: CmRequest, transcript: Transcript, bounds: Bounds) -> None:
        self.request = request
        self.transcript = transcript
        self.bounds = bounds
        self.stage = Stage.EVENT_CHANNEL
        self.sides: list[Side] = []
        self.members: list[Side] = []  # of the multicast group, by which data then goes
        self._channel: EventChannel | None = None
        self._listener: Identifier | None = None

    def begin(self, stage: Stage) -> None:
        """A stage, which each call from here on is of."""
        self.stage = stage
        self.local.stage = self.remote.stage = stage
        self.transcript.write(records.StageBegan(stage=stage))

    def open(self) -> None:
        """Both libraries and the event channel."""
        write = self.transcript.write
        write(records.StageBegan(stage=Stage.EVENT_CHANNEL))
        request = self.request
        try:
            library = loaded(request.library, request.cm_library, request.node, self.transcript)
        except CallFailed as failed:
            text = str(failed.__cause__ or "")
            raise Failed(Stage.EVENT_CHANNEL, failed.call, "", failed.errno, text) from failed
        self.library = library
        self.local = RecordedCaller(library, self.transcript, EndName.LOCAL)
        self.remote = RecordedCaller(library, self.transcript, EndName.REMOTE)
        self.local.stage = Stage.EVENT_CHANNEL
        self._channel = self.do(Stage.EVENT_CHANNEL, lambda: EventChannel(self.local))
        self.events = Events(self._channel, library.call, self.bounds, write)

    def do(self, stage: Stage, make: Any) -> Any:
        """What `make` returns; raises Failed where a call did."""
        try:
            return make()
        except CallFailed as failed:
            device = self.request.ends[0].device
            raise Failed(stage, failed.call, device, failed.errno) from failed

    def bind(self, caller: RecordedCaller, name: EndName, address: str, port: int) -> Identifier:
        """What listens at that address."""
        kind = self.request.ends[-1].qp_type
        self.begin(Stage.BIND)
        made: Identifier = self.do(
            Stage.BIND, lambda: Identifier.create(caller, self._opened, kind)
        )
        self._listener = made
        info = self.do(Stage.BIND, lambda: AddressInfo(caller, address, port, kind, passive=True))
        try:
            self.do(Stage.BIND, lambda: made.bind(info))
        finally:
            info.close()
        Side.check(made, self.request.ends[-1])
        self.begin(Stage.LISTEN)
        self.do(Stage.LISTEN, lambda: made.listen(_BACKLOG))
        return made

    @property
    def _opened(self) -> EventChannel:
        assert self._channel
        return self._channel

    def resolve(self, caller: RecordedCaller, host: str, port: int) -> Side:
        """This end up to its queue pair: source, address, route."""
        own = self.request.addresses[0]
        side = self.resolve_address(caller, EndName.LOCAL, host, port, own, self.sides)
        identifier, end = side.identifier, self.request.ends[0]
        self.begin(Stage.RESOLVE_ROUTE)
        self.do(Stage.RESOLVE_ROUTE, lambda: identifier.resolve_route(RESOLVE_MILLISECONDS))
        self.wait(side, Stage.RESOLVE_ROUTE, CmEvent.ROUTE_RESOLVED, RESOLVE_SECONDS)
        side.end = self.end(caller, identifier, end)
        return side

    def resolve_address(
        self,
        caller: RecordedCaller,
        name: EndName,
        host: str,
        port: int,
        own: str,
        among: list[Side],
    ) -> Side:
        """An identifier with a device, by which it would send there; `own` is its source."""
        end = self.request.ends[list(EndName).index(name)]
        kind = end.qp_type
        self.begin(Stage.RESOLVE_ADDRESS)
        identifier = self.do(
            Stage.RESOLVE_ADDRESS, lambda: Identifier.create(caller, self._opened, kind)
        )
        side = Side(name, identifier)
        among.append(side)
        infos: list[AddressInfo] = []

        def address(*arguments: Any, **more: Any) -> AddressInfo:
            infos.append(AddressInfo(caller, *arguments, **more))
            return infos[-1]

        try:
            source = None
            if own:
                source = self.do(Stage.RESOLVE_ADDRESS, lambda: address(own, 0, kind, passive=True))
            target = self.do(
                Stage.RESOLVE_ADDRESS, lambda: address(host, port, kind, source=source)
            )
            self.do(
                Stage.RESOLVE_ADDRESS,
                lambda: identifier.resolve_address(target, RESOLVE_MILLISECONDS),
            )
        finally:
            for each in infos:
                each.close()
        self.wait(side, Stage.RESOLVE_ADDRESS, CmEvent.ADDR_RESOLVED, RESOLVE_SECONDS)
        Side.check(identifier, end)
        return side

    def end(self, caller: RecordedCaller, identifier: Identifier, facts: End) -> CmEnd:
        """The queue pair of an identifier and what belongs to it; raises Failed."""
        request = self.request
        made = end_of(facts.qp_type)
        return made(caller, identifier, facts, request.sizes, events=request.events)

    def wait(
        self,
        side: Side,
        stage: Stage,
        awaited: CmEvent,
        seconds: float,
        watched: Sequence[Identifier] = (),
    ) -> Any:
        """The event that is to come; raises what Events.wait does."""
        return self.events.wait(side.identifier, side.name, stage, awaited, seconds, watched)

    def attributes(self, side: Side) -> IbvQpAttr:
        """Of its queue pair; raises Failed."""
        assert side.end
        found: IbvQpAttr = self.do(Stage.ESTABLISH, side.end.attributes)
        return found

    def show(
        self, side: Side, attributes: IbvQpAttr, addresses: tuple[str, str] | None = None
    ) -> None:
        """What the connection manager has made of this end."""
        end = side.end
        assert end
        path = attributes.ah_attr
        own, peer = addresses or (side.identifier.own, side.identifier.peer)
        state = QpState.from_number(attributes.qp_state)
        if state is QpState.RESET:
            state = None  # ESTABLISHED: a provider that leaves it out, as siw of Linux 6.1
        self.transcript.write(
            records.ConnectionMade(
                end=side.name,
                address=own,
                peer=peer,
                state=state,
                mtu=MTU_BYTES.get(attributes.path_mtu),
                queue_pair=end.queue_pair.number,
                psn=attributes.sq_psn,
                remote_queue_pair=attributes.dest_qp_num,
                gid_index=path.grh.sgid_index if path.is_global else None,
            )
        )

    def glance(self) -> None:
        """Raises where the run is to end: its deadline, a signal, an event of an end."""
        self.bounds.glance()
        for side in (*self.sides, *self.members):
            self.events.glance(self.stage, side.name, [side.identifier])

    def tear_down(self) -> None:
        """What was made last first; what refuses is in the transcript."""
        self.transcript.write(records.StageBegan(stage=Stage.TEARDOWN))
        for side in reversed((*self.sides, *self.members)):
            with suppress(Failed, CallFailed):
                side.close()
        for made in (self._listener, self._channel):
            if made:
                self.local.stage = self.remote.stage = Stage.TEARDOWN
                with suppress(CallFailed):
                    made.close()
