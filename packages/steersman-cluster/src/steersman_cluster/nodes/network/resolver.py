"""The /etc/resolv.conf and /etc/hosts of containers, as the kubelet writes them. Pure functions."""

from __future__ import annotations

from typing import Final

from steersman_cluster.nodes.network.names import ZONE
from steersman_cluster.objects import Object, dig, name_of, namespace_of

__all__ = ["DNS_SERVICE_ADDRESS", "full_name", "hosts_file", "resolv_conf"]

DNS_SERVICE_ADDRESS: Final = "10.0.0.10"
_MAX_NAMESERVERS: Final = 3
_HEADER: Final = "# Kubernetes-managed hosts file."
_HEADER_HOST_NETWORK: Final = "# Kubernetes-managed hosts file (host network)."


def resolv_conf(pod: Object, host: str) -> str:
    """Return the file for a Pod; `host` is the text of the node's own file."""
    spec: Object = pod.get("spec") or {}
    policy = spec.get("dnsPolicy") or "ClusterFirst"
    if policy == "ClusterFirst" and spec.get("hostNetwork"):
        policy = "Default"
    nameservers: list[str] = []
    searches: list[str] = []
    options: dict[str, str | None] = {}
    if policy in ("ClusterFirst", "ClusterFirstWithHostNet"):
        nameservers = [DNS_SERVICE_ADDRESS]
        searches = [f"{namespace_of(pod)}.svc.{ZONE}", f"svc.{ZONE}", ZONE]
        options = {"ndots": "5"}
    elif policy == "Default":
        nameservers, searches, options = _parsed(host)
    config: Object = spec.get("dnsConfig") or {}
    nameservers += config.get("nameservers") or []
    searches += config.get("searches") or []
    options.update({option["name"]: option.get("value") for option in config.get("options") or ()})
    lines = [f"nameserver {address}" for address in list(dict.fromkeys(nameservers))[:_MAX_NAMESERVERS]]
    if searches:
        lines.append(f"search {' '.join(dict.fromkeys(searches))}")
    if options:
        shown = (name if value is None else f"{name}:{value}" for name, value in options.items())
        lines.append(f"options {' '.join(shown)}")
    return "".join(f"{line}\n" for line in lines)


def _parsed(text: str) -> tuple[list[str], list[str], dict[str, str | None]]:
    nameservers: list[str] = []
    searches: list[str] = []
    options: dict[str, str | None] = {}
    for line in text.splitlines():
        match line.split():
            case ["nameserver", address, *_]:
                nameservers.append(address)
            case ["search", *names]:
                searches = names
            case ["options", *words]:
                for word in words:
                    name, colon, value = word.partition(":")
                    options[name] = value if colon else None
            case _:
                pass
    return nameservers, searches, options


def full_name(pod: Object) -> str:
    """Return a Pod's fully qualified domain name; empty for a Pod without a subdomain."""
    subdomain = dig(pod, "spec", "subdomain", default="")
    if not subdomain:
        return ""
    hostname = (dig(pod, "spec", "hostname") or name_of(pod))[:63]
    return f"{hostname}.{subdomain}.{namespace_of(pod)}.svc.{ZONE}"


def hosts_file(pod: Object, ip: str, hostname: str, host: str) -> str:
    """Return the file for a Pod with its own name and its aliases; on the host network with the names of the node.

    Args:
        pod: The Pod.
        ip: The address of the Pod.
        hostname: The host name of the Pod.
        host: The text of the node's own file.
    """
    if dig(pod, "spec", "hostNetwork", default=False):
        lines = [_HEADER_HOST_NETWORK, *host.splitlines()]
    else:
        lines = [_HEADER, "127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback", "fe00::0\tip6-localnet"]
        lines += ["fe00::0\tip6-mcastprefix", "fe00::1\tip6-allnodes", "fe00::2\tip6-allrouters"]
        full = full_name(pod)
        lines.append("\t".join([ip, *([full] if full else []), hostname]))
    aliases: list[Object] = dig(pod, "spec", "hostAliases", default=[])
    if aliases:
        lines += ["", "# Entries added by HostAliases."]
    lines += ["\t".join([alias["ip"], *(alias.get("hostnames") or ())]) for alias in aliases]
    return "\n".join(lines) + "\n"
