"""What this machine has, and what of it is broken: packages, device, attention kernels, storage."""

from archopt.doctor.examination import Examination, examine
from archopt.doctor.findings import Finding
from archopt.doctor.kernels import KernelTiming

__all__ = ["Examination", "Finding", "KernelTiming", "examine"]
