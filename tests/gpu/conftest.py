"""What the tests of CUDA kernels share."""

import warnings

import pytest


@pytest.fixture(scope="session")
def skip_where_refused():
    """Call it with a kernel and a dtype: skips the test, with archopt's own reason, where that kernel cannot run.

    Any other error than archopt's refusal is a failure of the test.
    """
    import torch

    from archopt.errors import OptionError
    from archopt.models.attention import attention

    device = "cuda" if torch.cuda.is_available() else "cpu"

    def skip(kernel, dtype=torch.float32):
        one = torch.ones(1, 1, 1, 8, device=device, dtype=dtype)
        refusal = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what xformers' first import says of other packages
            try:
                attention(one, one, one, scale=1.0, kernel=kernel)
            except OptionError as error:
                refusal = str(error)
        if refusal is not None:
            assert "\n" not in refusal
            pytest.skip(refusal)

    return skip
