"""What a device's own driver reports of its health by devlink."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.facts.devlink import DevlinkDevice, Reporter, ReporterState
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import seen
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity

_FATAL: Final = "fw_fatal"  # of mlx5 and others: after it the device does nothing until a reset


@rule(
    "device-health-error",
    Severity.WARN,
    "A health reporter of the device is in error",
    "The driver watches firmware and queues, and one of its devlink health reporters is in the "
    "state error: something failed, and was not recovered. Ports may stay ACTIVE for days while "
    "nothing gets through. Critical for fw_fatal, after which a device does nothing until it is "
    "reset. Errors that were recovered are not found here: the counts are in the report.",
    (
        "https://docs.kernel.org/networking/devlink/devlink-health.html",
        "https://github.com/NVIDIA/NVSentinel/issues/1334",
    ),
    remedy=(
        "devlink health show {handle} reporter {reporter}",
        "sudo dmesg | grep {name}",
        "sudo devlink health diagnose {handle} reporter {reporter}",
        "sudo devlink health recover {handle} reporter {reporter}   # traffic stops for a while",
    ),
    needs=("devices", "health reporters"),
)
def device_health_error(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding a reporter, at the first device that stands on it."""
    for device, below in _below(case):
        for each in () if isinstance(below.reporters, Missing) else below.reporters:
            if each.state is not ReporterState.ERROR:
                continue
            at = "" if each.port is None else f" of port {each.port}"
            yield this.finding(
                f"{device}: health reporter {each.name}{at}, {below.bus}/{below.name}, is in error",
                device=device,
                severity=Severity.CRITICAL if each.name == _FATAL else None,
                evidence=_proofs(below, each),
                fill={
                    "handle": f"{below.bus}/{below.name}"
                    + ("" if each.port is None else f"/{each.port}"),
                    "name": below.name,
                    "reporter": each.name,
                },
            )


def _below(case: Case) -> Iterator[tuple[str, DevlinkDevice]]:
    """What the selected devices stand on, once, each with the first of them."""
    facts = case.evidence.devlink
    selected = [each.name for each in case.devices]
    for below in () if isinstance(facts, Missing) else facts.devices:
        mine = [name for name in selected if name in below.devices]
        if mine:
            yield mine[0], below


def _proofs(below: DevlinkDevice, reporter: Reporter) -> Iterator[Proof]:
    of = f"of {reporter.name}, {below.bus}/{below.name}"
    yield Proof("devlink", f"DEVLINK_ATTR_HEALTH_REPORTER_STATE {of}", seen(reporter.state))
    yield Proof("devlink", f"DEVLINK_ATTR_HEALTH_REPORTER_ERR_COUNT {of}", seen(reporter.errors))
    yield Proof(
        "devlink", f"DEVLINK_ATTR_HEALTH_REPORTER_RECOVER_COUNT {of}", seen(reporter.recoveries)
    )


@rule(
    "firmware-waits-for-reset",
    Severity.INFO,
    "The firmware that runs is not the one that is stored",
    "A firmware was written to the device, and another one runs until the device is reset. What "
    "the new one mends is not mended yet, and hosts of one fleet differ.",
    ("https://docs.kernel.org/networking/devlink/devlink-info.html",),
    remedy=(
        "devlink dev info {handle}",
        "sudo devlink dev reload {handle} action fw_activate   # its links go down; or reboot",
    ),
    needs=("devices", "firmware versions"),
)
def firmware_waits_for_reset(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding a device, of the first version that is in both lists and differs."""
    for device, below in _below(case):
        if isinstance(below.info, Missing):
            continue
        running = {each.name: each.value for each in below.info.running}
        waits = [
            each
            for each in below.info.stored
            if each.name.startswith("fw") and running.get(each.name, each.value) != each.value
        ]
        if not waits:
            continue
        first, of = waits[0], f"of {below.bus}/{below.name}"
        now = running[first.name]
        yield this.finding(
            f"{device}: {first.name} {now} runs, and {first.value} waits for a reset",
            device=device,
            evidence=(
                Proof("devlink", f"DEVLINK_ATTR_INFO_VERSION_RUNNING {of}", f"{first.name} {now}"),
                Proof(
                    "devlink",
                    f"DEVLINK_ATTR_INFO_VERSION_STORED {of}",
                    f"{first.name} {first.value}",
                ),
            ),
            fill={"handle": f"{below.bus}/{below.name}"},
        )


RULES: Final[tuple[Rule, ...]] = (device_health_error, firmware_waits_for_reset)
