"""What tests of the manifests share: built overlays, and pods that are found in them."""

from __future__ import annotations

import pytest

from tests.conftest import LEFT_OUT
from tests.support import kustomize


@pytest.fixture(scope="session")
def needs_kustomize() -> None:
    """For tests of manifests as they are applied. No Debian package has it, so it may be missing anywhere."""
    if reason := kustomize.why_missing():
        pytest.skip(LEFT_OUT + reason)
