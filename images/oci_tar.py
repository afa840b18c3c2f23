# SPDX-License-Identifier: Apache-2.0
"""Tars of strangers, read: the one reader that decides what is in one, for what checks an image and for what unpacks it.

All that is read is counted, unpacked and as it lies there, so a small file can't become a large one. What Python's tarfile
takes for the end of a tar is its end for everybody here; something behind it that is not zero makes it none.
"""
import bz2
import hashlib
import lzma
import os
import stat
import subprocess
import sys
import tarfile
import zlib

GIB = 1 << 30
try:
    LIMIT = int(float(os.environ.get("XSBXFS_OCI_LIMIT", "16")) * GIB)  # of all files of an image, holes included
except (ValueError, OverflowError):
    sys.exit(f"XSBXFS_OCI_LIMIT={os.environ['XSBXFS_OCI_LIMIT']} is no number of GiB")
MORE = "XSBXFS_OCI_LIMIT, in GiB, allows more."
ENTRIES = 2_000_000
MEMORY = 2 * GIB  # of a process that reads, whatever a header claims
PIECE = 1 << 18
PATH = 3072  # bytes of one from the image's root: mkfs.erofs and fsck.erofs have room for 4096, and do not look
DEPTH = 256  # directories in a path: fsck.erofs has some KiB of its stack for each
BLOCK = 4096  # of a file system: what a file takes there
ENDS = 16  # reads that find nothing more, from which on it is not the end that is looked for
UNREADABLE = (tarfile.TarError, OverflowError, ValueError, EOFError, RecursionError)
"".encode("unicode_escape")  # loads what show() takes, for oci-unpack can load nothing by then
MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}


class Bad(Exception):
    """What is wrong, and what to do about it."""


def warn(text):
    print(f"warning: {text}", file=sys.stderr)


def show(text, most=80):
    """Foreign text, fit to be printed."""
    shown = text.encode("unicode_escape", "replace").decode()
    return shown if len(shown) <= most else shown[:most] + "..."


def opened(path, what):
    """A regular file, and nothing else that may have its name: no link, no FIFO, no device."""
    try:
        file = open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except OSError as e:
        raise Bad(f"{what} is missing, or can't be read: {e.strerror}") from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise Bad(f"{what} is no file")
    return file


def form_of(file):
    """How a file is packed, by how it begins."""
    start = os.pread(file.fileno(), 8, 0)
    return next((form for magic, form in MAGIC.items() if start.startswith(magic)), "plain")


class Gzip:
    """zlib's, with the names that the decompressors of bz2 and lzma have."""

    def __init__(self):
        self.it = zlib.decompressobj(31)

    def decompress(self, data, most):
        return self.it.decompress(self.it.unconsumed_tail + data, most)

    eof = property(lambda self: self.it.eof)
    unused_data = property(lambda self: self.it.unused_data)
    needs_input = property(lambda self: not self.it.unconsumed_tail)


UNPACKERS = {"gzip": Gzip, "bzip2": bz2.BZ2Decompressor,
             "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY // 8)}


class Reader:
    """An open file, unpacked, as a file that tarfile can read. `budget`: a list with how many bytes may come out of it, and
    out of others that share it. `hashed`: the digests of both, packed and plain, are made on the way."""

    def __init__(self, file, form, what, budget=None, hashed=False):
        self.file, self.form, self.what, self.budget, self.hashed = file, form, what, budget, hashed
        self.packed, self.plain = hashlib.sha256(), hashlib.sha256()
        self.left, self.proc, self.unpacker = b"", None, None
        self.n = self.last = 0  # bytes that came out, and those of them up to the last one that is not zero
        self.ends = 0
        if form == "zstd":
            self.proc = subprocess.Popen(["zstd", "-dcq"], stdin=file, stdout=subprocess.PIPE)
        elif form != "plain":
            self.unpacker = UNPACKERS[form]()

    def packed_piece(self):
        data = self.file.read(PIECE)
        if self.hashed:
            self.packed.update(data)
        return data

    def more(self):
        """Another piece; b"" at the end."""
        if self.proc:
            return self.proc.stdout.read(PIECE)
        if not self.unpacker:
            return self.packed_piece()
        while True:
            end = False
            if self.unpacker.eof:  # another one may follow
                data = self.unpacker.unused_data or self.packed_piece()
                if not data:
                    return b""
                self.unpacker = UNPACKERS[self.form]()
            else:
                data = self.packed_piece() if self.unpacker.needs_input else b""
                end = self.unpacker.needs_input and not data
            try:
                out = self.unpacker.decompress(data, 1 << 20)
            except (zlib.error, lzma.LZMAError, OSError, EOFError):
                raise Bad(f"{self.what} is damaged: {self.form} can't read it") from None
            if out:
                return out
            if end and not self.unpacker.eof:
                raise Bad(f"{self.what} ends in the middle of what {self.form} has packed")

    def read(self, size):
        while len(self.left) < size:
            block = self.more()
            if not block:
                break
            if self.hashed:
                self.plain.update(block)
            used = len(block.rstrip(b"\0"))
            self.last = self.n + used if used else self.last
            self.n += len(block)
            if self.budget:
                self.budget[0] -= len(block)
                if self.budget[0] < 0:
                    raise Bad(f"{self.what} is too much: all of it, unpacked, may have {LIMIT / GIB:g} GiB", MORE)
            self.left = self.left + block if self.left else block
        out, self.left = self.left[:size], self.left[size:]
        self.ends += not out
        if self.ends > ENDS:  # tarfile would read on to where a header says that the next one is
            raise Bad(f"{self.what} is no tar archive that can be read: it ends in the middle of a file")
        return out

    def close(self):
        """Reads what is left of it first."""
        while self.read(PIECE):
            pass
        if self.proc:
            self.proc.stdout.close()
            if self.proc.wait() != 0:
                raise Bad(f"{self.what} is damaged: zstd can't read it")
            if self.hashed:
                self.file.seek(0)
                while self.packed_piece():
                    pass
        self.file.close()


def members(reader):
    """Each member, and the tar that it is in, which has its data until the next one is asked for."""
    try:
        with tarfile.open(fileobj=reader, mode="r|", bufsize=PIECE, encoding="utf-8", errors="surrogateescape") as tar:
            for member in tar:
                if member.size < 0:
                    raise Bad(f"{reader.what} is no tar archive that can be read: a length is negative")
                yield tar, member
                tar.members = []  # which it would keep
            end = tar.offset
        reader.close()
    except UNREADABLE as e:
        raise Bad(f"{reader.what} is no tar archive that can be read: {show(str(e))}") from None
    if reader.last > end:
        raise Bad(f"{reader.what} is no tar archive that can be read: something follows its end, or is no header")


def path_fits(path):
    """Is that neither too long nor too deep for what makes a file system of it, or reads that?"""
    return len(path.encode(errors="surrogateescape")) <= PATH and path.count("/") <= DEPTH


def clean_name(name, what):
    """The name of a file of an image as it is from the image's root, which is "" itself."""
    parts = [p for p in name.split("/") if p not in ("", ".")]
    wiped = [p[4:] for p in parts if p.startswith(".wh.") and not p.startswith(".wh..wh.")]
    if ".." in parts or any(p in ("", ".", "..") for p in wiped):
        raise Bad(f"{what}: \"{show(name)}\" leads out of the image",
                  "No tool for images writes that; don't trust the rest of it either.")
    if "\0" in name or not path_fits("/".join(parts)) or any(len(p.encode(errors="surrogateescape")) > 255 for p in parts) or \
            (wiped and not parts[-1].startswith(".wh.")) or len(wiped) > 1:
        raise Bad(f"{what}: \"{show(name)}\" is no name that a file can have")
    return "/".join(parts)


class Count:
    """Of all layers of an image: what their files take."""

    def __init__(self):
        self.entries = self.bytes = 0

    def add(self, size=0, entries=1):
        """A file, a directory, or what else has a name. `size`: of what is in it."""
        self.entries += entries
        self.bytes += 512 + -(-size // BLOCK) * BLOCK
        if self.entries > ENTRIES:
            raise Bad(f"the image has more than {ENTRIES} files")
        if self.bytes > LIMIT:
            raise Bad(f"the files of the image have more than {LIMIT / GIB:g} GiB, holes included", MORE)

    def files(self, reader):
        """Each member of a layer with its clean name, once it is counted: tar, member, name."""
        what = reader.what
        for tar, member in members(reader):
            name = clean_name(member.name, what)
            if member.islnk():
                member.linkname = clean_name(member.linkname, what)
            if not (name or member.isdir()):
                raise Bad(f"{what}: the root of the image is no directory")
            if member.type not in tarfile.SUPPORTED_TYPES:
                raise Bad(f"{what}: \"{show(name)}\" is of a type that no file has")
            self.add(member.size if member.isreg() else BLOCK * member.isdir())
            yield tar, member, name
