"""The far end of a tun interface: a host that does nothing but answer pings (IPv4)."""

import fcntl
import os
import struct

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000


def checksum(octets):
    octets += b"\0" * (len(octets) % 2)
    total = sum(struct.unpack(f"!{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack("!H", ~total & 0xFFFF)


def reply(packet):
    """The answer to a ping, without the options of its header; None to all else."""
    length = (packet[0] & 15) * 4
    if packet[0] >> 4 != 4 or packet[9] != 1 or packet[length] != 8:
        return None
    echo = b"\0\0" + checksum(b"\0\0\0\0" + packet[length + 4 :]) + packet[length + 4 :]
    begin = struct.pack("!BBHHHBB", 0x45, 0, 20 + len(echo), 0, 0, 64, 1)
    ends = packet[16:20] + packet[12:16]
    return begin + checksum(begin + b"\0\0" + ends) + ends + echo


tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"tun0", IFF_TUN | IFF_NO_PI))
print("ready", flush=True)
while True:
    answer = reply(os.read(tun, 65536))
    if answer:
        os.write(tun, answer)
