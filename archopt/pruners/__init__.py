"""Pruners for Optuna studies."""

from archopt.pruners.hdi import Decision, HDIPruner

__all__ = ["Decision", "HDIPruner"]
