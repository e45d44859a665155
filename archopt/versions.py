"""Which versions of other people's packages fit together, as far as archopt's own tests have run them."""

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from packaging.specifiers import SpecifierSet

from archopt.errors import PluginError


@dataclass(frozen=True)
class Requirement:
    """One package of an integration.

    Attributes:
        package: its name on PyPI.
        fits: a version specifier, such as ">=1.4.0rc3,<2".
        tested: the version that archopt's tests run.
        why: what goes wrong with others; empty where they are merely untried.
    """

    package: str
    fits: str
    tested: str
    why: str = ""


INTEGRATIONS: dict[str, tuple[Requirement, ...]] = {
    "hydra": (
        Requirement("hydra-core", ">=1.4.0rc3,<2", "1.4.0rc3", "the sweeper for Optuna 5 needs it"),
        Requirement("hydra-optuna-sweeper", ">=1.4.0rc3,<2", "1.4.0rc3", "1.3 needs an Optuna before 3"),
    ),
    "lightning": (
        Requirement(
            "lightning", ">=2.4,!=2.6.2,!=2.6.3,<3", "2.6.6", "2.6.2 and 2.6.3 were malicious, GHSA-w37p-236h-pfx3"
        ),
        Requirement("optuna-integration", ">=4.5", "5.0.0"),
    ),
    "huggingface": (
        Requirement("transformers", ">=4.50,<6", "5.24.0"),
        Requirement("accelerate", ">=1.1", "1.16.0", "Trainer needs it"),
    ),
    "optunahub": (Requirement("optunahub", ">=0.3", "0.5.0"),),
}


def require(integration: str) -> None:
    """Refuse to go on where a package that an integration needs is missing or of a version that does not fit.

    Args:
        integration: a key of ``INTEGRATIONS``.

    Raises:
        PluginError: one line with every misfit, and what to install.
    """
    found = misfits(integration)
    if found:
        raise PluginError(f"archopt with {integration}: {'; '.join(found)}: {remedy(integration)}")


def misfits(integration: str) -> list[str]:
    """What is missing, or of a version that does not fit, of an integration's packages."""
    return [told for told in map(_misfit, INTEGRATIONS[integration]) if told]


def remedy(integration: str) -> str:
    """The command that installs the versions that were tested."""
    wanted = (f"'{need.package}=={need.tested}'" for need in INTEGRATIONS[integration])
    return f"pip install {' '.join(wanted)}"


def _misfit(need: Requirement) -> str | None:
    try:
        found = version(need.package)
    except PackageNotFoundError:
        return f"{need.package} is not installed"
    if SpecifierSet(need.fits).contains(found, prereleases=True):
        return None
    return f"{need.package} {found} does not fit ({need.fits}{f'; {need.why}' if need.why else ''})"
