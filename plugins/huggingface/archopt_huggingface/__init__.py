"""`transformers.Trainer.hyperparameter_search` with Optuna: the diversity of heads beside every value it reports.

Raises:
    PluginError: transformers or accelerate is missing or of a version that does not fit.
"""

from archopt.versions import require

require("huggingface")

from archopt_huggingface.callback import DiversityCallback  # noqa: E402

__all__ = ["DiversityCallback"]
