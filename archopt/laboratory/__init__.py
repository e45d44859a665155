"""The theorems held against known regression functions: exact errors where there are any, simulated noise elsewhere."""

from archopt.laboratory.functions import FUNCTIONS
from archopt.laboratory.run import THEOREMS, LaboratoryReport, run_laboratory
from archopt.laboratory.setting import AXES, EMBEDDINGS, Setting
from archopt.laboratory.verdict import Finding

__all__ = [
    "AXES",
    "EMBEDDINGS",
    "FUNCTIONS",
    "THEOREMS",
    "Finding",
    "LaboratoryReport",
    "Setting",
    "run_laboratory",
]
