"""The processes that train a campaign's trials on this machine."""

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

from archopt.campaign.cell import Cell
from archopt.campaign.device import visible_gpus
from archopt.campaign.settings import Settings
from archopt.evaluation.workers import WorkerPool


@contextmanager
def training_pool(settings: Settings, cell: Cell) -> Iterator[WorkerPool]:
    """Workers of a cell: one a core, or one a GPU; linear algebra here must not take the cores from them."""
    device = cell.recipe.device
    n_workers, n_threads = settings.workers_and_threads(device)
    gpus = visible_gpus() if device == "cuda" else ()
    with (
        threadpool_limits(1),
        WorkerPool(cell.dataset, cell.recipe, n_workers=n_workers, n_threads=n_threads, gpus=gpus) as pool,
    ):
        yield pool
