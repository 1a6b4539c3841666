"""ConfigMaps, Secrets, ServiceAccounts, Namespaces, Events and Leases on both servers."""

import pytest

from tests.cluster.kinds import cases

from .harness import Both
from .kinds import play, sequences


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
@pytest.mark.parametrize("requests", sequences([*cases.CONFIG, *cases.OBJECTS]))
async def test_core_objects_behave_alike(both: Both, requests: list[cases.Case]):
    await play(both, requests)
