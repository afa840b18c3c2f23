#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The working directory has a quota, and statfs says which."""
# backends: vm process
# night: vm
# timeout: 60
from xsbx import *


def quota():
    s = Session("quota")
    s.run("true\n")
    info = os.statvfs(s / "files")
    total = info.f_blocks * info.f_frsize
    ok("a quota that fits in the memory", 1 << 20 < total < 192 << 20, total)
    ok("most of it is free", info.f_bavail * info.f_frsize > total // 2)
    ok("inodes are limited too", 100 < info.f_files < 10_000_000, info.f_files)
    same("df agrees", shell(f"df -B1 --output=size {s / 'files'} | tail -n 1")[1].strip(),
         str(total).encode())

    wrote = 0
    with raises("full", errno.ENOSPC, errno.EDQUOT):
        fd = os.open(s / "files/fill", os.O_CREAT | os.O_WRONLY)
        for _ in range(400):
            wrote += os.write(fd, bytes(1 << 20))
    os.close(fd)
    ok("up to about the quota", total * 0.8 <= wrote <= total * 1.05, (wrote, total))
    status, _, err = shell(f"cp /bin/bash {s / 'files/more'}")
    ok("cp says so", status != 0 and b"No space" in err, err)
    ok("the sandbox too", s.run("head -c 5000000 /dev/zero > more2").code != 0)
    info = os.statvfs(s / "files")
    ok("statfs shows it", info.f_bavail * info.f_frsize < 2 << 20)
    os.unlink(s / "files/fill")
    same("and it is free again", s.run("rm -f more*; head -c 5000000 /dev/zero > x; wc -c < x\n").out,
         "5000000\n")

    sparse = s / "files/sparse"
    with open(sparse, "wb") as file:
        file.truncate(100 << 30)
    same("a sparse file counts for nothing", os.stat(sparse).st_blocks, 0)
    same("the session is well", s.run("echo fine\n").out, "fine\n")


def inodes():
    s = Session("inodes")
    result = s.run("i=0; while : > f$i; do i=$((i+1)); [ $i -lt 300000 ] || break; done 2>&1 | "
                   "tail -n 1; ls -f | wc -l\n")
    ok("inodes run out before memory does", isinstance(result.code, int), result)
    same("and the session is well", s.run("rm -rf f*; echo fine\n").out[-5:], "fine\n")


main(quota, inodes)
