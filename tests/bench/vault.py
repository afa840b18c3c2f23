# SPDX-License-Identifier: Apache-2.0
"""What is saved, on a disk: the memory of a machine written and read, with encryption and without; see vault.c."""

import os
import tempfile

from common import BUILD, Names, Series, clock, extra, heading, show

CLOCKS = {
    "write-plain": "30 MiB packed and written, to the end of fsync, without encryption",
    "write-sealed": "the same, encrypted",
    "read-plain": "read and unpacked into memory, without encryption",
    "read-sealed": "the same, encrypted",
    "head": "what is known of it without loading it",
    "store": "all that is saved, whose base is on the disk already",
    "load": "all that was saved, whose base is in memory already",
    "load-base": "all that was saved, with 64 MiB of its base",
}


def vault(bench):
    where = os.environ.get("XSBX_BENCH_DISK", tempfile.gettempdir())
    names = Names(lambda name: Series(name, CLOCKS.get(name, "bytes")))
    clock(names, where, 5 if bench.quick else 20, program=f"{BUILD}/bench/vault")
    heading(f"What is saved, on the disk of {where}: a stream of 30 MiB, as the memory of programs is",
            *(f"{name}: {what}." for name, what in CLOCKS.items()))
    for name in CLOCKS:
        show(names[name])
    sizes = {name: names[name].percentile(50) for name in ("bytes-stream", "bytes-plain", "bytes-sealed")}
    print("  " + ", ".join(f"{name[6:]} {size / (1 << 20):.2f} MiB" for name, size in sizes.items()))
    extra["vault_bytes"] = sizes
