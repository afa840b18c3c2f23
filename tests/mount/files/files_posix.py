#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""files/: what POSIX says about the calls."""
# backends: local vm
import fcntl
import random
import stat

from xsbx import *

F = None


def setup():
    global F
    s = Session("posix")
    s.run("true\n")
    F = s / "files"


def opening():
    with raises("missing", errno.ENOENT):
        os.open(f"{F}/nothing", os.O_RDONLY)
    fd = os.open(f"{F}/a", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o640)
    same("mode", os.fstat(fd).st_mode, stat.S_IFREG | 0o640)
    same("nlink, size", (os.fstat(fd).st_nlink, os.fstat(fd).st_size), (1, 0))
    with raises("O_EXCL", errno.EEXIST):
        os.open(f"{F}/a", os.O_CREAT | os.O_EXCL | os.O_RDWR)
    same("write", os.write(fd, b"0123456789"), 10)
    same("pread", os.pread(fd, 3, 4), b"456")
    same("pwrite beyond the end", os.pwrite(fd, b"x", 20), 1)
    same("a hole reads as zeroes", os.pread(fd, 100, 0), b"0123456789" + bytes(10) + b"x")
    same("read past the end", os.pread(fd, 10, 100), b"")
    os.close(fd)
    fd = os.open(f"{F}/a", os.O_WRONLY | os.O_APPEND)
    os.write(fd, b"end")
    os.close(fd)
    same("O_APPEND", read(f"{F}/a")[-4:], b"xend")
    fd = os.open(f"{F}/a", os.O_WRONLY | os.O_TRUNC)
    same("O_TRUNC", os.fstat(fd).st_size, 0)
    with raises("reading what is open for writing", errno.EBADF):
        os.read(fd, 1)
    os.close(fd)
    fd = os.open(f"{F}/a", os.O_RDONLY)
    with raises("writing what is open for reading", errno.EBADF):
        os.write(fd, b"x")
    os.close(fd)
    os.mkdir(f"{F}/dir")
    with raises("writing a directory", errno.EISDIR):
        os.open(f"{F}/dir", os.O_WRONLY)
    with raises("O_DIRECTORY on a file", errno.ENOTDIR):
        os.open(f"{F}/a", os.O_RDONLY | os.O_DIRECTORY)
    with raises("below a file", errno.ENOTDIR):
        os.stat(f"{F}/a/b")
    os.rmdir(f"{F}/dir")


def two_descriptors():
    a = os.open(f"{F}/two", os.O_CREAT | os.O_RDWR)
    b = os.open(f"{F}/two", os.O_RDWR)
    os.write(a, b"from a")
    same("b sees what a wrote", os.read(b, 100), b"from a")
    os.ftruncate(b, 4)
    same("a sees what b cut", os.fstat(a).st_size, 4)
    os.unlink(f"{F}/two")
    os.write(b, b"!")
    same("both live after unlink", os.pread(a, 100, 0), b"from\0\0!")
    same("nlink 0", os.fstat(a).st_nlink, 0)
    os.close(a)
    os.close(b)
    with raises("gone", errno.ENOENT):
        os.stat(f"{F}/two")


def renames():
    write(f"{F}/x", "x")
    write(f"{F}/y", "y")
    ino = os.stat(f"{F}/x").st_ino
    os.rename(f"{F}/x", f"{F}/y")
    same("over another", (read(f"{F}/y"), os.path.exists(f"{F}/x")), (b"x", False))
    same("it is the same file", os.stat(f"{F}/y").st_ino, ino)
    os.makedirs(f"{F}/d1/sub")
    os.makedirs(f"{F}/d2")
    os.rename(f"{F}/y", f"{F}/d1/sub/y")
    os.rename(f"{F}/d1/sub", f"{F}/d2/sub")
    same("a directory with what is in it", read(f"{F}/d2/sub/y"), b"x")
    with raises("over a directory that is not empty", errno.ENOTEMPTY, errno.EEXIST):
        os.rename(f"{F}/d1", f"{F}/d2")
    with raises("into itself", errno.EINVAL):
        os.rename(f"{F}/d2", f"{F}/d2/sub/d2")
    with raises("a file over a directory", errno.EISDIR):
        os.rename(f"{F}/d2/sub/y", f"{F}/d1")
    with raises("a directory over a file", errno.ENOTDIR):
        os.rename(f"{F}/d1", f"{F}/d2/sub/y")
    with raises("missing", errno.ENOENT):
        os.rename(f"{F}/nothing", f"{F}/else")
    with raises("out of files/", errno.EXDEV):
        os.rename(f"{F}/d2/sub/y", f"{os.path.dirname(F)}/in")
    write(f"{F}/e1", "1")
    write(f"{F}/e2", "2")
    status, _, err = shell(f"mv --help | grep -q exchange && mv --exchange {F}/e1 {F}/e2")
    if status == 0:
        same("exchange", (read(f"{F}/e1"), read(f"{F}/e2")), (b"2", b"1"))
    same("mv -n keeps", (shell(f"mv -n {F}/e1 {F}/e2; true")[0], os.path.exists(f"{F}/e2")),
         (0, True))
    shutil.rmtree(f"{F}/d1")
    shutil.rmtree(f"{F}/d2")


def directories():
    os.mkdir(f"{F}/dir", 0o750)
    same("mode", stat.S_IMODE(os.stat(f"{F}/dir").st_mode), 0o750)
    with raises("twice", errno.EEXIST):
        os.mkdir(f"{F}/dir")
    write(f"{F}/dir/f", "x")
    with raises("not empty", errno.ENOTEMPTY, errno.EEXIST):
        os.rmdir(f"{F}/dir")
    with raises("rmdir of a file", errno.ENOTDIR):
        os.rmdir(f"{F}/dir/f")
    with raises("unlink of a directory", errno.EISDIR, errno.EPERM):
        os.unlink(f"{F}/dir")
    same("listed", os.listdir(f"{F}/dir"), ["f"])
    kinds = {e.name: e.is_dir() for e in os.scandir(F)}
    same("kinds in a listing", kinds.get("dir"), True)
    same("fsync of a directory", os.fsync(os.open(f"{F}/dir", os.O_RDONLY)), None)
    os.unlink(f"{F}/dir/f")
    os.rmdir(f"{F}/dir")
    # `rm -r SESSION` removes it on its way, so it must be removable; it is there again at once.
    os.rmdir(F)
    same("files/ itself stays", os.path.isdir(F), True)
    names = {f"n{i}" for i in range(200)}
    os.mkdir(f"{F}/many")
    for name in names:
        write(f"{F}/many/{name}", "")
    with os.scandir(f"{F}/many") as entries:
        got = []
        for i, entry in enumerate(entries):
            got.append(entry.name)
            if i == 10:
                os.unlink(f"{F}/many/{got[0]}")
    same("each is listed once, while one is deleted", sorted(got), sorted(names))
    shutil.rmtree(f"{F}/many")


def attributes():
    umask = os.umask(0o022)
    os.umask(umask)
    write(f"{F}/attr", "x")
    for mode in (0o600, 0o755, 0o444, 0o000, 0o644):
        os.chmod(f"{F}/attr", mode)
        same(f"chmod {mode:o}", stat.S_IMODE(os.stat(f"{F}/attr").st_mode), mode)
    os.utime(f"{F}/attr", ns=(1_000_000_000_123_456_789, 1_500_000_000_987_654_321))
    info = os.stat(f"{F}/attr")
    same("times", (info.st_atime_ns, info.st_mtime_ns),
         (1_000_000_000_123_456_789, 1_500_000_000_987_654_321))
    before = time.time()
    os.utime(f"{F}/attr")
    ok("now", abs(os.stat(f"{F}/attr").st_mtime - before) < 30)
    for mode in (0o1666, 0o1700, 0o6755):
        os.close(os.open(f"{F}/made", os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        same(f"made with {mode:o}", stat.S_IMODE(os.stat(f"{F}/made").st_mode), mode & 0o1777 & ~umask)
        os.unlink(f"{F}/made")
        os.mkdir(f"{F}/made", mode)
        same(f"a directory with {mode:o}", stat.S_IMODE(os.stat(f"{F}/made").st_mode), mode & 0o1777 & ~umask)
        os.rmdir(f"{F}/made")
    os.chmod(f"{F}/attr", 0o6755)
    same("set-id bits are dropped", stat.S_IMODE(os.stat(f"{F}/attr").st_mode) & 0o6000, 0)
    info = os.stat(f"{F}/attr")
    same("nobody's", (info.st_uid, info.st_gid), (65534, 65534))
    try:
        os.chown(f"{F}/attr", os.getuid(), os.getgid())
    except OSError as error:
        fail("chown to the owner of the session", error)
    if os.getuid() == 0:
        try:
            os.chown(f"{F}/attr", 12345, 12345)
        except OSError as error:
            ok("chown to another is refused", error.errno in (errno.EPERM, errno.ENOSYS,
                                                               errno.EOPNOTSUPP), error)
        same("the owner is what it was", os.stat(f"{F}/attr").st_uid, 65534)


def truncation():
    write(f"{F}/t", b"0123456789")
    os.truncate(f"{F}/t", 4)
    same("shorter", read(f"{F}/t"), b"0123")
    os.truncate(f"{F}/t", 8)
    same("longer", read(f"{F}/t"), b"0123\0\0\0\0")
    os.truncate(f"{F}/t", 0)
    same("empty", read(f"{F}/t"), b"")
    with raises("too long", errno.EFBIG, errno.EINVAL, errno.ENOSPC):
        os.truncate(f"{F}/t", 1 << 62)
        os.truncate(f"{F}/t", (1 << 63) - 1)
        raise OSError(errno.EFBIG, "sparse files may be that long")


def sparse():
    fd = os.open(f"{F}/sparse", os.O_CREAT | os.O_RDWR)
    os.ftruncate(fd, 10 << 30)
    info = os.fstat(fd)
    ok("10 GiB of nothing takes no space", info.st_size == 10 << 30 and info.st_blocks < 100, info)
    os.pwrite(fd, b"island", 1 << 30)
    same("an island", os.pread(fd, 6, 1 << 30), b"island")
    same("nothing before it", os.pread(fd, 4096, 4096), bytes(4096))
    try:
        where = os.lseek(fd, 0, os.SEEK_DATA)
        ok("SEEK_DATA", 0 <= where <= 1 << 30, where)
        ok("SEEK_HOLE", os.lseek(fd, 1 << 30, os.SEEK_HOLE) > 1 << 30)
    except OSError as error:
        fail("SEEK_DATA", error)
    os.close(fd)
    same("cp --sparse", shell(f"cp --sparse=always {F}/sparse {SCRATCH}/sparse")[0], 0)
    ok("the copy is sparse too", os.stat(f"{SCRATCH}/sparse").st_blocks < 10000)
    os.unlink(f"{F}/sparse")
    try:
        fd = os.open(f"{F}/alloc", os.O_CREAT | os.O_RDWR)
        os.posix_fallocate(fd, 0, 100000)
        same("fallocate", os.fstat(fd).st_size, 100000)
    except OSError as error:
        fail("fallocate", error)
    os.close(fd)


def locks():
    fd = os.open(f"{F}/lock", os.O_CREAT | os.O_RDWR)
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    code = f"""
import fcntl, os
fd = os.open({f'{F}/lock'!r}, os.O_RDWR)
try: fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError: print('locked')"""
    same("POSIX locks between processes",
         subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False).stdout,
         b"locked\n")
    os.close(fd)


def random_operations():
    """A small fsx: random reads, writes and truncations, compared with memory."""
    rng, model = random.Random(int(os.environ.get("SEED", "1"))), bytearray()
    fds = [os.open(f"{F}/fsx", os.O_CREAT | os.O_RDWR) for _ in range(2)]
    for step in range(300 if VM else 2000):
        fd, what = rng.choice(fds), rng.random()
        at, size = rng.randrange(300_000), rng.randrange(1, 200_000 if step % 10 == 0 else 5000)
        if what < 0.45:
            data = rng.randbytes(size)
            os.pwrite(fd, data, at)
            if at > len(model):
                model.extend(bytes(at - len(model)))
            model[at:at + size] = data
        elif what < 0.9:
            if os.pread(fd, size, at) != bytes(model[at:at + size]):
                fail("fsx", f"step {step}: read of {size} at {at} differs")
                break
        else:
            os.ftruncate(fd, at)
            del model[at:]
            model.extend(bytes(at - len(model)))
        if os.fstat(fd).st_size != len(model):
            fail("fsx", f"step {step}: size {os.fstat(fd).st_size}, want {len(model)}")
            break
    same("fsx: the whole", read(f"{F}/fsx") == bytes(model), True)
    for fd in fds:
        os.close(fd)


def hard_links():
    write(f"{F}/h1", "linked")
    os.link(f"{F}/h1", f"{F}/h2")
    same("nlink", os.stat(f"{F}/h1").st_nlink, 2)
    same("the same inode", os.stat(f"{F}/h1").st_ino, os.stat(f"{F}/h2").st_ino)
    os.unlink(f"{F}/h1")
    same("the other stays", (read(f"{F}/h2"), os.stat(f"{F}/h2").st_nlink), (b"linked", 1))
    with raises("to a directory", errno.EPERM, errno.EISDIR):
        os.mkdir(f"{F}/hd")
        os.link(f"{F}/hd", f"{F}/hd2")


main(setup, opening, two_descriptors, renames, directories, attributes, truncation, sparse, locks,
     random_operations, hard_links)
