"""Lightning's Trainer inside an Optuna trial: the monitored value and the diversity of heads, reported together.

Raises:
    PluginError: Lightning or optuna-integration is missing or of a version that does not fit.
"""

from archopt.versions import require

require("lightning")

from archopt_lightning.callback import DiversityPruningCallback  # noqa: E402

__all__ = ["DiversityPruningCallback"]
