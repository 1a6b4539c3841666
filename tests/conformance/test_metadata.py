"""ObjectMeta: names, labels, annotations, owners and finalizers on both servers."""

import pytest

from tests.cluster.kinds import cases

from .harness import Both
from .kinds import play, sequences


@pytest.mark.parametrize("requests", sequences([*cases.METADATA]))
async def test_metadata_is_checked_alike(both: Both, requests: list[cases.Case]):
    await play(both, requests)
