"""Replicas of an operator that look after their certificates, for tests: started, watched, ended."""

import asyncio
import base64
import ssl
from datetime import UTC, datetime, timedelta

from steersman.models import MergePatch, dynamic
from steersman.testing import eventually
from steersman.webhook.certificate_settings import CertificateSettings
from steersman.webhook.certificates import CertificateManager
from steersman.webhook.injection import Targets
from steersman.webhook.keystore import REQUEST, keys_of
from steersman.webhook.rotation import CertificateLifetimes

SECRET = dynamic("v1", "Secret")
LEASE = dynamic("coordination.k8s.io/v1", "Lease")
MUTATING = dynamic("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", namespaced=False)
VALIDATING = dynamic("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", namespaced=False)
CRD = dynamic("apiextensions.k8s.io/v1", "CustomResourceDefinition", namespaced=False)

QUICK = CertificateLifetimes(
    authority_lifetime=timedelta(days=3),
    serving_lifetime=timedelta(hours=1),
    propagation=timedelta(seconds=0.4),
    skew=timedelta(0),
)


class CertificateEnvironment:
    """Replicas of one operator, in one namespace of a cluster; and a wall clock that can be moved."""

    def __init__(self, client, namespace):
        self.client = client
        self.namespace = namespace
        self.name = f"op-{namespace}"
        self.service = "web"
        self.offset = timedelta(0)
        self.running = []
        self.made = []

    def now(self):
        return datetime.now(UTC) + self.offset

    def settings(self, **more):
        given = {"lifetimes": QUICK, "poll": 0.1, "service": self.service, **more}
        return CertificateSettings(operator=self.name, namespace=self.namespace, **given)

    def targets(self, **more):
        given = {"mutating": (f"{self.name}-m",), "validating": (f"{self.name}-v",), "crds": (), **more}
        return Targets((self.namespace, self.service), **given)

    def replica(self, identity="", *, targets=None, client=None, **settings):
        made = CertificateManager(
            client or self.client, self.settings(**settings), targets or self.targets(), identity=identity, now=self.now
        )
        self.running.append(made)
        return made

    async def started(self, *identities, **options):
        replicas = [self.replica(identity, **options) for identity in identities or ("one",)]
        await asyncio.gather(*(r.start(20) for r in replicas))
        return replicas

    async def secret(self):
        return await self.client.get(SECRET, f"{self.service}-cert", namespace=self.namespace)

    async def keys(self):
        return keys_of((await self.secret()).body)

    async def patch_secret(self, body):
        await self.client.patch(SECRET, f"{self.service}-cert", MergePatch(body), namespace=self.namespace)

    def entry(self, name="a", service="web", bundle=b""):
        config = {"service": {"namespace": self.namespace, "name": service, "path": "/x"}}
        if bundle:
            config["caBundle"] = base64.b64encode(bundle).decode()
        return {
            "name": f"{name}.example.com",
            "admissionReviewVersions": ["v1"],
            "clientConfig": config,
            "sideEffects": "None",
            "rules": [
                {
                    "apiGroups": ["nobody.example.com"],
                    "apiVersions": ["v1"],
                    "operations": ["*"],
                    "resources": ["nothings"],
                }
            ],
        }

    async def configure(self, view=MUTATING, name=None, labels=None, entries=None):
        name = name or f"{self.name}-{'m' if view is MUTATING else 'v'}"
        body = {
            "apiVersion": view.info.api_version,
            "kind": view.info.kind,
            "metadata": {"name": name, "labels": labels or {}},
            "webhooks": entries or [self.entry()],
        }
        await self.client.create(body, kind=view)
        self.made.append((view, name))
        return name

    async def bundles(self, view=MUTATING, name=None):
        found = await self.client.get(view, name or f"{self.name}-{'m' if view is MUTATING else 'v'}")
        return [base64.b64decode(w["clientConfig"].get("caBundle") or "") for w in found.body["webhooks"]]

    async def carried(self, bundle, view=MUTATING, name=None):
        async def all_carry():
            return set(await self.bundles(view, name)) == {bundle}

        await eventually(all_carry, within=20)

    async def rotate(self):
        """Request a new authority; returns when it signs."""
        before = (await self.keys()).state.authority.id
        await self.patch_secret({"metadata": {"annotations": {REQUEST: "now"}}})

        async def rotated():
            return (await self.keys()).state.authority.id != before

        await eventually(rotated, within=30)

    async def end(self):
        for replica in self.running:
            await replica.close()
        for view, name in self.made:
            await self.client.delete(view, name, missing_ok=True)


async def soon(condition):
    """`eventually` for a condition that awaits nothing, without holding the loop up."""

    async def holds():
        return condition()

    return await eventually(holds, within=20)


async def handshake(context, bundle, host):
    """Verify what `context` shows as an API server does."""
    trusting = ssl.create_default_context(cadata=bundle.decode())
    client, server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = context.wrap_bio(client, server, server_side=True)
    theirs = trusting.wrap_bio(server, client, server_hostname=host)
    for _ in range(10):
        done = 0
        for side in (theirs, ours):
            try:
                side.do_handshake()
                done += 1
            except ssl.SSLWantReadError:
                pass
        if done == 2:
            return True
    return False
