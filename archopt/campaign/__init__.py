"""What `archopt search` runs: studies in a storage, workers that train, recommendations and a table at the end."""

from archopt.campaign.cells_table import cells_frame, load_campaign_cells
from archopt.campaign.grid import search_grid
from archopt.campaign.grid_cells import SearchOptions
from archopt.campaign.grid_result import GridCell, GridResult
from archopt.campaign.search import search
from archopt.campaign.settings import Settings
from archopt.campaign.worker import WorkDone, join_campaign

__all__ = [
    "GridCell",
    "GridResult",
    "SearchOptions",
    "Settings",
    "WorkDone",
    "cells_frame",
    "join_campaign",
    "load_campaign_cells",
    "search",
    "search_grid",
]
