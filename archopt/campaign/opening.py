"""A campaign is opened: folder, storage, settings compared, study made or resumed, its first trials queued."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from archopt.allocation import is_prime
from archopt.campaign.cell import Cell
from archopt.campaign.comparison import opening_trials
from archopt.campaign.joining import record_campaign
from archopt.campaign.output_folder import prepare_folder, remove_folders
from archopt.campaign.settings import Settings
from archopt.campaign.storage import SETTINGS_KEY, load_settings, open_storage, refuse_other_settings
from archopt.errors import StorageError
from archopt.report.progress import SearchProgress
from archopt.search_space import WARMUP, WEIGHT_DECAY

if TYPE_CHECKING:
    import optuna

    from archopt.campaign.patient_storage import PatientStorage
    from archopt.samplers import HeadAllocationSampler


def open_campaign(settings: Settings, cell: Cell, progress: SearchProgress) -> "tuple[optuna.Study, PatientStorage]":
    """The campaign's study, new or resumed.

    Raises:
        StorageError: the folder or the storage fails, or holds a campaign with other settings; nothing has been
            written then.
    """
    name, folder = settings.campaign_name(), settings.folder()
    identity = cell.identity(settings)
    made = prepare_folder(folder)  # before a storage is made that would stay behind
    try:
        url = settings.storage or f"sqlite:///{(folder / 'study.db').absolute()}"
        storage = open_storage(url, locks=True, tell=progress.note)
        before = load_settings(storage, name)
        if before is not None:
            refuse_other_settings(name, before, identity)
    except StorageError:
        remove_folders(made)
        raise
    for line in [*cell.dataset.notes, *cell.summary.notes]:
        progress.note(line)
    for line in width_warnings(settings.d_model):
        progress.note(f"warning: {line}")
    if before is not None:
        progress.note(f"resuming campaign {name}")
    study = open_study(settings, cell, storage, identity)
    record_campaign(study, settings, cell.recipe.device)  # first: from now on others may join
    queue_opening(study, opening_of(settings, cell))
    return study, storage


def width_warnings(d_model: int) -> list[str]:
    """A line where the width leaves next to no choice."""
    if not is_prime(d_model):
        return []
    return [
        f"d_model = {d_model} is prime, so only 1 head or {d_model} heads of width 1 "
        f"divide it; {d_model + 1} or {d_model - 1} leave a choice"
    ]


def open_study(
    settings: Settings, cell: Cell, storage: "optuna.storages.RDBStorage", identity: dict[str, Any]
) -> "optuna.Study":
    """The study of the campaign's name, made or loaded, with its settings beside it; no trial is queued."""
    import optuna

    study = optuna.create_study(
        study_name=settings.campaign_name(),
        storage=storage,
        direction="minimize",
        load_if_exists=True,
        sampler=sampler_of(settings, cell),
    )
    if SETTINGS_KEY not in study.user_attrs:
        study.set_user_attr(SETTINGS_KEY, identity)
    return study


def sampler_of(settings: Settings, cell: Cell, warm_start: "Sequence[optuna.Study]" = ()) -> "HeadAllocationSampler":
    """What proposes a cell's trials, told what other cells have found."""
    from archopt.samplers import HeadAllocationSampler

    return HeadAllocationSampler(
        d_model=settings.d_model,
        n_samples=cell.dataset.n_samples,
        intrinsic_dim=cell.summary.intrinsic_dim,
        family=cell.summary.family,
        seed=settings.seed,
        warm_start=warm_start,
    )


def opening_of(settings: Settings, cell: Cell) -> list[dict[str, Any]]:
    """The first trials of a cell: today's practices and the closed form under every learning rate."""
    recipe = cell.recipe
    usual = {WEIGHT_DECAY: recipe.weight_decay, WARMUP: recipe.warmup_steps / recipe.n_steps}
    return opening_trials(settings.allocations(), cell.theory.nearest, cell.distributions, usual)


def queue_opening(study: "optuna.Study", opening: list[dict[str, Any]]) -> None:
    """Queue the first trials, or those that a run which was killed while it queued them did not reach."""
    if len(study.get_trials(deepcopy=False)) >= len(opening):
        return
    for params in opening:
        study.enqueue_trial(params, skip_if_exists=True)
