"""Steersman's webhook server with one typed mutation of Pods, the same as the Go peer's.

The route is made by hand instead of by the run loop, so that no cluster is needed; the server, the review and the patch
are those of an operator.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from benchmarks.peers.meter import Meter
from steersman.k8s import Container, EnvVar, Pod
from steersman.models import replace, view_of
from steersman.webhook.admission import Admission, AdmissionRoute, Hook
from steersman.webhook.admission_review import failure
from steersman.webhook.http import WebhookServer
from steersman.webhook.http_messages import WebhookRequest

PATH = "/mutate--v1-pod"
AGENT = Container(name="agent", image="registry.example/agent:1", env=(EnvVar(name="ROLE", value="sidecar"),))


def inject(pod: Pod) -> Pod:
    """Add a label and a container, as an injector does."""
    labels = {**pod.metadata.labels, "bench.steersman.dev/injected": "true"}
    spec = replace(pod.spec, containers=(*pod.spec.containers, AGENT))
    return replace(pod, metadata=replace(pod.metadata, labels=labels), spec=spec)


class Files:
    """One certificate, from a directory."""

    def __init__(self, directory: str) -> None:
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(f"{directory}/tls.crt", f"{directory}/tls.key")

    def context(self) -> ssl.SSLContext:
        return self._context


async def _call(pod: Any, _: Admission) -> Any:
    return inject(pod)


async def serve(options: argparse.Namespace) -> None:
    """Serve reviews until stdin is closed."""
    hook = Hook("bench", "mutator", PATH, view_of(Pod), _call, "benchmark")
    route, certificates = AdmissionRoute(hook), Files(options.cert_dir)
    if options.aiohttp:
        await _start_aiohttp(route, certificates.context(), options.port)
    else:
        server = WebhookServer({PATH: route}, certificates, refuse=lambda code, text: failure(code, "", text))
        await server.start("127.0.0.1", options.port)
    meter = Meter()
    meter.obey()
    meter.mark("ready")
    await asyncio.Event().wait()


async def _start_aiohttp(route: AdmissionRoute, context: ssl.SSLContext, port: int) -> None:
    """Start aiohttp's server with the same route, for decision 0006. Its access log is off, as in our server."""
    from aiohttp import web

    async def handle(request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = await request.read()
        review = WebhookRequest(request.method, request.path, request.query_string, headers, body)
        response = await route(review)
        return web.Response(status=response.status, body=response.body, content_type="application/json")

    application = web.Application(client_max_size=10 * 1024 * 1024)
    application.router.add_post(PATH, handle)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cert-dir", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--asyncio", action="store_true", help="without uvloop")
    parser.add_argument("--aiohttp", action="store_true", help="serve with aiohttp instead of our server")
    options = parser.parse_args(argv)
    run: Callable[[Awaitable[None]], Any] = asyncio.run  # type: ignore[assignment]
    if not options.asyncio:
        with suppress(ImportError):
            import uvloop

            run = uvloop.run  # type: ignore[assignment]
    run(serve(options))


if __name__ == "__main__":
    main()
