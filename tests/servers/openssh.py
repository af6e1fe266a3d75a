"""Run a real SSH server on the loopback: OpenSSH's sshd as an ordinary process with its own keys."""

import getpass
import os
import shutil
import socket
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from servers.loopback import HOST, cannot_start, free_ports, running

NAME = "OpenSSH (sshd)"
SBIN = "/usr/sbin:/usr/local/sbin:/sbin"  # where Debian installs sshd, often not in a user's PATH


@dataclass(frozen=True)
class SSHServer:
    """Port, user and keys of a running SSH server."""

    port: int
    user: str
    keyfile: Path
    host_key: str  # public key as in known_hosts: "ssh-ed25519 AAAA…"


@contextmanager
def running_ssh(folder):
    """Start sshd with its host key, authorized keys and log in ``folder``; stop it at the end."""
    sshd = shutil.which("sshd") or shutil.which("sshd", path=SBIN)
    keygen = shutil.which("ssh-keygen")
    if sshd is None or keygen is None:
        cannot_start(NAME, "sshd or ssh-keygen not found; apt-get install openssh-server")
    for name in ("host_key", "user_key"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (port,) = free_ports(1)
    (folder / "authorized_keys").write_text((folder / "user_key.pub").read_text())
    (folder / "sshd_config").write_text(config(folder, port))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # required by Debian's sshd as root
    command = [sshd, "-D", "-e", "-f", folder / "sshd_config"]
    with running(command, lambda: is_ssh_server(port), folder / "sshd.log", server=NAME):
        kind, key, *_ = (folder / "host_key.pub").read_text().split()
        yield SSHServer(port, getpass.getuser(), folder / "user_key", f"{kind} {key}")


def config(folder, port):
    """Return an sshd_config for file transfer with one key on the loopback only."""
    return f"""\
ListenAddress {HOST}
Port {port}
HostKey {folder / "host_key"}
PidFile none
AuthorizedKeysFile {folder / "authorized_keys"}
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
StrictModes no
AllowTcpForwarding no
X11Forwarding no
Subsystem sftp internal-sftp
ForceCommand internal-sftp
"""


def is_ssh_server(port):
    """Return whether an SSH server answers on a port."""
    try:
        with socket.create_connection((HOST, port), timeout=2) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False
