"""From a study's trials to a posterior over its configurations: what sampler and recommendation share."""

from archopt.study_model.curves import curve_readings
from archopt.study_model.model import StudyModel, model_study
from archopt.study_model.prior import FLAT_SD_OCTAVES, closed_form_prior, flat_prior, recorded_prior
from archopt.study_model.transfer import informed_prior, optimum_of

__all__ = [
    "FLAT_SD_OCTAVES",
    "StudyModel",
    "closed_form_prior",
    "curve_readings",
    "flat_prior",
    "informed_prior",
    "model_study",
    "optimum_of",
    "recorded_prior",
]
