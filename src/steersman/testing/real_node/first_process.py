"""The first process of a node's PID namespace. Started as a program in new namespaces, with the node's directory.

It mounts what keeps writes to fixed paths inside, configures the network, writes the file `ready`, and then collects
the processes that containers leave behind. It uses nothing but the standard library.
"""

import contextlib
import os
import signal
import subprocess
import sys

NODE_ADDRESS = "198.51.100.2"
GATEWAY_ADDRESS = "198.51.100.1"

_OVERLAID = ("/var/lib", "/var/log")
"""Directories below which kubelet, CNI plug-ins and containerd write to fixed paths."""

_SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""The kubelet sets these at its start. They belong to the whole machine, so the node sees files with these values."""

_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


def run(*command: str) -> None:
    """Run a command; a failure ends the node with the command's message in the log."""
    subprocess.run(command, check=True, env=_ENVIRONMENT)  # noqa: S603


def mount_file_systems(directory: str) -> None:
    """Mount /proc, an empty /run, layers over the directories that the node writes to, and the files of sysctls."""
    run("mount", "--make-rprivate", "/")
    run("mount", "-t", "proc", "proc", "/proc")
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    for target in _OVERLAID:
        layer = f"/run/steersman{target}"
        os.makedirs(f"{layer}/upper")
        os.makedirs(f"{layer}/work")
        options = f"lowerdir={target},upperdir={layer}/upper,workdir={layer}/work"
        run("mount", "-t", "overlay", "-o", options, "overlay", target)
    for name, value in _SYSCTLS.items():
        with open(f"/proc/sys/{name}") as file:
            if file.read().strip() == value:
                continue
        shown = f"{directory}/node/sysctl/{name}"
        os.makedirs(os.path.dirname(shown), exist_ok=True)
        with open(shown, "w") as file:
            file.write(f"{value}\n")
        run("mount", "--bind", shown, f"/proc/sys/{name}")
    # Volumes of containers propagate mounts, which needs a shared root.
    run("mount", "--make-rshared", "/")


def configure_network() -> None:
    """Give the node its address, on a pair of virtual devices that leads nowhere."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "gateway0")
    run("ip", "link", "set", "gateway0", "up")
    run("ip", "address", "add", f"{NODE_ADDRESS}/24", "dev", "eth0")
    run("ip", "link", "set", "eth0", "up")
    run("ip", "route", "add", "default", "via", GATEWAY_ADDRESS, "dev", "eth0")
    with open("/proc/sys/net/ipv4/ip_forward", "w") as file:
        file.write("1\n")


def collect_children() -> None:
    """Wait for the end of child processes, for ever. Containers and shims become children of this process."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        signal.sigwait({signal.SIGCHLD})


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    mount_file_systems(sys.argv[1])
    configure_network()
    with open(f"{sys.argv[1]}/ready", "w"):
        pass
    collect_children()
