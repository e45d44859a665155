"""``hydra/sweeper/sampler=archopt`` for Hydra's Optuna sweeper.

Hydra imports what lies in the namespace ``hydra_plugins`` when an application starts.
"""

from dataclasses import dataclass
from typing import Any

from archopt.errors import PluginError
from archopt.versions import require

try:
    require("hydra")
except PluginError as misfit:
    raise ImportError(str(misfit)) from None  # which Hydra shows as a warning, and the application goes on without us

from hydra.core.config_store import ConfigStore


@dataclass
class HeadAllocationSamplerConfig:
    """The arguments of `archopt.HeadAllocationSampler`, which has their meaning and their defaults.

    ``warm_start`` is not among them: it takes studies, which a configuration cannot hold.
    """

    _target_: str = "archopt.HeadAllocationSampler"
    d_model: Any = None
    n_samples: float | None = None
    intrinsic_dim: float | None = None
    smoothness: float = 2.0
    family: str | None = None
    constant: float | None = None
    head_param: str = "n_heads"
    head_param_kind: str = "n_heads"
    base_sampler: Any = None
    seed: int | None = None


ConfigStore.instance().store(
    group="hydra/sweeper/sampler", name="archopt", node=HeadAllocationSamplerConfig, provider="archopt"
)
