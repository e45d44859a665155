"""What `archopt search` runs: one study in a storage, workers that train, a recommendation at the end."""

from archopt.campaign.search import search
from archopt.campaign.settings import Settings

__all__ = ["Settings", "search"]
