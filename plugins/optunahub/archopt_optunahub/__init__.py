"""archopt's OptunaHub packages, where ``optunahub.load_local_module`` can find them without a network.

Raises:
    PluginError: optunahub is missing or of a version that does not fit.
"""

from pathlib import Path

from archopt.versions import require

require("optunahub")

REGISTRY_ROOT = str(Path(__file__).parent / "package")
"""For ``optunahub.load_local_module("samplers/head_allocation", registry_root=REGISTRY_ROOT)``."""
