"""The loop that hands completions to a callback and posts again what it says."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from rdmadiag.verbs.model.completion import WorkCompletion
from rdmadiag.verbs.model.context import Context, post_wrs
from rdmadiag.verbs.model.work_request import RecvWR, SendWR, link

Callback = Callable[..., int]
"""(completions, how many, the work requests, the further arguments…) → how many to post again."""

_NAP_SECONDS: Final = 0.0001
"""Between two looks, where a Context was made without notifications."""


def repost_loop(
    callback: Callback,
    context: Context,
    wrs: Sequence[RecvWR] | Sequence[SendWR],
    timeout_ms: float,
    *arguments: Any,
    seconds: float | None = None,
    count: int | None = None,
) -> int:
    """Call back for completions and post again; how many completions there were.

    `wrs` are all receives, or all sends, in use, each with its place as `wr_id`. The callback
    is called with the completions of every event, and with none where `timeout_ms` have
    passed without one. It points the requests that completed at their next buffers, and says
    how many of them, from the first on, are posted again: none by 0, and less than 0 ends the
    loop. InfinibandVerbs.jl's loop may run for ever; this one ends after `seconds`, or after
    `count` completions, of which at least one is given.

    Raises ValueError, PostFailed and CallFailed, and what the callback raises.
    """
    if seconds is None and count is None:
        raise ValueError("a loop ends after seconds=, or after count= completions")
    if not wrs:
        raise ValueError("no work requests")
    sends = isinstance(wrs[0], SendWR)
    until = float("inf") if seconds is None else time.monotonic() + seconds
    done = 0
    while time.monotonic() < until and (count is None or done < count):
        left = None if count is None else count - done
        found = _completed(context, min(until, time.monotonic() + timeout_ms / 1000), left, sends)
        done += len(found)
        again = callback(found, len(found), wrs, *arguments)
        if again < 0:
            break
        if again and found:
            _repost(context, wrs, found[:again])
    return done


def _completed(
    context: Context, until: float, most: int | None, sends: bool
) -> list[WorkCompletion]:
    """At least one completion, or none at `until`."""
    queue = context.queue(sends=sends)
    while not (found := queue.poll(most)):
        if queue.channel is None or not context.notifies(sends=sends):
            if time.monotonic() >= until:
                break
            time.sleep(_NAP_SECONDS)
            continue
        context.arm(sends=sends)
        if found := queue.poll(most):  # what came before it was armed makes no event
            break
        event = queue.channel.get_event(until - time.monotonic())
        if event is None:
            break
        event.ack()
    return found


def _repost(
    context: Context, wrs: Sequence[RecvWR] | Sequence[SendWR], done: Sequence[WorkCompletion]
) -> None:
    for each in done:
        if not 0 <= each.wr_id < len(wrs):
            raise ValueError(f"wr_id {each.wr_id} is not the place of one of {len(wrs)} requests")
    again: list[Any] = [wrs[each.wr_id] for each in done]
    link(again)
    post_wrs(context, again)
