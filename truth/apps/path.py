"""A path that takes time: path.py READY_FILE DELAY_MS [LOSS], in a network namespace of its own, as root.

Everything between 10.77.0.1 and 10.77.0.2 goes out through a TUN device and comes back through it DELAY_MS later, less a
share of LOSS. Both addresses are this host's own. The surprise: the table of local addresses must be asked after ours,
or the kernel would hand a packet to its own address over without any device.
"""

import collections
import fcntl
import os
import random
import select
import struct
import subprocess
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 1, 0x1000
NEAR, FAR = "10.77.0.1", "10.77.0.2"
DEVICE = "path"
# More than the largest packet of the device.
LONGEST = 2048
SETUP = (
    *(f"ip addr add {address}/32 dev {DEVICE}" for address in (NEAR, FAR)),
    f"ip link set {DEVICE} up mtu 1500 txqueuelen 10000",
    f"ip route add {FAR} dev {DEVICE} src {NEAR} table 77",
    f"ip route add {NEAR} dev {DEVICE} src {FAR} table 77",
    f"ip rule add pref 10 iif {DEVICE} lookup local",
    "ip rule add pref 11 lookup 77",
    "ip rule add pref 12 lookup local",
    "ip rule del pref 0 lookup local",
)


def device():
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
    for command in SETUP:
        subprocess.run(command.split(), check=True)
    for where in ("all", DEVICE):
        for name, value in (("accept_local", "1"), ("rp_filter", "0")):
            with open(f"/proc/sys/net/ipv4/conf/{where}/{name}", "w") as file:
                file.write(value)
    return tun


def take(tun, due, delay_s, loss):
    """Every packet that waits, with the time at which it arrives at the other end."""
    while True:
        try:
            packet = os.read(tun, LONGEST)
        except BlockingIOError:
            return
        if random.random() >= loss:
            due.append((time.monotonic() + delay_s, packet))


def relay(tun, delay_s, loss):
    due = collections.deque()
    while True:
        wait = max(due[0][0] - time.monotonic(), 0) if due else None
        if select.select([tun], [], [], wait)[0]:
            take(tun, due, delay_s, loss)
        now = time.monotonic()
        while due and due[0][0] <= now:
            os.write(tun, due.popleft()[1])


if __name__ == "__main__":
    random.seed(7)
    opened = device()
    with open(sys.argv[1], "w") as ready:
        ready.write("ready")
    relay(opened, float(sys.argv[2]) / 1e3, float(sys.argv[3]) if len(sys.argv) > 3 else 0.0)
