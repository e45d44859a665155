"""Everything that is looked at, in the order in which one thing needs the other."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from archopt.doctor.findings import Finding
from archopt.doctor.kernels import HEAD_DIMS, KernelTiming, check_head_dims, time_kernels
from archopt.doctor.machine import core_finding, device_findings, memory_finding
from archopt.doctor.packages import cause, package_findings, torch_finding
from archopt.doctor.storages import storage_finding


@dataclass(frozen=True)
class Examination:
    """What was found.

    Attributes:
        findings: one for each thing that was looked at.
        kernels: a row for each head width, none where torch does not load.
    """

    findings: tuple[Finding, ...]
    kernels: tuple[KernelTiming, ...]

    @property
    def faults(self) -> tuple[str, ...]:
        """What is broken and what to do, one line each."""
        return tuple(finding.fault for finding in self.findings if finding.fault)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; schema "archopt.doctor/1"."""
        return {
            "schema": "archopt.doctor/1",
            "sound": not self.faults,
            "faults": list(self.faults),
            "findings": [asdict(finding) for finding in self.findings],
            "kernels": [asdict(timing) for timing in self.kernels],
        }


def examine(storage: str | None = None, head_dims: Sequence[int] = HEAD_DIMS) -> Examination:
    """Look at this machine; changes nothing on it.

    Args:
        storage: URL of a storage to reach; None looks at the folder that a search writes to.
        head_dims: widths of heads whose attention kernels are timed.

    Raises:
        OptionError: a width that cannot be timed.
    """
    check_head_dims(head_dims)
    findings = list(package_findings())
    lacking = {finding.name for finding in findings if finding.found == "not installed"}
    findings += [core_finding(), memory_finding()]
    kernels: tuple[KernelTiming, ...] = ()
    if "torch" not in lacking:
        findings.append(torch_finding())
        if not findings[-1].fault:
            found, kernels = _with_torch(head_dims)
            findings += found
    if lacking - {"torch"}:
        findings.append(Finding("storage", "not looked at, for want of packages"))
    else:
        findings.append(storage_finding(storage))
    return Examination(tuple(findings), kernels)


def _with_torch(head_dims: Sequence[int]) -> tuple[list[Finding], tuple[KernelTiming, ...]]:
    from archopt.campaign.device import resolve_device

    found = list(device_findings())
    device = resolve_device("auto", "auto")
    try:
        return found, time_kernels(head_dims, device)
    except RuntimeError as error:  # torch's, of a kernel that this card has not
        fault = f"attention fails on {device} ({cause(error)}): try --attention explicit, or --device cpu"
        return [*found, Finding("attention", "fails", fault)], ()
