"""Conversions asked for by an API server, and storage migrated by it: the embedded one, and the real one if there is.

`Shape` has three versions: v1 is the hub; v1alpha1 says the size as a text, v1beta1 nests it.
"""

import asyncio
import json

import pytest
from hypothesis import strategies as st
from structlog.testing import capture_logs

from steersman import ALL_NAMESPACES, DeniedError, Model, Operator, Resource, replace
from steersman.cli.dispatch import run
from steersman.testing import CallError, objects

both = pytest.mark.parametrize("server", ["embedded", pytest.param("real", marks=pytest.mark.realcluster)])
pytestmark = both

GROUP = "conversions.steersman.dev"


class AlphaSpec(Model):
    size: str = "0x0"
    labels: tuple[str, ...] = ()


class HubSpec(Model):
    width: int = 0
    height: int = 0
    labels: tuple[str, ...] = ()


class Extent(Model):
    width: int = 0
    height: int = 0


class BetaSpec(Model):
    extent: Extent = Extent()
    labels: tuple[str, ...] = ()


class ShapeAlpha(Resource, group=GROUP, version="v1alpha1", kind="Shape", storage=False):
    spec: AlphaSpec = AlphaSpec()


class Shape(Resource, group=GROUP, version="v1"):
    spec: HubSpec = HubSpec()


class ShapeBeta(Resource, group=GROUP, version="v1beta1", kind="Shape", storage=False):
    spec: BetaSpec = BetaSpec()


def shapes():
    app = Operator("shapes")

    @app.converter
    async def from_alpha(obj: ShapeAlpha) -> Shape:
        width, x, height = obj.spec.size.partition("x")
        if not x:
            raise DeniedError(f"spec.size {obj.spec.size!r} is not WIDTHxHEIGHT")
        spec = HubSpec(width=int(width), height=int(height), labels=obj.spec.labels)
        return Shape(metadata=obj.metadata, spec=spec)

    @app.converter
    def to_alpha(obj: Shape) -> ShapeAlpha:
        spec = AlphaSpec(size=f"{obj.spec.width}x{obj.spec.height}", labels=obj.spec.labels)
        return ShapeAlpha(metadata=obj.metadata, spec=spec)

    @app.converter
    async def from_beta(obj: ShapeBeta) -> Shape:
        extent = obj.spec.extent
        return Shape(spec=HubSpec(width=extent.width, height=extent.height, labels=obj.spec.labels))

    @app.converter
    async def to_beta(obj: Shape) -> ShapeBeta:
        extent = Extent(width=obj.spec.width, height=obj.spec.height)
        return ShapeBeta(metadata=obj.metadata, spec=BetaSpec(extent=extent, labels=obj.spec.labels))

    return app


def path(cluster, version, name=""):
    return f"/apis/{GROUP}/{version}/namespaces/{cluster.namespace}/shapes" + (f"/{name}" if name else "")


def body(version, name, **spec):
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Shape", "metadata": {"name": name}, "spec": spec}


def created(cluster, version, name, **spec):
    return cluster.call("POST", path(cluster, version), body(version, name, **spec))


sizes = st.integers(0, 1 << 30)
alphas = objects(ShapeAlpha, {"spec.size": st.tuples(sizes, sizes).map(lambda wh: f"{wh[0]}x{wh[1]}")})


@pytest.mark.slow
def test_random_objects_of_random_versions_round_trip(server, cluster, operator):
    """H5: written as any version, read as any other, written back as that, nothing is lost."""
    from random import Random

    from hypothesis import HealthCheck, given, seed, settings

    from steersman.models import to_dict

    operator(shapes())
    random, made = Random(7), []

    @seed(7)
    @settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.one_of(alphas, objects(Shape), objects(ShapeBeta)))
    def collect(obj):
        made.append(to_dict(obj))

    collect()
    for number, obj in enumerate(made):
        version = obj["apiVersion"].rpartition("/")[2]
        obj["metadata"] = {**obj["metadata"], "name": f"s{number}", "namespace": cluster.namespace}
        first = cluster.call("POST", path(cluster, version), obj)
        assert {**first["spec"], **obj["spec"]} == first["spec"]
        other = random.choice(["v1alpha1", "v1", "v1beta1"])
        seen = cluster.call("GET", path(cluster, other, f"s{number}"))
        assert seen["metadata"]["uid"] == first["metadata"]["uid"]
        assert seen["metadata"].get("annotations") == first["metadata"].get("annotations")
        cluster.call("PUT", path(cluster, other, f"s{number}"), seen)
        again = cluster.call("GET", path(cluster, version, f"s{number}"))
        assert again["spec"] == first["spec"]
        assert again["metadata"]["generation"] == 1
    assert len(cluster.call("GET", path(cluster, "v1beta1"))["items"]) == len(made)


def test_a_conversion_that_fails_says_why_and_damages_nothing(server, cluster, operator):
    """H5: the error names the object and the reason, and the stored object is unchanged."""
    operator(shapes())
    created(cluster, "v1", "good", width=1, height=2)
    with pytest.raises(CallError) as caught:
        created(cluster, "v1alpha1", "bad", size="huge")
    assert "spec.size 'huge' is not WIDTHxHEIGHT" in str(caught.value)
    assert cluster.call("GET", path(cluster, "v1alpha1", "good"))["spec"]["size"] == "1x2"
    assert [i["metadata"]["name"] for i in cluster.call("GET", path(cluster, "v1"))["items"]] == ["good"]


class TestMigration:
    @pytest.fixture
    def command(self, capsys, monkeypatch, tmp_path, cluster):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

        def call(*words):
            capsys.readouterr()
            try:
                with (
                    capture_logs()
                ):  # of the cluster; its controllers may meanwhile fail to read objects without a converter
                    run(["migrate-storage", *words, "--kubeconfig", str(cluster.kubeconfig)])
                code = 0
            except SystemExit as ended:
                code = ended.code or 0
            out, err = capsys.readouterr()
            assert "Traceback" not in err
            return code, out + err

        return call

    NAME = f"shapes.{GROUP}"

    def store_as(self, cluster, version):
        crd = cluster.get("crd", self.NAME)
        versions = [{**v, "storage": v["name"] == version} for v in crd["spec"]["versions"]]
        cluster.patch("crd", self.NAME, {"spec": {"versions": versions}})

    def alone(self, cluster):
        """Take away what other tests have left."""
        for left in cluster.list("shapes." + GROUP, namespace=ALL_NAMESPACES):
            cluster.delete("shapes." + GROUP, left["metadata"]["name"], namespace=left["metadata"]["namespace"])

    def stored(self, cluster):
        return cluster.get("crd", self.NAME)["status"]["storedVersions"]

    def test_objects_are_rewritten_and_old_versions_forgotten(self, server, cluster, operator, command, tmp_path):
        operator(shapes())
        self.alone(cluster)
        self.store_as(cluster, "v1beta1")
        for n in range(12):
            created(cluster, "v1", f"m{n}", width=n, height=n)
        before = {i["metadata"]["name"]: i for i in cluster.call("GET", path(cluster, "v1"))["items"]}
        self.store_as(cluster, "v1")
        assert sorted(self.stored(cluster)) == ["v1", "v1beta1"]

        code, out = command(self.NAME, "--dry-run")
        assert code == 0, out
        assert "12 objects would be stored as v1; v1beta1 would be dropped" in out
        assert sorted(self.stored(cluster)) == ["v1", "v1beta1"]

        code, out = command(self.NAME, "--page", "5", "--output", "json")
        assert code == 0, out
        (told,) = json.loads(out[out.index("[\n") :])
        assert (told["objects"], told["failed"], told["trimmed"]) == (12, [], ["v1beta1"])
        assert told["written"] > 0
        assert self.stored(cluster) == ["v1"]
        after = {i["metadata"]["name"]: i for i in cluster.call("GET", path(cluster, "v1"))["items"]}
        assert {n: i["spec"] for n, i in after.items()} == {n: i["spec"] for n, i in before.items()}
        assert all(i["metadata"]["generation"] == 1 for i in after.values())

        code, out = command(self.NAME)
        assert code == 0
        assert "stored as v1 already" in out
        assert not list(tmp_path.rglob("*.json"))

    def test_it_goes_on_where_it_was_stopped(self, server, cluster, operator, tmp_path):
        from steersman.cli.crds.migrate_storage import migrate

        operator(shapes())
        self.store_as(cluster, "v1beta1")
        for n in range(6):
            created(cluster, "v1", f"r{n}", width=n, height=n)
        self.store_as(cluster, "v1")

        class StopError(Exception):
            pass

        def stop(_name, done, _total):
            if done >= 4:
                raise StopError

        async def go(show):
            async with cluster.client() as client:
                return await migrate(client, self.NAME, 2, tmp_path, show, dry_run=False, restart=False)

        with pytest.raises(StopError):
            asyncio.run(go(stop))
        assert sorted(self.stored(cluster)) == ["v1", "v1beta1"]
        seen = []
        done = asyncio.run(go(lambda _name, done, _total: seen.append(done)))
        assert seen[0] > 2, "the first pages are not read again"
        assert done.trimmed == ["v1beta1"]
        assert self.stored(cluster) == ["v1"]

    def test_nothing_is_forgotten_while_an_object_cannot_be_written(self, server, cluster, operator, command):
        app = shapes()

        @app.validator
        async def keep(new: Shape, old: Shape | None) -> None:
            if old is not None and new.metadata.name == "stuck":
                raise DeniedError("it is stuck")

        running = operator(app)
        self.alone(cluster)
        self.store_as(cluster, "v1beta1")
        for name in ("free", "stuck"):
            created(cluster, "v1", name, width=1, height=1)
        self.store_as(cluster, "v1")
        code, out = command(self.NAME)
        assert code == 1
        assert "1 of 2 objects could not be written" in out
        assert "it is stuck" in out
        assert sorted(self.stored(cluster)) == ["v1", "v1beta1"]
        cluster.delete("shapes." + GROUP, "stuck")
        assert command(self.NAME)[0] == 0
        assert self.stored(cluster) == ["v1"]
        running.stop()

    def test_what_is_no_crd_is_named(self, server, cluster, command):
        assert command("nothing.example.com") == (1, "error: the cluster has no CRD nothing.example.com\n")
        assert command("nothing")[0] == 2


def test_a_handler_gets_labels_and_annotations_through(server, cluster, operator):
    """A conversion may keep the fields that one version lacks in an annotation."""
    app = Operator("keepers")

    @app.converter
    async def forth(obj: ShapeAlpha) -> Shape:
        width, _, height = obj.spec.size.partition("x")
        annotations = {**obj.metadata.annotations, f"{GROUP}/size": obj.spec.size}
        metadata = replace(obj.metadata, annotations=annotations)
        return Shape(metadata=metadata, spec=HubSpec(width=int(width), height=int(height)))

    @app.converter
    async def back(obj: Shape) -> ShapeAlpha:
        annotations = dict(obj.metadata.annotations)
        size = annotations.pop(f"{GROUP}/size", f"{obj.spec.width}x{obj.spec.height}")
        return ShapeAlpha(metadata=replace(obj.metadata, annotations=annotations), spec=AlphaSpec(size=size))

    for leaf in (ShapeBeta,):

        @app.converter(source=leaf, target=Shape)
        async def up(obj: ShapeBeta) -> Shape:
            return Shape(metadata=obj.metadata)

        @app.converter(source=Shape, target=leaf)
        async def down(obj: Shape) -> ShapeBeta:
            return ShapeBeta(metadata=obj.metadata)

    operator(app)
    made = created(cluster, "v1alpha1", "kept", size="007x8")
    assert "annotations" not in made["metadata"]
    assert cluster.call("GET", path(cluster, "v1alpha1", "kept"))["spec"]["size"] == "007x8"
    assert cluster.call("GET", path(cluster, "v1", "kept"))["metadata"]["annotations"] == {f"{GROUP}/size": "007x8"}
