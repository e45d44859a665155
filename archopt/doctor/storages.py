"""Whether a storage can be reached and read, without making one."""

import time
from pathlib import Path

from archopt.doctor.findings import Finding
from archopt.errors import StorageError


def storage_finding(url: str | None) -> Finding:
    """The storage of a URL, or the folder in which a search makes its own.

    Args:
        url: of an Optuna storage; None looks at the default folder. A password in it is shown nowhere.
    """
    try:
        return _default_folder() if url is None else _at(url)
    except StorageError as error:
        return Finding("storage", "cannot be used", str(error))


def _default_folder() -> Finding:
    from archopt.campaign.file_systems import network_file_system
    from archopt.campaign.output_folder import prepare_folder, remove_folders
    from archopt.campaign.settings import RESULTS_FOLDER

    folder = Path(RESULTS_FOLDER)
    remove_folders(prepare_folder(folder))
    kind = network_file_system(folder.absolute())
    where = f"; on a network file system ({kind}), whose locks may fail" if kind else ""
    return Finding("storage", f"{folder}/ can be written here{where}")


def _at(url: str) -> Finding:
    from archopt.campaign.file_systems import locks_warning
    from archopt.campaign.output_folder import prepare_folder, remove_folders
    from archopt.campaign.reading import has_studies, missing_file, open_to_read
    from archopt.campaign.storage_url import masked

    shown, missing = masked(url), missing_file(url)
    if missing is not None:
        if not missing.parent.is_dir():
            fault = f"storage {shown} cannot be made: its folder does not exist, make it or give another"
            return Finding("storage", "cannot be used", fault)
        remove_folders(prepare_folder(missing.parent))
        return Finding("storage", f"{shown} does not exist yet; a search can make it")
    if not has_studies(url):
        return Finding("storage", f"{shown} answers, and is empty; a search makes its tables")
    storage = open_to_read(url)
    started = time.perf_counter()
    n_studies = len(storage.get_all_studies())
    seconds = time.perf_counter() - started
    warning = locks_warning(url)
    return Finding("storage", f"{shown} answers in {1e3 * seconds:.1f} ms, {n_studies} studies", warning or "")
