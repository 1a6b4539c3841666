"""The first process of a node's PID namespace, started as a program in new namespaces with the node's directory.

It mounts file systems so that writes to fixed paths stay in the namespaces, configures the network, writes the file
`ready`, and then reaps orphaned processes of containers. It uses only the standard library.
"""

import contextlib
import os
import signal
import subprocess
import sys

NODE_ADDRESS = "198.51.100.2"
GATEWAY_ADDRESS = "198.51.100.1"

_OVERLAID = ("/var/lib", "/var/log")
"""Directories in which kubelet, CNI plug-ins and containerd write to fixed paths."""

_SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""Kernel settings (sysctls) that the kubelet sets when it starts. They apply to the whole machine, so the node gets
plain files with these values instead."""

_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


def run(*command: str) -> None:
    """Run a command; if it fails, the node ends, and the log has the command's message."""
    subprocess.run(command, check=True, env=_ENVIRONMENT)  # noqa: S603


def mount_file_systems(directory: str) -> None:
    """Mount /proc, an empty /run, overlays of the directories that the node writes to, and the files of sysctls."""
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
    # Mount propagation of container volumes needs a shared root mount.
    run("mount", "--make-rshared", "/")


def configure_network() -> None:
    """Set the address of the node, on a veth pair that is not connected to another network."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "gateway0")
    run("ip", "link", "set", "gateway0", "up")
    run("ip", "address", "add", f"{NODE_ADDRESS}/24", "dev", "eth0")
    run("ip", "link", "set", "eth0", "up")
    run("ip", "route", "add", "default", "via", GATEWAY_ADDRESS, "dev", "eth0")
    with open("/proc/sys/net/ipv4/ip_forward", "w") as file:
        file.write("1\n")


def collect_children() -> None:
    """Reap child processes without end. Orphaned containers and shims become children of this process."""
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
