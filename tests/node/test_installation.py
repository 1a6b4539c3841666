"""Every operator from its install.yaml in its own image on a real node: rights, ports, metrics and log."""

from collections.abc import Iterator

import pytest

from steersman.testing.cluster import KubectlError
from steersman.testing.real_node import RealNode
from tests.node.installation import Installed, check_rights, installed, package
from tests.node.measurements import Measurements
from tests.node.metrics_access import check_metrics_access
from tests.node.network_policies import check_network_policies
from tests.node.operator_images import OperatorImage, operator_image
from tests.node.subjects import SUBJECTS, Subject

pytestmark = [pytest.mark.node, pytest.mark.gate]


@pytest.fixture(scope="module", params=SUBJECTS, ids=lambda subject: subject.project)
def subject(request: pytest.FixtureRequest) -> Subject:
    return request.param


@pytest.fixture(scope="module")
def image(node: RealNode, subject: Subject, measurements: Measurements) -> OperatorImage:
    found = operator_image(subject.project)
    node.import_images(found.archive)
    measurements.megabytes(f"{subject.title}: image above its base", found.bytes_above_base, 60)
    return found


@pytest.fixture(scope="module")
def operator(
    node: RealNode,
    subject: Subject,
    image: OperatorImage,
    tmp_path_factory: pytest.TempPathFactory,
    measurements: Measurements,
) -> Iterator[Installed]:
    shipped = package(subject.project, tmp_path_factory.mktemp(subject.project), image)
    with installed(node, shipped) as found:
        measurements.seconds(f"{subject.title}: apply of install.yaml until available", found.available_after, 4)
        process = found.process(found.leader())
        started = found.led_since() - process.started
        measurements.seconds(f"{subject.title}: start of the container until leader", started, 1)
        measurements.megabytes(f"{subject.title}: resident memory of the idle operator", process.rss_bytes, 50)
        yield found


def test_the_process_has_no_rights_on_its_machine(operator: Installed) -> None:
    pod = operator.leader()
    check_rights(operator.process(pod).status)
    write = ["python", "-c", "open('/file', 'w')"]
    with pytest.raises(KubectlError, match="Read-only file system"):
        operator.node.kubectl("exec", f"--namespace={operator.namespace}", pod["metadata"]["name"], "--", *write)


def test_network_policies_select_the_pods_and_open_their_ports(subject: Subject, operator: Installed) -> None:
    check_network_policies(operator, subject.project)


def test_metrics_are_for_those_who_may_read_them(
    node: RealNode, operator: Installed, image: OperatorImage, namespace: str
) -> None:
    check_metrics_access(node, operator, image, namespace)


def test_the_log_has_no_errors_and_the_api_server_refused_nothing(operator: Installed) -> None:
    """The last test of the operator: it judges all that the others did."""
    operator.check_log()
    assert operator.refusals() == []
