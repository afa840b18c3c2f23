# SPDX-License-Identifier: Apache-2.0
"""What exec_sandbox copies in and out at most: a sandbox's file may say any size, and be read to it, with nothing on a disk."""
import contextlib
import io
import os
from pathlib import Path

MAX_FILE_SIZE_BYTES = 500 << 20


def opened(what, mode):
    """@what: a path, bytes, or a stream, which stays open"""
    if isinstance(what, (bytes, bytearray)):
        return io.BytesIO(what)
    return open(what, mode) if isinstance(what, Path) else contextlib.nullcontext(what)


def too_large(size):
    raise ValueError(f"{size} bytes, exceeds {MAX_FILE_SIZE_BYTES}")


def check(source):
    """As far as it is known before."""
    if source.seekable():
        at = source.tell()
        size = source.seek(0, os.SEEK_END) - at
        source.seek(at)
        if size > MAX_FILE_SIZE_BYTES:
            too_large(size)


def copy(source, target):
    """And what grows meanwhile, or has no size."""
    size = 0
    while piece := source.read(1 << 20):
        size += len(piece)
        if size > MAX_FILE_SIZE_BYTES:
            too_large(size)
        target.write(piece)
