"""Runs a command in a network of its own, which has nothing but loopback: python tools/own_network.py COMMAND ...

A server that listens on all interfaces, as Milvus does, can then be reached by this command and its children alone.
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

NEW_NETWORK, NEW_USER = 0x40000000, 0x10000000  # CLONE_NEWNET, CLONE_NEWUSER of sched.h
SET_FLAGS, UP = 0x8914, 0x1  # SIOCSIFFLAGS, IFF_UP of net/if.h


def enter() -> None:
    """Move this process to a new network; a user who is not root needs a user namespace for it."""
    user, group = os.getuid(), os.getgid()
    wanted = NEW_NETWORK | (0 if user == 0 else NEW_USER)
    if ctypes.CDLL(None, use_errno=True).unshare(wanted) != 0:
        why = os.strerror(ctypes.get_errno())
        sys.exit(f"no network namespace can be made here ({why}); run this as root, or allow user namespaces")
    if wanted & NEW_USER:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SET_FLAGS, struct.pack("16sh", b"lo", UP))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    enter()
    raise_loopback()
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606
