"""`archopt.report`: the report of what a storage holds, a search or a campaign, finished or not, or any study."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archopt.campaign.cells_table import cells_frame, cells_of
from archopt.campaign.facts import law_facts, recorded_facts, recorded_outcome, with_facts
from archopt.campaign.grid_report import GridReport, fitted_law, write_grid_report
from archopt.campaign.grid_result import GridCell, GridResult
from archopt.campaign.output_folder import prepare_folder
from archopt.campaign.results import trial_rows
from archopt.campaign.settings import RESULTS_FOLDER
from archopt.campaign.stopping import count_trials
from archopt.campaign.storage import SETTINGS_KEY, SPENT_KEY, open_storage, storage_faults
from archopt.campaign.storage_url import masked, refuse_missing_file
from archopt.errors import OptionError
from archopt.recommendation import Recommendation, recommend
from archopt.search_space import read_records, recognise_head_parameter
from archopt.study_model import informed_prior, optimum_of
from archopt.surrogate import OptimumPrior

if TYPE_CHECKING:
    import optuna

    from archopt.laws import ScalingLaw


@dataclass(frozen=True)
class Written:
    """What a report came to.

    Attributes:
        name: of the search, campaign or study.
        files: report.html first, then the pictures and the reports of a campaign's cells.
        answer: `Recommendation.to_dict`, or `GridResult.to_dict` of a campaign over several sizes.
    """

    name: str
    files: tuple[Path, ...]
    answer: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; schema "archopt.report/1"."""
        return {"schema": "archopt.report/1", "name": self.name, "files": [str(path) for path in self.files]} | {
            "answer": self.answer
        }


def report(
    name: str,
    *,
    storage: str | None = None,
    out: str | Path | None = None,
    law: "ScalingLaw | None" = None,
    d_model: int | None = None,
    noise_sd: float | None = None,
    confidence: float | None = None,
    pictures: bool = True,
) -> Written:
    """Write the report of a search, a campaign over several sizes, or any Optuna study with a head parameter.

    It reads the storage alone, so that it can be made while trials run, and on another machine than they ran on.

    Args:
        name: of the search, the campaign, or the study.
        storage: Optuna storage URL; by default the one in archopt-results, where a search puts it.
        out: folder; by default that of the search, archopt-results/NAME.
        law: fitted to other sizes, to be shown beside what the study found; its n is needed for that.
        d_model, noise_sd: as for `archopt.recommend`, for studies that archopt did not make.
        confidence: of the confidence set; by default the search's, or 0.9.
        pictures: whether to write PNG files beside the page.

    Raises:
        OptionError: there is nothing of that name, or nothing in it has finished; an argument outside what is allowed.
        StorageError: the storage cannot be opened, or the folder not written.
        CampaignFailed: the storage stopped answering.
    """
    import optuna

    url = storage or _storage_here(name)
    folder = Path(out) if out is not None else _folder(name, storage)
    with storage_faults("while the report was made"):
        refuse_missing_file(url)
        opened = open_storage(url, heartbeats=False)
        names = optuna.get_all_study_names(opened)
        if name in names:
            study = optuna.load_study(study_name=name, storage=opened)
            beside = _cells_beside(name, names, opened) if recorded_facts(study) else []
            found = _Found.of(study, beside, d_model=d_model, noise_sd=noise_sd, confidence=confidence)
            prepare_folder(folder)
            return Written(name, tuple(found.write(folder, law, pictures=pictures)), found.plain(law))
        cells = cells_of(name, names)
        if not cells:
            held = ", ".join(repr(other[:60]) for other in names[:5]) or "none"
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            raise OptionError(f"storage {masked(url)} holds no {name[:60]!r}; its studies: {held}{more}")
        for option, value in (("a law", law), ("d_model", d_model), ("noise_sd", noise_sd)):
            if value is not None:
                raise OptionError(f"{option} is for one study, but {name[:60]!r} is a campaign over several sizes")
        return _of_grid(name, cells, opened, folder, masked(url), confidence=confidence, pictures=pictures)


@dataclass(frozen=True)
class _Found:
    """One study with what it says."""

    study: "optuna.Study"
    recommendation: Recommendation
    rows: list[dict[str, Any]]

    @classmethod
    def of(
        cls,
        study: "optuna.Study",
        beside: "Sequence[optuna.Study]",
        *,
        d_model: int | None = None,
        noise_sd: float | None = None,
        confidence: float | None = None,
    ) -> "_Found":
        """``beside`` are the other cells of its campaign, which inform its prior."""
        facts = recorded_facts(study)
        d_model = facts.get("d_model", d_model)
        found = recommend(
            study,
            confidence=facts.get("confidence", 0.9) if confidence is None else confidence,
            noise_sd=noise_sd,
            d_model=d_model,
            prior=_prior(facts, beside),
        )
        records = read_records(study, recognise_head_parameter(study, d_model))
        maximise = study.direction.name == "MAXIMIZE"
        rows = trial_rows(records, maximise=maximise, own=SETTINGS_KEY in study.user_attrs)
        return cls(study, with_facts(found, study, records), rows)

    def plain(self, law: "ScalingLaw | None", n: float | None = None) -> dict[str, Any]:
        """The recommendation as a dict, with what a law says of its size; n as recorded where it is not given."""
        found = self.recommendation.to_dict()
        n = found["data"].get("n_samples") if n is None else n
        if law is not None:
            if n is None:
                raise OptionError("a law needs n, which this study does not record: leave out the law")
            found["law"] = law_facts(law, n, self.recommendation.allocation.d_model)
        return found

    def write(
        self, folder: Path, law: "ScalingLaw | None" = None, n: float | None = None, *, pictures: bool = True
    ) -> list[Path]:
        """The page and its pictures; the arguments as for `plain`."""
        from archopt.report.search_page import search_page
        from archopt.report.write import write_page

        command = recorded_facts(self.study).get("command")
        page = search_page(self.plain(law, n), self.rows, command=command, name=self.study.study_name)
        return write_page(folder, page, pictures=pictures)


def _of_grid(
    name: str,
    cells: dict[str, tuple[int, int]],
    storage: "optuna.storages.BaseStorage",
    folder: Path,
    shown_storage: str,
    *,
    confidence: float | None,
    pictures: bool,
) -> Written:
    import optuna

    studies = {cell: optuna.load_study(study_name=cell, storage=storage) for cell in cells}
    frame = cells_frame(
        list(studies.values()), n_samples=[n for n, _ in cells.values()], d_models=[d for _, d in cells.values()]
    )
    if frame.empty:
        raise OptionError(f"no trial of campaign {name[:60]!r} has finished: let at least one finish")
    facts = [recorded_facts(study) for study in studies.values()]
    law = fitted_law(frame, facts, source=name)
    prepare_folder(folder)
    found: list[GridCell] = []
    rows: dict[tuple[int, int], list[dict[str, Any]]] = {}
    files: list[Path] = []
    for (cell, study), (n, width) in zip(studies.items(), cells.values(), strict=True):
        tally = count_trials(study)
        try:
            one = _Found.of(study, [other for key, other in studies.items() if key != cell], confidence=confidence)
        except OptionError as error:
            found.append(GridCell(n, width, tally.n_ended, None, str(error)))
            continue
        of_cell = folder / f"n{n}-d{width}"
        prepare_folder(of_cell)
        files += one.write(of_cell, law, n, pictures=False)
        rows[n, width] = one.rows
        found.append(GridCell(n, width, tally.n_ended, one.recommendation, None))
    outcomes = [recorded_outcome(study) for study in studies.values()]
    ended = outcomes[0] if all(outcomes) else {}  # elsewhere trials have ended since then
    result = GridResult(
        name,
        tuple(found),
        frame,
        law,
        folder,
        {
            "stopped_because": ended.get("stopped_because"),
            "interrupted": bool(ended.get("interrupted")),
            "n_trials": sum(cell.n_trials for cell in found),
            "wall_seconds": sum(float(study.user_attrs.get(SPENT_KEY, 0.0)) for study in studies.values()),
            "left_out": list(ended.get("left_out", ())),
            "storage": shown_storage,
        },
    )
    command = next((fact["command"] for fact in facts if fact.get("command")), None)
    written = write_grid_report(GridReport(result, rows, command), pictures=pictures)
    return Written(name, (*written, *files), result.to_dict())


def _prior(facts: dict[str, Any], beside: "Sequence[optuna.Study]") -> OptimumPrior | None:
    """As the search has it: the closed form's, informed by the campaign's other cells."""
    if "prior" not in facts:
        return None
    own = OptimumPrior(*facts["prior"])
    earlier = [optimum_of(study) for study in beside if count_trials(study).n_finished]
    return informed_prior(own, earlier, facts["d_model"]) if earlier else own


def _cells_beside(name: str, names: Sequence[str], storage: "optuna.storages.BaseStorage") -> "list[optuna.Study]":
    """The other cells of the campaign that a study is a cell of."""
    import optuna

    match = re.fullmatch(r"(.+)-n\d+-d\d+", name)
    others = [other for other in cells_of(match[1], names) if other != name] if match else []
    return [optuna.load_study(study_name=other, storage=storage) for other in others]


def _storage_here(name: str) -> str:
    """Where a search of that name, or the campaign that it is a cell of, keeps its trials.

    Raises:
        OptionError: there is none in this folder.
    """
    match = re.fullmatch(r"(.+)-n\d+-d\d+", name)
    for campaign in [name, *([match[1]] if match else [])]:
        path = Path(RESULTS_FOLDER) / campaign / "study.db"
        if _is_name(campaign) and path.is_file():
            return f"sqlite:///{path.absolute()}"
    held = sorted(path.parent.name for path in Path(RESULTS_FOLDER).glob("*/study.db"))
    shown = f"; there are {', '.join(held[:5])}{', ...' if len(held) > 5 else ''}" if held else ""
    raise OptionError(f"there is no search {name[:60]!r} in {RESULTS_FOLDER} here{shown}: give its --storage")


def _folder(name: str, storage: str | None) -> Path:
    """Where the search of that name put its results; a study's name may hold anything."""
    base = Path(RESULTS_FOLDER)
    match = re.fullmatch(r"(.+)-(n\d+-d\d+)", name)
    if storage is None and match and _is_name(name) and (base / match[1] / "study.db").is_file():
        return base / match[1] / match[2]
    plain = name if _is_name(name) else re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:100] or "study"
    return base / plain


def _is_name(name: str) -> bool:
    """Whether it is a campaign's, and so a folder's."""
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,125}", name) is not None
