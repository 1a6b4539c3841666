"""Finalizer: a Bucket exists in an object store, which is called over HTTP, and is removed before its object.

The functions are plain `def`, because `urllib` blocks; they run in a thread. The store answers repeated requests with
the same result, so an error needs no code: the function is called again.
"""

import os
from urllib.request import Request, urlopen

from steersman import Model, Operator, Resource, SyncContext

STORE = os.environ.get("BUCKET_STORE", "http://127.0.0.1:9000")


class BucketSpec(Model):
    region: str = "north"


class BucketStatus(Model):
    url: str = ""


class Bucket(Resource, group="patterns.example.com", version="v1"):
    """A bucket of the object store."""

    spec: BucketSpec = BucketSpec()
    status: BucketStatus = BucketStatus()


operator = Operator("buckets")


def url_of(bucket: Bucket) -> str:
    """The uid makes the name unique, also when an object of the same name is created later."""
    return f"{STORE}/{bucket.spec.region}/{bucket.metadata.uid}"


@operator.controller
def reconcile(bucket: Bucket, ctx: SyncContext) -> BucketStatus:
    urlopen(Request(url_of(bucket), method="PUT"), timeout=10).close()
    return BucketStatus(url=url_of(bucket))


@operator.finalizer("patterns.example.com/bucket")
def remove(bucket: Bucket, ctx: SyncContext) -> None:
    urlopen(Request(url_of(bucket), method="DELETE"), timeout=10).close()
