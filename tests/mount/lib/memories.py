# SPDX-License-Identifier: Apache-2.0
"""What processes have in memory: of all that is there, what matches."""
import contextlib
import os
import re
import struct

from xsbx import name_of, read

PAGE = 4096
SHADOW = 1 << 38  # what sanitizers map is longer, and has nothing of what is said
LONGEST = 100  # what is looked for has no more bytes


def present(pid, begin, end):
    """The parts of a mapping that are in memory: to read others would make them."""
    with open(f"/proc/{pid}/pagemap", "rb", 0) as pagemap:
        pagemap.seek(begin // PAGE * 8)
        entries = struct.unpack(f"<{(end - begin) // PAGE}Q", pagemap.read((end - begin) // PAGE * 8))
    at = None
    for i, entry in enumerate((*entries, 0)):
        there = entry >> 62
        if there and at is None:
            at = i
        elif not there and at is not None:
            yield begin + at * PAGE, begin + i * PAGE
            at = None


def search(file, begin, end, needle, found, step=1 << 22):
    tail = b""
    while begin < end:
        file.seek(begin)
        data = file.read(min(step, end - begin))
        if not data:
            break
        found |= set(needle.findall(tail + data))
        tail = data[-LONGEST:]
        begin += len(data)


def search_mappings(pid, needle, found):
    for mapping in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", read(f"/proc/{pid}/smaps").decode())[1:]:
        begin, end = (int(x, 16) for x in mapping.split()[0].split("-"))
        if mapping.split()[1][0] != "r" or not re.search(r"(Rss|Swap): +[1-9]", mapping):
            continue
        if end - begin > SHADOW:
            continue
        with open(f"/proc/{pid}/mem", "rb", 0) as mem:
            for part in present(pid, begin, end):
                with contextlib.suppress(OSError):
                    search(mem, *part, needle, found)


def search_files(pid, needle, found, known):
    """Files in memory that it has open, mapped or not."""
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            if "memfd:" not in os.readlink(f"/proc/{pid}/fd/{fd}"):
                continue
            with open(f"/proc/{pid}/fd/{fd}", "rb", 0) as file:
                inode, at = os.fstat(file.fileno()).st_ino, 0
                while inode not in known:
                    try:
                        at = os.lseek(file.fileno(), at, os.SEEK_DATA)
                    except OSError:
                        break
                    end = os.lseek(file.fileno(), at, os.SEEK_HOLE)
                    search(file, at, end, needle, found)
                    at = end
                known.add(inode)


def have(pid, needle, known):
    """What of a pattern is in its memory, files in memory, environment or command line?

    KNOWN is the set of files that were searched before, which several processes may have.
    """
    found = set()
    with contextlib.suppress(OSError):
        for file in ("environ", "cmdline"):
            found |= set(needle.findall(read(f"/proc/{pid}/{file}")))
        search_mappings(pid, needle, found)
        search_files(pid, needle, found, known)
    return {x.decode() for x in found}


def role(pid):
    """Its name, or that it is a network's filter."""
    with contextlib.suppress(OSError):
        return "filter" if b"--control" in read(f"/proc/{pid}/cmdline").split(b"\0") else name_of(pid)
    return "gone"
