"""Pruners for Optuna studies."""

from archopt.pruners.hdi import Decision, HDIPruner
from archopt.pruners.worth import DiversityWorth, diversity_worth, worth_of_diversity

__all__ = ["Decision", "DiversityWorth", "HDIPruner", "diversity_worth", "worth_of_diversity"]
