"""Weights that train, and tensors, against archopt.theory's."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from archopt.models.head_weighting import HeadWeighting  # noqa: E402
from archopt.theory import error_covariance, head_weights, learned_weights, minimum_variance_weights  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("n_heads", [1, 2, 16, 128])
@pytest.mark.parametrize("spread", [0.0, 1.0, 1e4])
def test_the_module_s_learned_weights_are_the_theory_s(n_heads, spread):
    module = HeadWeighting("learned", n_heads)
    logits = spread * torch.randn(n_heads, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        module.logits.copy_(logits)
    # float32: the exponent's rounding, 6e-8 of a logit difference that matters (below 90), is the weight's
    np.testing.assert_allclose(module().detach().numpy(), learned_weights(module.logits), rtol=2e-5, atol=1e-30)


def test_the_module_starts_from_uniform_weights():
    np.testing.assert_allclose(HeadWeighting("learned", 8)().detach().numpy(), head_weights("uniform", 8), rtol=1e-6)


def test_tensors_of_errors_are_taken_as_they_are():
    errors = torch.randn(5, 60, generator=torch.Generator().manual_seed(1), requires_grad=True)
    Sigma = error_covariance(errors)
    np.testing.assert_allclose(Sigma, (errors @ errors.T / 60).detach().numpy(), rtol=1e-5, atol=1e-6)
    # a float32 covariance is positive semi-definite to float32's rounding only, and is taken for one
    np.testing.assert_allclose(
        minimum_variance_weights((errors @ errors.T / 60).detach()), minimum_variance_weights(Sigma), atol=1e-5
    )
    singular = (errors[:, :3] @ errors[:, :3].T / 3).detach()
    assert minimum_variance_weights(singular).sum() == pytest.approx(1.0, abs=1e-12)
