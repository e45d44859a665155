"""archopt's OptunaHub packages, where ``optunahub.load_local_module`` can find them without a network."""

from pathlib import Path

REGISTRY_ROOT = str(Path(__file__).parent / "package")
"""For ``optunahub.load_local_module("samplers/head_allocation", registry_root=REGISTRY_ROOT)``."""
