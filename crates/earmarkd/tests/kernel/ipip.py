"""One end of a tunnel: packets that enter tun0 go to the other end in IPv4 (RFC 2003), and back.

usage: ipip.py OWN OTHER
"""

import fcntl
import os
import select
import socket
import struct
import sys

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000

own, other = sys.argv[1:]
tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"tun0", IFF_TUN | IFF_NO_PI))
outer = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_IPIP)
outer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
outer.bind((own, 0))
print("ready", flush=True)
while True:
    for ready in select.select([tun, outer], [], [])[0]:
        if ready is outer:
            packet, (sender, _) = outer.recvfrom(65536)
            # The carrier of tun0 comes with this program, and its address later.
            if sender == other:
                os.write(tun, packet[(packet[0] & 15) * 4 :])
        else:
            packet = os.read(tun, 65536)
            if packet[0] >> 4 == 4:
                outer.sendto(packet, (other, 0))
