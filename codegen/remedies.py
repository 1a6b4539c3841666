"""What a user can do about each exception of the public API; `reference` writes it into docs/reference/errors.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["REMEDIES"]

REMEDIES: Final[Mapping[str, str]] = {
    "steersman.DeclarationError": "Change the declaration at that line as the message says.",
    "steersman.DecodeError": "Correct the value at the path, or widen the type of the field.",
    "steersman.DeniedError": "Change the request as the message says. A webhook raises this error to deny one.",
    "steersman.Invalid": "Correct the fields that the causes name. A webhook raises this error to refuse them.",
    "steersman.LeadershipLostError": (
        "None in the operator: the process ends, and its Deployment starts it again. If it happens often, look for"
        " requests to the API server that take longer than the renew deadline, and for a CPU limit that is too low."
    ),
    "steersman.NotCachedError": "Add the kind to `owns`, `reads` or `watches`, or use `ctx.fetch`.",
    "steersman.NotLeaderError": "None: the replica that leads does the work. Do not catch the error in a reconcile.",
    "steersman.RequeueError": "None: a reconcile raises it to wait.",
    "steersman.TerminalError": "Change the object as its condition or Event says; the change starts a reconcile.",
    "steersman.UndecodableError": "Correct the object, or widen the type of the field in the class.",
    "steersman.client.AlreadyExists": "Use `ctx.apply`, or delete the object first.",
    "steersman.client.ApiError": "See the class of the code below; `status` has the server's message.",
    "steersman.client.BadRequest": "Correct the request: the message names the field or the parameter.",
    "steersman.client.ClientError": "See the classes below. In a reconcile, let it pass: the reconcile is retried.",
    "steersman.client.Conflict": (
        "Read the object again and repeat; in a reconcile, let it pass. For apply, `force=True` takes over the fields."
    ),
    "steersman.client.ConnectError": "Check the address in the kubeconfig, the network and the CA. A retry is safe.",
    "steersman.client.ConnectionLostError": "Read the object before you repeat a write that is not idempotent.",
    "steersman.client.Expired": "List again, and watch from the resourceVersion of the list.",
    "steersman.client.Forbidden": (
        "Grant the verb: `operator.permit(…)` and `steersman manifests`, or a Role. A refusal by a quota, a policy or a"
        " webhook has the reason in its message."
    ),
    "steersman.client.InternalError": "Retry later. The log of the API server or of the webhook has the reason.",
    "steersman.client.Invalid": "Correct the fields that `causes` lists.",
    "steersman.client.MethodNotAllowed": "Use a verb that `kubectl api-resources -o wide` lists for the kind.",
    "steersman.client.NotAcceptable": "Request JSON.",
    "steersman.client.NotFound": (
        "Treat a missing object as absent. For a missing kind, install its CRD (`steersman install`) or correct the"
        " version."
    ),
    "steersman.client.RequestTooLarge": "Split the object, or store large data outside of Kubernetes.",
    "steersman.client.ResponseError": (
        "Check what stands between the client and the API server: proxies and load balancers can change responses."
    ),
    "steersman.client.ServerTimeout": "Read the object before you repeat a write; list large collections in pages.",
    "steersman.client.ServiceUnavailable": "Retry later. For an aggregated API, check its APIService and its Pods.",
    "steersman.client.TooManyRequests": (
        "Retry after `retry_after` seconds. For an eviction, wait until the PodDisruptionBudget allows it."
    ),
    "steersman.client.TransportError": "See the classes below.",
    "steersman.client.TransportTimeoutError": "Read the object before you repeat a write, and check the server's load.",
    "steersman.client.Unauthorized": "Log in again, renew the token or the certificate, or check the kubeconfig.",
    "steersman.client.UnsupportedMediaType": "Use a merge patch, a JSON patch or apply.",
    "steersman.client.UpgradeRefusedError": "`body` has the reason. Check that proxies pass WebSockets.",
    "steersman.client.WaitTimeoutError": "Compare the last state in the message with the condition; wait longer.",
    "steersman.metrics.MetricError": "Rename the metric or its labels as the message says.",
    "steersman.manifests.ManifestError": "Correct each declaration at its file and line.",
    "steersman.testing.BinariesNotFoundError": (
        "Run `make controlplane`, set `STEERSMAN_CONTROLPLANE` to a directory of binaries, or use `--cluster=embedded`."
    ),
    "steersman.testing.CallError": "As for `steersman.client.ApiError`; expect it with `pytest.raises`.",
    "steersman.testing.ComponentError": "The log in the message has the reason, such as a port that is in use.",
    "steersman.testing.DeadlockError": "Remove I/O and locks without a timer from the simulated operator.",
    "steersman.testing.KubectlError": "Correct the command or the objects as kubectl's message says.",
    "steersman.testing.NoProgressError": "Add a delay to the callbacks that the message names.",
    "steersman.testing.UnsupportedError": "Choose the cluster that the message names (`--cluster`).",
    "steersman.testing.explore.ExploredError": "Replay the plan with the printed command, and correct the operator.",
    "steersman.testing.explore.PlanError": "Correct the text: `crash-after:W1+conflict:W3` is a plan.",
}
"""The remedy by the module in which the page lists the exception, and its name."""
