"""Runs one replica of an operator in this process: logging, event loop, signals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from steersman.cache import NO_MEMORY_POLICY, ProcessMemory
from steersman.cli.operator_loader import LoadError, load_operator
from steersman.client.config import Config, load_config
from steersman.controller.loop_activity import ObservedLoop
from steersman.operator.operator import Operator
from steersman.operator.run import run_operator
from steersman.operator.settings import Settings
from steersman.signals import stop_on_signals
from steersman.telemetry.log import configure

__all__ = ["config_for", "definitions_for", "run_replica"]


def config_for(settings: Settings) -> Config:
    """Return the configuration of the cluster in the settings. Raises `ConfigError`."""
    if settings.server:
        return Config.for_url(settings.server)
    return load_config(settings.kubeconfig, settings.context)


def run_replica(target: str, settings: Settings, prepare: Callable[[Operator], None] | None = None) -> int:
    """Load the operator, run it until a signal, and return the exit code; errors propagate.

    Calls `prepare` with the operator before it runs.
    """
    configure(level=settings.log_level, format=settings.log_format)
    operator = load_operator(target)
    operator.check()
    if prepare is not None:
        prepare(operator)
    config = config_for(settings)
    definitions = definitions_for(operator, config, settings) if settings.install_crds else ()
    with asyncio.Runner(loop_factory=_loop_factory(settings)) as runner:
        return runner.run(_until_signal(operator, config, settings, definitions))


def definitions_for(operator: Operator, config: Config, settings: Settings) -> Sequence[Mapping[str, Any]]:
    """Return the CustomResourceDefinitions that this run installs. Raises `LoadError`.

    In a cluster, the conversion of a kind names the operator's Service; a local run sets the conversion itself.
    """
    from steersman.manifests import ManifestError, Package  # Most runs do not need these modules.
    from steersman.manifests.parts import parts_of
    from steersman.manifests.template_values import resolved

    made_by: Any = "cert-manager" if settings.webhook_cert_dir else "self-managed"
    try:
        package = Package(operator, target=operator.name, namespace=config.namespace, certificates=made_by)
        found = [resolved(crd) for crd in parts_of(package).crds]
    except ManifestError as wrong:
        raise LoadError("\nerror: ".join(wrong.problems), 1) from None
    if not found:
        raise LoadError("--install-crds: the operator has no kinds of its own, so there is nothing to install", 1)
    if settings.webhook_mode == "local":
        for crd in found:
            crd["spec"].pop("conversion", None)
    return found


async def _until_signal(
    operator: Operator, config: Config, settings: Settings, definitions: Sequence[Mapping[str, Any]]
) -> int:
    with stop_on_signals() as stop:
        memory = ProcessMemory() if settings.gc_tuning else NO_MEMORY_POLICY
        await run_operator(operator, config, settings, stop=stop, definitions=definitions, memory=memory)
    return 0


def _loop_factory(settings: Settings) -> Callable[[], asyncio.AbstractEventLoop]:
    if not settings.uvloop:
        return ObservedLoop
    try:
        import uvloop
    except ImportError:
        return ObservedLoop
    return uvloop.new_event_loop
