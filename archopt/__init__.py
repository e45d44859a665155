"""archopt: how many attention heads, how wide, how weighted, for your data set size, and how sure that is."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archopt import sklearn, theory
    from archopt.allocation import HeadAllocation, feasible_allocations
    from archopt.campaign import GridResult, WorkDone, cells_frame, join_campaign, search, search_grid
    from archopt.data import Task
    from archopt.errors import ArchoptError
    from archopt.laws import ScalingLaw, fit_scaling_law, recommend_size
    from archopt.models.extractors import register_extractor
    from archopt.models.key_projections import key_projections, module_diversity
    from archopt.pruners import HDIPruner, diversity_worth
    from archopt.recommendation import Recommendation, recommend
    from archopt.samplers import HeadAllocationSampler
    from archopt.search_space import record_diversity, replicate, report_diversity, suggest_allocation

__version__ = "0.1.0"

__all__ = [
    "ArchoptError",
    "GridResult",
    "HDIPruner",
    "HeadAllocation",
    "HeadAllocationSampler",
    "Recommendation",
    "ScalingLaw",
    "Task",
    "WorkDone",
    "__version__",
    "cells_frame",
    "diversity_worth",
    "feasible_allocations",
    "fit_scaling_law",
    "join_campaign",
    "key_projections",
    "module_diversity",
    "recommend",
    "recommend_size",
    "record_diversity",
    "register_extractor",
    "replicate",
    "report_diversity",
    "search",
    "search_grid",
    "sklearn",
    "suggest_allocation",
    "theory",
]

# Loaded on first use, so that `import archopt` and `archopt --help` stay light and need no torch.
_HOMES = {
    "ArchoptError": "archopt.errors",
    "GridResult": "archopt.campaign",
    "HDIPruner": "archopt.pruners",
    "HeadAllocation": "archopt.allocation",
    "HeadAllocationSampler": "archopt.samplers",
    "Recommendation": "archopt.recommendation",
    "ScalingLaw": "archopt.laws",
    "Task": "archopt.data",
    "WorkDone": "archopt.campaign",
    "cells_frame": "archopt.campaign",
    "diversity_worth": "archopt.pruners",
    "feasible_allocations": "archopt.allocation",
    "fit_scaling_law": "archopt.laws",
    "join_campaign": "archopt.campaign",
    "key_projections": "archopt.models.key_projections",
    "module_diversity": "archopt.models.key_projections",
    "recommend": "archopt.recommendation",
    "recommend_size": "archopt.laws",
    "record_diversity": "archopt.search_space",
    "register_extractor": "archopt.models.extractors",
    "replicate": "archopt.search_space",
    "report_diversity": "archopt.search_space",
    "search": "archopt.campaign",
    "search_grid": "archopt.campaign",
    "suggest_allocation": "archopt.search_space",
}


def __getattr__(name: str) -> Any:
    if name in ("sklearn", "theory"):
        return importlib.import_module(f"archopt.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'archopt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
