"""The proxy of a server: from `proxy-url`, or from the environment like in Go.

Follows golang.org/x/net/http/httpproxy: upper case before lower case, no proxy for loopback, NO_PROXY as a list of
`*`, addresses, CIDR blocks and domains with optional ports. The environment is an argument.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from steersman.client.config.errors import ConfigError

_SCHEMES = ("http", "https", "socks5", "socks5h")


def check_proxy(url: str, *, source: str = "", entry: str = "", field: str = "proxy-url") -> str:
    """Return the proxy's URL. Raises `ConfigError`, which never shows the URL, because it may have a password."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in _SCHEMES and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        usable = False
    if not usable:
        hint = f"write scheme://host:port with a scheme of {', '.join(_SCHEMES)}"
        raise ConfigError("not a usable proxy URL", source=source, entry=entry, field=field, hint=hint)
    return url


def proxy_from_environment(server: str, env: Mapping[str, str]) -> str | None:
    """Return the proxy that `env` sets for `server`, or None. Raises `ConfigError` for an invalid URL."""
    parts = urlsplit(server)
    host = (parts.hostname or "").rstrip(".")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    upper = f"{parts.scheme.upper()}_PROXY"
    name = upper if env.get(upper) else upper.lower()
    url = env.get(name, "")
    if not url or _is_loopback(host) or _excluded(host, port, env.get("NO_PROXY") or env.get("no_proxy") or ""):
        return None
    return check_proxy(url if "://" in url else f"http://{url}", source="environment", field=name)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host.lower() == "localhost" or (address is not None and address.is_loopback)


def _excluded(host: str, port: int, no_proxy: str) -> bool:
    host = host.lower()
    address = _address(host)
    return any(_matches(rule.strip().lower(), host, address, port) for rule in no_proxy.split(","))


def _matches(rule: str, host: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None, port: int) -> bool:
    if rule in ("", "*"):
        return rule == "*"
    if "/" in rule:
        try:
            network = ipaddress.ip_network(rule, strict=False)
        except ValueError:
            return False
        return address is not None and address in network
    pattern, rule_port = _split_port(rule)
    if rule_port and rule_port != str(port):
        return False
    if (rule_address := _address(pattern)) is not None:
        return rule_address == address
    if address is not None:
        return False
    if pattern.startswith("*."):
        pattern = pattern[1:]
    if pattern.startswith("."):
        return host.endswith(pattern)
    return host == pattern or host.endswith("." + pattern)


def _split_port(rule: str) -> tuple[str, str]:
    if _address(rule) is not None:  # an IPv6 address has colons
        return rule, ""
    pattern, colon, port = rule.rpartition(":")
    return (pattern, port) if colon and port.isdigit() else (rule, "")
