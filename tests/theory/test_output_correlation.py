"""The correlation of heads' outputs against NumPy's correlation matrix."""

from math import isnan

import numpy as np
import pytest

from archopt.errors import DegenerateHeadError, OptionError
from archopt.theory import head_output_correlation


def test_it_is_the_mean_off_diagonal_correlation():
    outputs = np.random.default_rng(0).normal(size=(5, 40)) + np.random.default_rng(1).normal(size=40)
    matrix = np.corrcoef(outputs)
    expected = matrix[~np.eye(5, dtype=bool)].mean()
    assert head_output_correlation(outputs) == pytest.approx(expected, abs=1e-14)


def test_components_are_centred_one_by_one_and_then_pooled():
    rng = np.random.default_rng(2)
    outputs = rng.normal(size=(3, 30, 2))
    flat = (outputs - outputs.mean(axis=1, keepdims=True)).reshape(3, -1)
    expected = np.corrcoef(flat)[~np.eye(3, dtype=bool)].mean()
    shifted = outputs * np.array([1.0, 7.0, 0.1])[:, None, None] + np.array(
        [0.0, 1000.0]
    )  # scale and offset do not count
    assert head_output_correlation(shifted) == pytest.approx(expected, abs=1e-9)


def test_end_points():
    line = np.array([1.0, 2.0, 4.0])
    assert head_output_correlation([line, 2 * line + 1, line]) == pytest.approx(1.0, abs=1e-14)
    assert head_output_correlation([line, -line]) == pytest.approx(-1.0, abs=1e-14)


def test_one_head_has_no_correlation():
    assert isnan(head_output_correlation(np.random.default_rng(3).normal(size=(1, 10))))


def test_a_head_that_does_not_vary_is_left_out():
    line = np.array([0.1, 0.2, 0.4])
    constant = np.full(3, 0.1) + np.array([0.0, 1e-17, 0.0])
    assert head_output_correlation([line, constant, -line]) == pytest.approx(-1.0, abs=1e-14)
    assert isnan(head_output_correlation([line, constant]))
    float32 = np.float32([line, np.float32(0.3) + np.float32([0, 3e-8, 0])])  # constant up to single precision
    assert isnan(head_output_correlation(float32))


@pytest.mark.torch
def test_torch_outputs():
    torch = pytest.importorskip("torch")
    outputs = np.random.default_rng(4).normal(size=(3, 20, 4))
    tensor = torch.tensor(outputs, requires_grad=True)
    assert head_output_correlation(tensor) == head_output_correlation(outputs)


def test_a_head_that_is_not_finite_is_named():
    outputs = np.ones((3, 4))
    outputs[1, 2] = np.nan
    with pytest.raises(DegenerateHeadError, match=r"head 1 .* not finite") as error:
        head_output_correlation(outputs)
    assert error.value.head == 1


@pytest.mark.parametrize("scale", [1e-200, 1e200, 1e307])
def test_the_scale_of_the_outputs_does_not_count(scale):
    outputs = np.random.default_rng(5).normal(size=(3, 20))
    assert head_output_correlation(outputs * scale) == pytest.approx(head_output_correlation(outputs), abs=1e-13)


@pytest.mark.parametrize("values", ["outputs", None, [[1.0, 2.0], [1.0]], np.ones((2, 3)) > 0, np.ones((2, 3)) * 1j])
def test_what_is_not_real_numbers_is_refused_in_one_line(values):
    with pytest.raises(OptionError, match=r"^outputs must") as error:
        head_output_correlation(values)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("shape", [(4,), (3, 1), (2, 3, 4, 5), (2, 0)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(OptionError, match=r"outputs must have .*\(H, n\) or \(H, n, c\)"):
        head_output_correlation(np.ones(shape))
