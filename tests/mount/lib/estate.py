# SPDX-License-Identifier: Apache-2.0
"""What a daemon leaves to the next one, read from outside; as root, which the daemon is not any more."""

import os
import struct

AREA_AT, AREA_SIZE = 2 << 30, 16 << 30  # of vm/base/estate_internal.h
ENTRY = struct.Struct("=IIQQQ")
DROPPED = 1 << 31
KEEP_SESSION, KEEP_RUN = 1, 2
HANDOVER_EVENT = 81  # of which the mount has so many as its log holds
HEAD = 0


def memory_of(pid, what, flags):
    """A descriptor of what this process has in memory under this name."""
    for name in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{name}"
        if f"memfd:xsbxfs-{what} " in os.readlink(path):
            return os.open(path, flags)
    raise RuntimeError(f"it has no {what}")


def estate_of(pid):
    """To be written to."""
    return memory_of(pid, "estate", os.O_RDWR)


def records(fd):
    """Where the fields of each record of an estate are, and how long, by its kind, key and sub."""
    committed, = struct.unpack("=Q", os.pread(fd, 8, 16))
    at = AREA_AT + (committed >> 63) * AREA_SIZE
    data, found, n = os.pread(fd, committed & (1 << 63) - 1, at), {}, 0
    while n < len(data):
        length, kind, key, sub, _ = ENTRY.unpack_from(data, n)
        if kind & DROPPED:
            found.pop((kind & ~DROPPED, key, sub), None)
        else:
            found[kind, key, sub] = (at + n + ENTRY.size, length)
        n += ENTRY.size + (length + 7 & ~7)
    return found


def weight(pid):
    """Of its records, but events: how many, and bytes. What it has no use for any more is not counted."""
    fd = memory_of(pid, "estate", os.O_RDONLY)
    found = {name: where for name, where in records(fd).items() if name[0] != HANDOVER_EVENT}
    os.close(fd)
    return len(found), sum(ENTRY.size + (length + 7 & ~7) for _, length in found.values())
