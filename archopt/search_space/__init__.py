"""Head allocations as Optuna sees them: the only place that knows parameter and attribute names."""

from archopt.search_space.candidates import MAX_CANDIDATES, Candidate, SearchSpace, search_space_of
from archopt.search_space.parameters import (
    DECORRELATION,
    HEAD_PARAMETER_KEY,
    LEARNING_RATE,
    N_HEADS,
    WARMUP,
    WEIGHT_DECAY,
    WEIGHTING,
    HeadParameter,
    canonical_params,
    head_names,
    recognise_head_parameter,
    suggest_allocation,
)
from archopt.search_space.records import (
    ATTRIBUTES,
    INTERRUPTED,
    DiversityReport,
    TrialRecord,
    read_record,
    read_records,
    record_diversity,
    report_diversity,
)
from archopt.search_space.replicates import replicate

__all__ = [
    "ATTRIBUTES",
    "DECORRELATION",
    "HEAD_PARAMETER_KEY",
    "INTERRUPTED",
    "LEARNING_RATE",
    "MAX_CANDIDATES",
    "N_HEADS",
    "WARMUP",
    "WEIGHTING",
    "WEIGHT_DECAY",
    "Candidate",
    "DiversityReport",
    "HeadParameter",
    "SearchSpace",
    "TrialRecord",
    "canonical_params",
    "head_names",
    "read_record",
    "read_records",
    "recognise_head_parameter",
    "record_diversity",
    "replicate",
    "report_diversity",
    "search_space_of",
    "suggest_allocation",
]
