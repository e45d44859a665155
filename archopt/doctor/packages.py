"""Python and the packages: installed, of versions that fit, and loading."""

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from typing import TYPE_CHECKING

from archopt.doctor.findings import Finding

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

OPTIONAL = ("xformers",)  # only CUDA needs it: see `machine`
MAX_CAUSE = 130  # characters of what somebody else's package says


def package_findings() -> Iterator[Finding]:
    """Python, what archopt requires, and the integrations whose packages are here."""
    try:
        lines, python = requires("archopt") or [], metadata("archopt")["Requires-Python"]
    except PackageNotFoundError:
        yield Finding(
            "archopt", "no installation", "archopt runs from a folder that is not installed: pip install . there"
        )
        return
    try:
        from packaging.requirements import Requirement
        from packaging.specifiers import SpecifierSet
    except ImportError:
        yield Finding("packaging", "not installed", "packaging is not installed: pip install packaging")
        return
    here = platform.python_version()
    fits = SpecifierSet(python).contains(here, prereleases=True)
    yield Finding(
        "python", f"{here} on {platform.platform()}", "" if fits else f"archopt needs Python {python}: install one"
    )
    yield Finding("archopt", version("archopt"))
    for line in lines:
        need = Requirement(line)
        if need.name in OPTIONAL or (need.marker is not None and not need.marker.evaluate()):
            continue
        yield _required(need.name, need.specifier)
    yield from _integrations()


def torch_finding() -> Finding:
    """Whether torch loads; it is installed by now."""
    try:
        import torch
    except Exception as error:  # a broken build raises whatever its first failing library does
        return Finding(
            "torch", "does not load", f"torch does not load ({cause(error)}): pip install --force-reinstall torch"
        )
    return Finding("torch", f"{torch.__version__} loads, {torch.get_num_threads()} threads")


def cause(error: BaseException) -> str:
    """What an error says, on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:MAX_CAUSE]


def _required(name: str, specifier: "SpecifierSet") -> Finding:
    wanted, found = f"'{name}{specifier}'", _version(name)
    if found is None:
        return Finding(name, "not installed", f"{name} is not installed: pip install {wanted}")
    if specifier.contains(found, prereleases=True):
        return Finding(name, found)
    return Finding(name, found, f"{name} {found} does not fit ({specifier}): pip install {wanted}")


def _integrations() -> Iterator[Finding]:
    """A misfit is a fault where archopt's own plugin is installed, which would refuse to run; else worth a line."""
    from archopt.versions import INTEGRATIONS, misfits, remedy

    for integration, needs in INTEGRATIONS.items():
        here = [(need.package, found) for need in needs if (found := _version(need.package)) is not None]
        if not here:
            continue
        shown, plugin = ", ".join(f"{package} {found}" for package, found in here), f"archopt-{integration}"
        faults = misfits(integration)
        if faults and _version(plugin) is None:
            yield Finding(f"for {integration}", f"{shown}; {plugin} would not run: {'; '.join(faults)}")
        elif faults:
            yield Finding(f"for {integration}", shown, f"{plugin}: {'; '.join(faults)}: {remedy(integration)}")
        else:
            yield Finding(f"for {integration}", f"{shown} fit together")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
