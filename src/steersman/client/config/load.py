"""Selection of the configuration like kubectl: explicit file, `$KUBECONFIG`, `~/.kube/config`, the ServiceAccount.

The environment and the home directory are arguments.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from steersman.client.config.base import Config
from steersman.client.config.errors import ConfigError
from steersman.client.config.incluster import SERVICE_ACCOUNT, in_cluster_config, is_in_cluster
from steersman.telemetry.clock import Now, utc_now


def load_config(
    kubeconfig: str | os.PathLike[str] | None = None,
    context: str | None = None,
    *,
    env: Mapping[str, str] | None = None,
    home: Path | None = None,
    service_account: Path = SERVICE_ACCOUNT,
    now: Now = utc_now,
) -> Config:
    """Load the configuration from the first of these sources that exists.

    1. `kubeconfig`, which must exist; 2. the merged files of `$KUBECONFIG`, without missing ones; 3. `~/.kube/config`;
    4. the Pod's ServiceAccount, unless a `context` is given. It reads files, but opens no connection and runs no
    plugin. Raises `ConfigError` with the file, the entry, the field and what to do.
    """
    env = os.environ if env is None else env
    files = _default_files(env, home) if kubeconfig is None else [Path(kubeconfig)]
    if kubeconfig is not None or not all(map(_is_absent, files)):
        from steersman.client.config.contexts import config_from
        from steersman.client.config.kubeconfig import load_kubeconfig

        merged = load_kubeconfig(files, must_exist=kubeconfig is not None)
        if kubeconfig is not None or not merged.empty:
            return config_from(merged, context, env=env, now=now)
    if is_in_cluster(env) and context is None:
        return in_cluster_config(env=env, directory=service_account)
    raise ConfigError(
        f"no Kubernetes configuration found (searched {', '.join(map(str, files)) or 'nothing: no home directory'})",
        hint="set KUBECONFIG, pass a kubeconfig file, or run in a Pod with a ServiceAccount",
    )


def _default_files(env: Mapping[str, str], home: Path | None) -> list[Path]:
    if listed := env.get("KUBECONFIG"):
        return [Path(item) for item in listed.split(os.pathsep) if item]
    if home is None:
        try:
            home = Path.home()
        except RuntimeError:  # no home directory, as in some containers
            return []
    return [home / ".kube" / "config"]


def _is_absent(file: Path) -> bool:
    try:
        os.lstat(file)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False  # The attempt to read the file raises the error.
    return False
