"""One draw of everything but the noise: training rows, query points, and the axes that heads are cut from."""

from dataclasses import dataclass

import numpy as np

from archopt.laboratory.functions import regression_values
from archopt.laboratory.setting import Setting
from archopt.theory.arrays import Array
from archopt.theory.decorrelation import block_orthogonal_projections

# What a random stream is for: one each, so that n, D and H can change without changing the rest.
_ROWS, _QUERIES, _EMBEDDING, _ROTATION, _NOISE = range(1, 6)  # not 0: NumPy pads seeds with zeros

_INTERIOR = 0.75  # of [-1, 1]: beyond, half of a kernel sees no rows


@dataclass(frozen=True)
class Design:
    """Inputs with the regression function's values.

    Args:
        inputs: training rows, shape (n, D); every coordinate has mean square about 1 on average over coordinates.
        queries: where errors are integrated, shape (m, D).
        truth_at_inputs: shape (n,).
        truth_at_queries: shape (m,).
        axes: an orthonormal basis of R^D in its columns, shape (D, D).
    """

    inputs: Array
    queries: Array
    truth_at_inputs: Array
    truth_at_queries: Array
    axes: Array


def draw_design(
    setting: Setting, replicate: int, *, n_samples: int | None = None, d_model: int | None = None
) -> Design:
    """The design of one replicate, a function of the setting's seed, intrinsic dimension and the replicate.

    Smaller ``n_samples`` take the first of the same rows; query points are the same at every n and D.

    Args:
        setting: its function, intrinsic dimension, embedding and kind of axes.
        replicate: 0, 1, ...
        n_samples, d_model: in place of the setting's.
    """
    n = setting.n_samples if n_samples is None else n_samples
    D = setting.d_model if d_model is None else d_model
    rows = _stream(setting, replicate, _ROWS).uniform(-1.0, 1.0, (n, setting.intrinsic_dim))
    points = _stream(setting, replicate, _QUERIES).uniform(-_INTERIOR, _INTERIOR, (setting.n_queries, rows.shape[1]))
    latent = np.concatenate([rows, points])
    x, truth = _embed(setting, replicate, latent, D), regression_values(setting.function, latent)
    axes = _rotation(setting, replicate, D) if setting.axes == "random" else _principal_axes(x[:n])
    return Design(x[:n], x[n:], truth[:n], truth[n:], axes)


def noise_draws(setting: Setting, replicate: int, n_samples: int, draws: int) -> Array:
    """Gaussian training noise, shape (draws, n)."""
    return setting.noise_sd * _stream(setting, replicate, _NOISE).standard_normal((draws, n_samples))


def filled_directions(inputs: Array) -> float:
    """How many linear directions the inputs fill: the participation ratio (tr S)^2 / tr S^2 of their covariance S.

    D when all are filled equally. The baseline of the diversity index assumes that.
    """
    variances = np.linalg.eigvalsh(np.cov(inputs, rowvar=False).reshape(inputs.shape[1], -1))
    return float(variances.sum() ** 2 / (variances**2).sum())


def _embed(setting: Setting, replicate: int, latent: Array, d_model: int) -> Array:
    d, random = setting.intrinsic_dim, _stream(setting, replicate, _EMBEDDING)
    if setting.embedding == "curved":  # cosines of random directions and phases: Rahimi and Recht (2007)
        frequencies, phases = random.standard_normal((d, d_model)), random.uniform(0.0, 2.0 * np.pi, d_model)
        return np.asarray(np.sqrt(2.0) * np.cos(latent @ frequencies + phases))
    wide = max(d, d_model)
    isometry = np.linalg.qr(random.standard_normal((wide, min(d, d_model))))[0]
    directions = isometry.T if d_model >= d else isometry  # (d, D): orthonormal rows, or columns where D < d
    return np.asarray(latent @ directions * np.sqrt(3.0 * d_model / min(d, d_model)))  # Var u_j = 1/3


def _rotation(setting: Setting, replicate: int, d_model: int) -> Array:
    return np.asarray(block_orthogonal_projections(d_model, 1, seed=_stream(setting, replicate, _ROTATION))[0])


def _principal_axes(inputs: Array) -> Array:
    centred = inputs - inputs.mean(axis=0)
    return np.ascontiguousarray(np.linalg.eigh(centred.T @ centred)[1][:, ::-1])  # eigh sorts upwards


def _stream(setting: Setting, replicate: int, purpose: int) -> np.random.Generator:
    return np.random.default_rng([setting.seed, replicate, purpose])
