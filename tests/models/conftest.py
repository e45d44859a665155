"""What tests of the models share."""

import pytest


@pytest.fixture
def no_extractors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Extractors that a test registers are forgotten after it."""
    from archopt.models import extractors

    monkeypatch.setattr(extractors, "_REGISTERED", {})
