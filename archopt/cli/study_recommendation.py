"""The half of `archopt recommend` that reads an Optuna study."""

import json
from collections.abc import Sequence

import typer

from archopt.cli.interrupts import said_when_interrupted
from archopt.cli.runs_source import storage_of_studies
from archopt.errors import OptionError


def refuse_beside_study(options: Sequence[str]) -> None:
    """Options that say something of a size or a law, where a study's own trials speak.

    Raises:
        OptionError: there are any.
    """
    if options:
        raise OptionError(
            f"{' and '.join(options[:3])}: not with --study, whose trials say what was tried; it takes --storage, "
            "--d-model, --noise-sd and --confidence"
        )


def print_study_recommendation(
    study: str, storage: str | None, *, d_model: int | None, noise_sd: float | None, confidence: float, as_json: bool
) -> None:
    """`archopt.recommend` of a study in a storage, as a search prints it.

    Raises:
        OptionError: no storage, a study that it does not hold, or one that `archopt.recommend` refuses.
        StorageError: the storage cannot be opened.
    """
    import optuna

    from archopt.campaign.storage import load_studies, storage_faults
    from archopt.recommendation import recommend
    from archopt.report.files import json_ready
    from archopt.report.numbers import printable
    from archopt.report.text import print_summary

    url = storage_of_studies(storage)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with said_when_interrupted(), storage_faults("while the study was read"):
        (loaded,) = load_studies(url, [study])
        found = recommend(loaded, confidence=confidence, noise_sd=noise_sd, d_model=d_model).to_dict()
    if as_json:
        typer.echo(json.dumps(json_ready(found)))
    else:
        print_summary(found)
        shown = ", ".join(f"{name} = {value}" for name, value in found["params"].items())
        typer.echo(f"Parameters of the recommended configuration: {printable(shown)}")
