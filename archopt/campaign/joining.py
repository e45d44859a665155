"""What a campaign leaves in its storage for other machines to join it, and how they learn that it is over."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from archopt.campaign.cells_table import cells_of
from archopt.campaign.settings import Settings, time_limit
from archopt.campaign.storage import SPENT_KEY, STOPPED_KEY
from archopt.campaign.storage_url import masked
from archopt.errors import StorageError
from archopt.search_space import reading_note

if TYPE_CHECKING:
    import optuna

    from archopt.campaign.patient_storage import PatientStorage

CAMPAIGN_KEY = "archopt:campaign"
LOOK_SECONDS = 3.0  # between two looks at whether the campaign is over
SILENT_SECONDS = 90.0  # without a sign of life from a search: six of its heartbeats

_OF_THIS_MACHINE = ("storage", "out", "n_workers")  # and the first may hold a password


def record_campaign(
    study: "optuna.Study", settings: Settings, device: str, d_models: Sequence[int] = (), n_samples: Sequence[int] = ()
) -> None:
    """Leave what another machine needs to train for the same campaign.

    Args:
        study: the campaign's, or one of its cells'.
        settings: of the campaign, or of the whole of it where it has several cells.
        device: that trials are trained on: on another one the figures would differ.
        d_models, n_samples: as asked for, where it has several.
    """
    plain = {name: value for name, value in asdict(settings).items() if name not in _OF_THIS_MACHINE}
    plain["device"] = device
    found = {
        "campaign": settings.campaign_name(),
        "settings": {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()},
        "d_models": list(d_models),
        "n_samples": list(n_samples),
    }
    if study.user_attrs.get(CAMPAIGN_KEY) != found:
        study.set_user_attr(CAMPAIGN_KEY, found)


def recorded_campaign(storage: "optuna.storages.RDBStorage", name: str, url: str) -> dict[str, Any]:
    """What `record_campaign` left.

    Raises:
        StorageError: the storage holds no campaign of that name that can be joined, or another version of archopt
            recorded it.
    """
    import optuna

    names = optuna.get_all_study_names(storage)
    studies = [name] if name in names else list(cells_of(name, names))
    if not studies:
        held = ", ".join(repr(other[:60]) for other in names[:5]) or "none"
        raise StorageError(f"storage {masked(url)} holds no campaign {name[:60]!r}; its studies: {held}")
    for study_name in studies:
        study = optuna.load_study(study_name=study_name, storage=storage)
        found = study.user_attrs.get(CAMPAIGN_KEY)
        if found is not None:
            with reading_note(study, CAMPAIGN_KEY):
                Settings(**{**found["settings"], "name": found["campaign"]})
                return {**found, **{name: list(found[name]) for name in ("d_models", "n_samples")}}
    raise StorageError(
        f"campaign {name!r} was begun by an older archopt, or is none: run its `archopt search` again, then join it"
    )


def record_end(study: "optuna.Study", settings: Settings, because: str) -> None:
    """Leave that the campaign has come to its end, for other machines to leave; with other limits it goes on."""
    study.set_user_attr(STOPPED_KEY, {"limits": _limits(asdict(settings)), "because": because})


@dataclass
class CampaignEnd:
    """Asked for a reason to leave; it looks every few seconds. None while the campaign goes on.

    A campaign is over where its search has come to its end or has spent its time; one whose search shows no sign of
    life is left, too, but is not ``is_over``.
    """

    studies: "Sequence[optuna.Study]"
    storage: "PatientStorage"
    is_over: bool = False
    _looked: float = field(default=float("-inf"))
    _spent: float = -1.0  # as of the last sign of life
    _spent_now: float = -1.0
    _alive: float = field(default_factory=time.monotonic)
    _reason: str | None = None

    def __call__(self) -> str | None:
        now = time.monotonic()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            over = self._over()
            self.is_over = over is not None
            self._reason = over or self._silent(now)
        return self._reason

    def _over(self) -> str | None:
        known = [study.user_attrs for study in self.studies]
        self._spent_now = sum(float(each.get(SPENT_KEY, 0.0)) for each in known)
        settings = known[0][CAMPAIGN_KEY]["settings"]
        stopped = known[0].get(STOPPED_KEY)
        if stopped is not None and stopped["limits"] == _limits(settings):
            return f"the campaign is over: {stopped['because']}"
        seconds = time_limit(settings["n_trials"], settings["timeout_seconds"])
        if seconds is not None and self._spent_now >= seconds:
            return f"the campaign is over: its {seconds:.0f} s are spent"
        return None

    def _silent(self, now: float) -> str | None:
        if self._spent_now != self._spent:
            self._spent, self._alive = self._spent_now, now
        elif now - max(self._alive, self.storage.back_since) > SILENT_SECONDS:  # while it was away nobody could show
            return f"no search has run this campaign for {SILENT_SECONDS:.0f} s: start its `archopt search` again"
        return None


def _limits(settings: Mapping[str, Any]) -> list[float | None]:
    """As `TrialLoop` records them with an end: another budget, confidence or number of replicates goes on."""
    seconds = time_limit(settings["n_trials"], settings["timeout_seconds"])
    return [settings["n_trials"], seconds, settings["confidence"], settings["replicates"]]
