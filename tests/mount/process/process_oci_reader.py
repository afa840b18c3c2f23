#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images from elsewhere, the reader: all that is unpacked was counted, nothing outside of the image is touched, nothing is
fetched, and layers lie over one another as they should."""
# backends: process
# timeout: 120
# mount: none
import bz2
import http.server
import lzma

import oci
from hosts import *
from oci import Layout, entry, folder as directory, layer, link

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
TAR = oci.tarfile
MIB = 1 << 20
LITTLE = {"XSBXFS_OCI_LIMIT": "0.03125"}  # 32 MiB


def layout(name, *layers, **more):
    made = Layout(f"{SCRATCH}/{name}")
    made.image(list(layers), **more)
    return made


def program(name, *arguments, **env):
    return subprocess.run([f"{TOP}/images/{name}", *arguments], env={**os.environ, **env}, check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=SOON)


def checked(made, **env):
    """Its layers, read where they lie. What is said, which is the word "layer" if all is well."""
    os.makedirs(f"{made.path}/out", exist_ok=True)
    done = program("oci-read", "check", made.path, f"{made.path}/out", **env)
    ok("no trace of Python", "Traceback" not in done.stdout and done.returncode in (0, 1), done)
    return done.stdout if done.returncode else "well"


def fetched(path, **env):
    """A layout or an archive, as scripts/images begins with it."""
    out = folder(f"{len(os.listdir(SCRATCH))}.out")
    done = program("build-oci", "fetch", path, "", out, **env)
    ok("no trace of Python", "Traceback" not in done.stdout, done)
    return done.stdout if done.returncode else "well"


def odd_header():
    """To Python none, and so the end of a tar; to others a file whose mode is in base 256."""
    head = bytearray(entry("odd")[0].tobuf(TAR.GNU_FORMAT))
    head[100:108] = b"\x81" + b"\0" * 5 + b"\x01\xed"
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)


def front(*entries):
    """A tar without its end."""
    data = layer(*entries).rstrip(b"\0")
    return data + b"\0" * (-len(data) % 512)


def unseen():
    """What another reader might see behind what this one takes for the end."""
    for name, tail in ("header", odd_header() + layer(entry("behind"))), ("rest", b"\0" * 1024 + layer(entry("behind"))), \
            ("text", b"\0" * 5000 + b"x"), ("half", odd_header()[:300]):
        has(name, checked(layout(f"unseen-{name}", front(entry("x")) + tail)), "no tar archive")
    for name, tail in ("no end", b""), ("a long one", b"\0" * 50000):
        same(name, checked(layout(f"seen-{name}", front(entry("x")) + tail)), "well")
    # One budget for all layers; and none of it is written out before.
    rest = layer(entry("x")) + b"\0" * (20 * MIB)
    made = layout("rest", rest, rest[:-512], packed="+zstd")
    has("behind the ends", checked(made, **LITTLE), "GiB")
    same("is not written", max(os.path.getsize(p.path) for p in os.scandir(f"{made.path}/blobs/sha256")) < MIB, True)
    same("the control", checked(made, XSBXFS_OCI_LIMIT="0.0625"), "well")
    has("a limit that is none", checked(made, XSBXFS_OCI_LIMIT="much"), "is no number of GiB")
    hole = TAR.TarInfo("GNUSparseFile.0/hole")
    hole.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "hole",
                        "GNU.sparse.realsize": str(40 * MIB)}
    sparse = b"1\n%d\n0\n" % (40 * MIB)
    hole.size = 512
    hole = layout("hole", front() + hole.tobuf(TAR.PAX_FORMAT) + sparse.ljust(512, b"\0") + b"\0" * 1024)
    has("holes count", checked(hole, **LITTLE), "holes included")
    same("the control", checked(hole, XSBXFS_OCI_LIMIT="0.0625"), "well")


def packed():
    """An archive that is packed as a whole, with what nothing in it names."""
    junk = TAR.TarInfo("junk")
    junk.size = 40 * MIB
    saved, opened = f"{SCRATCH}/saved.tar", f"{SCRATCH}/opened.tar"
    oci.save(saved, x=(layer(entry("x")), {}))
    layout("opened", layer(entry("x"))).tar(opened)
    for path in saved, opened:
        plain = read(path).rstrip(b"\0")
        plain += b"\0" * (-len(plain) % 512)
        bomb = junk.tobuf(TAR.GNU_FORMAT) + b"\0" * junk.size
        kinds = {"gz": oci.gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": oci.zstd}
        for name, pack in kinds.items() if path == saved else [("zst", oci.zstd)]:
            write(path, pack(bomb + plain + b"\0" * 1024))
            has(f"{path}.{name}", fetched(path, **LITTLE), "GiB")
        write(path, lzma.compress(plain + b"\0" * 1024))
        same(f"{path}: the control", fetched(path, **LITTLE), "well")
    write(opened, oci.zstd(plain + b"\0" * 1024 + b"\0" * junk.size))
    has("behind its end", fetched(opened, **LITTLE), "GiB")
    write(opened, lzma.compress(plain)[:-20])
    has("cut off", fetched(opened), "in the middle of what xz")
    # Layers that are the same are links to one another; and some lead nowhere, or to themselves.
    one = layer(entry("x"))
    for name, target, words in ("good", "../a/layer.tar", ""), ("round", "layer.tar", "lacks"), ("away", "/etc/passwd", "lacks"):
        config = {"architecture": "amd64", "os": "linux", "rootfs": {"diff_ids": ["sha256:" + oci.hashlib.sha256(one).hexdigest()] * 2}}
        write(saved, layer(entry("a/layer.tar", one), link("b/layer.tar", target), entry("c.json", json.dumps(config).encode()),
                           entry("manifest.json", json.dumps([{"Config": "c.json", "Layers": ["a/layer.tar", "b/layer.tar"]}]).encode())))
        has(f"links: {name}", fetched(saved), words or "well")


def huge():
    """A header that says that the next one is very far away."""
    junk = TAR.TarInfo("junk")
    junk.size = 1 << 80
    write(f"{SCRATCH}/huge.tar", junk.tobuf(TAR.GNU_FORMAT))
    has("an archive", fetched(f"{SCRATCH}/huge.tar"), "in the middle of a file")
    head = bytearray(junk.tobuf(TAR.GNU_FORMAT))  # an old sparse file has two lengths, and a small one counts
    head[156:157], head[386:410], head[483:495] = b"S", b"%011o\0" % 0 * 2, b"%011o\0" % 100
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    has("a layer", checked(layout("huge", bytes(head) + b"\0" * 1024)), "in the middle of a file")
    write(f"{SCRATCH}/huge.tar", layer(entry("junk"))[:512])
    has("the control", fetched(f"{SCRATCH}/huge.tar"), "no archive of an image")


def implied():
    """Directories that names and links lead through, and no member is, count."""
    deep, least = "/d" * 240, {"XSBXFS_OCI_LIMIT": "0.004"}
    for name, entries in (("names", [entry(f"{n}{deep}/x") for n in range(8)]),
                          ("links", [one for n in range(8) for one in (link(f"l{n}", f"{n}{deep}"), entry(f"l{n}/x"))])):
        made = layout(f"implied-{name}", layer(*entries))
        same(f"{name}: checked", checked(made, **least), "well")
        done = program("oci-unpack", made.path, folder(f"implied-{name}.root"), **least)
        has(name, done.stdout, "GiB, holes included")
        done = program("oci-unpack", made.path, folder(f"implied-{name}.all"), **LITTLE)
        same(f"{name}: the control", (done.returncode, done.stdout), (0, ""))


def linked():
    """A file counts as often as it has names, for that is what it takes where it is unpacked."""
    made = layout("linked", layer(entry("file", b"x" * MIB), *(entry(f"l{n}", type=TAR.LNKTYPE, linkname="file") for n in range(40))))
    same("checked", checked(made, **LITTLE), "well")
    has("links", program("oci-unpack", made.path, folder("linked.root"), **LITTLE).stdout, "GiB, holes included")
    done = program("oci-unpack", made.path, folder("linked.all"), XSBXFS_OCI_LIMIT="0.0625")
    same("the control", (done.returncode, done.stdout), (0, ""))


def finished(root, cwd=""):
    """What oci-finish says of these files."""
    os.makedirs(f"{root}/own")
    shutil.copy(shutil.which("busybox"), f"{root}/own/busybox")
    shutil.copy(f"{TOP}/images/oci-finish", f"{root}/own")
    return subprocess.run(["chroot", root, "/own/busybox", "sh", "/own/oci-finish", "/own", "", cwd, "", "/bin"], check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SOON).stdout


def long():
    """No path is too long for programs that write and read the file system, and do not look; by way of links neither."""
    half = "/".join(["a" * 250] * 6)
    for name, entries, words in ("name", [entry(f"{half}/{half}/{'b' * 200}")], "no name"), \
            ("deep", [directory(half), link("l", half), directory(f"l/{half}"), link("m", f"l/{half}"), directory("m/b" + "c" * 200)], "deep"), \
            ("implied", [link("l", half), entry(f"l/{half}/{'b' * 200}/x")], "deep"), \
            ("steps", [entry("d/" * 257 + "x")], "no name"), ("steps by links", [link("l", "d/" * 200), entry("l/" + "e/" * 100 + "x")], "deep"), \
            ("control", [link("l", half), entry(f"l/{half}/{'b' * 50}"), entry("d/" * 256 + "x")], ""):
        made = layout(f"long-{name}", layer(*entries))
        said = checked(made)
        if said == "well":
            said = program("oci-unpack", made.path, folder(f"long-{name}.root")).stdout
        has(name, said, words) if words else same(name, said, "")
    for count, words in (6, "user user"), (7, "WORKDIR"):
        root = folder(f"long{count}")
        os.makedirs(f"{root}/{half}")
        os.symlink(half, f"{root}/l")
        has(f"WORKDIR of {count}", finished(root, "/l/" + "/".join(["b" * 250] * count)), words)
    # What leads to where they are unpacked is not in the way.
    cache = "/".join([SCRATCH, *["c" * 200] * 6])
    os.makedirs(f"{cache}/images/templates/deep")
    tree = folder("tree")
    os.makedirs(f"{tree}/{half}/{half}")
    with contextlib.chdir(f"{tree}/{half}"):
        write(f"{half}/x", "here")
    subprocess.run(["mkfs.erofs", "--quiet", f"{cache}/images/templates/deep/rootfs.erofs", tree], check=True)
    done = subprocess.run(["bash", "-c", f". {TOP}/scripts/lib.sh; unpack_image deep"], env={**os.environ, "XSBXFS_CACHE": cache},
                          check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    same("unpacked", (done.returncode, os.path.isdir(f"{cache}/images/templates/deep/tree")), (0, True))


def accounts():
    """Tables that programs would read into memory: as large as people have them, and no larger."""
    for size, words in (2 * MIB, "more than 1 MiB"), (MIB // 2, "user x"):
        root = folder(f"accounts{size}")
        os.makedirs(f"{root}/etc")
        write(f"{root}/etc/passwd", b"x:x:1000:1000:" + b"y" * size + b"::\n")
        has(f"{size} bytes", finished(root), words)


def names():
    """Whiteouts, and what they can't name."""
    for name in ".wh.", ".wh..", "d/.wh...", "d/.wh.../x", "../x", "x/..", "./.wh...":
        has(name, checked(layout(f"name-{len(os.listdir(SCRATCH))}", layer(entry("x"), entry(name)))), "leads out")
    for one, words in (entry("d/.wh.x/y"), "no name"), (link("./", "/etc"), "no directory"), (entry("x", type=b"Z"), "of a type"):
        has(one[0].name, checked(layout(f"name-{len(os.listdir(SCRATCH))}", layer(one))), words)


def unpacked(name, *layers):
    made = layout(name, *layers)
    same(f"{name}: checked", checked(made), "well")
    root = folder(f"{name}.above/root")
    write(f"{SCRATCH}/{name}.above/keep", "keep")
    done = program("oci-unpack", made.path, root)
    same(f"{name}: beside the root", sorted(os.listdir(f"{SCRATCH}/{name}.above")), ["keep", "root"])
    return root, done


def laid():
    """Layers over one another, links that lead out, types that are left out."""
    outside = folder("outside")
    write(f"{outside}/keep", "keep")
    up = f"{'../' * 12}{outside[1:]}"
    root, done = unpacked(
        "laid",
        layer(directory("a"), entry("a/gone", b"x"), entry("a/kept", b"1"), directory("a/sub"), entry("a/sub/x"), entry("file", b"f"),
              entry("set", b"s", mode=0o6755, uid=10, gid=20), directory("opaque"), entry("opaque/old"), link("dir", "a"),
              link("out", outside), link("outfile", f"{outside}/keep"), link("up", up), directory("was"), entry("was/x"),
              entry("dev", type=TAR.CHRTYPE, devmajor=1, devminor=3), entry("b" * 200 + "/" + "c" * 250, b"long"),
              entry("again", type=TAR.LNKTYPE, linkname="file"), entry("nodev", type=TAR.LNKTYPE, linkname="dev"),
              entry("hardlink", type=TAR.LNKTYPE, linkname="outfile"), directory("")),
        layer(entry("a/.wh.gone"), entry("opaque/new", b"n"), entry("opaque/.wh..wh..opq"), entry("a/.wh.sub"), entry("a/sub/y", b"y"),
              entry("a/other"), entry("dir/through", b"t"), entry("out/new", b"o"),
              entry("out/.wh.keep"), entry("up/new", b"o"), entry("hardlink", b"over"), entry("outfile", b"over"), directory("file"),
              entry("was", b"now a file"), directory("set", mode=0o2750), entry(".wh..wh.plnk/1.2", b"aufs"), entry("/abs", b"abs"),
              entry("./a//./dots", b"d"), entry("new/dirs/x", b"x")),
        layer(directory("out"), entry("out/keep", b"mine")))
    same("unpacked", (done.returncode, done.stdout), (0, ""))
    same("outside", (os.listdir(outside), read(f"{outside}/keep")), (["keep"], b"keep"))
    same("the root", sorted(os.listdir(root)), sorted(["a", "b" * 200, "file", "set", "opaque", "dir", "out", "outfile", "up", "was",
                                                       "again", "hardlink", "abs", "new", outside.split("/")[1]]))
    same("whiteouts", (sorted(os.listdir(f"{root}/a")), os.listdir(f"{root}/a/sub"), os.listdir(f"{root}/opaque")),
         (["dots", "kept", "other", "sub", "through"], ["y"], ["new"]))
    same("other kinds", (os.path.isdir(f"{root}/file"), read(f"{root}/was"), read(f"{root}/again")), (True, b"now a file", b"f"))
    same("a directory, where a link was", (os.path.islink(f"{root}/out"), os.listdir(f"{root}/out")), (False, ["keep"]))
    same("through a link, inside", read(f"{root}{outside}/new"), b"o")
    same("hard links are over, not through", (read(f"{root}/hardlink"), read(f"{root}/outfile")), (b"over", b"over"))
    root, done = unpacked("owners", layer(entry("set", b"s", mode=0o6755, uid=10, gid=20), directory("dir", mode=0o1777, uid=3),
                                          link("ln", "x", uid=7)))
    found = [os.lstat(f"{root}/{one}") for one in ("set", "dir", "ln")]
    same("owners and modes", [(f.st_uid, f.st_gid, f.st_mode & 0o7777) for f in found[:2]] + [found[2].st_uid],
         [(10, 20, 0o755), (3, 0, 0o1777), 7])


def hemmed():
    """In depth: what the check should have found leads to nothing, for the unpacker has no other root."""
    for n, whiteouts in enumerate((".wh...", "../../keep", "a/../../.wh.keep", "l/.wh.keep"), 1):
        made = layout(f"hemmed{n}", layer(entry("x"), link("l", "../../..")))
        same("checked", checked(made), "well")
        plan = json.loads(read(f"{made.path}/plan.json"))
        plan[0]["whiteouts"] = [whiteouts]
        write(f"{made.path}/plan.json", json.dumps(plan * 2))
        root = folder(f"hemmed{n}.above/mid/root")
        for place in "", "mid/":
            write(f"{SCRATCH}/hemmed{n}.above/{place}keep", "keep")
        said = program("oci-unpack", made.path, root).stdout
        ok(f"{whiteouts}: no trace of Python", "Traceback" not in said, said)
        same(f"{whiteouts}: above", [read(f"{SCRATCH}/hemmed{n}.above/{place}keep") for place in ("", "mid/")], [b"keep"] * 2)
    # What is left of a layer by a failure is told in letters.
    root, done = unpacked("esc", layer(entry("e\x1b]0;mine\x07", b"x"), entry("e\x1b]0;mine\x07/child", b"y")))
    same("can't be", (done.returncode, "\x1b" in done.stdout, "can't be unpacked" in done.stdout), (1, False, True))
    write(f"{SCRATCH}/log", b"a\x1b[31mb\x9bc\xc2\x9bd\te\n")
    shown = subprocess.run(["bash", "-c", f". {TOP}/scripts/lib.sh; show_log {SCRATCH}/log"], stderr=subprocess.PIPE, check=True).stderr
    same("logs", shown, b"    | a?[31mb?c??d\te\n")


class Server(http.server.ThreadingHTTPServer):
    """A registry, with the blobs of `layout`, of which those in `longer` go on; it remembers what it was asked for."""

    def __init__(self, made=None):
        self.asked, self.layout, self.longer = [], made, ()
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self):
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.asked.append(self.path)
        name = self.path.rpartition("/")[2].rpartition(":")[2]
        manifest = "/manifests/" in self.path
        if manifest and name == "1":
            name = self.server.layout.manifests[0]["digest"][7:]
        path = f"{self.server.layout.path}/blobs/sha256/{name}" if name and self.server.layout else ""
        self.send_response(200 if path == "" or os.path.exists(path) else 404)
        data = read(path) if os.path.exists(path) else b""
        if manifest and data:
            self.send_header("Content-Type", json.loads(data)["mediaType"])
        self.end_headers()
        self.wfile.write(data)
        with contextlib.suppress(OSError):
            for _ in range(64 if name in self.server.longer else 0):
                self.wfile.write(os.urandom(MIB))


def addresses():
    """Nothing that is on this disk has something fetched; no blob is anything but a file."""
    server = Server()
    url = [f"http://127.0.0.1:{server.server_port}/x"]
    for what in "config", "layer":
        for key in "urls", "URLS":
            def change(manifest, _):
                if what == "layer":
                    manifest["layers"][0][key] = url
                    os.unlink(f"{SCRATCH}/url-{what}{key}/blobs/sha256/{manifest['layers'][0]['digest'][7:]}")
            made = layout(f"url-{what}{key}", layer(entry("x")), change=change)
            if what == "config":
                manifest = json.loads(read(f"{made.path}/blobs/sha256/{made.manifests[0]['digest'][7:]}"))
                manifest["config"][key] = url
                os.unlink(f"{made.path}/blobs/sha256/{manifest['config']['digest'][7:]}")
                made.write([made.blob(manifest, f"{oci.OCI}.manifest.v1+json")])
            has(f"{what} {key}", fetched(made.path), "would be fetched")
    same("nobody asked", server.asked, [])
    server.close()
    for name, make in ("link", lambda path: os.symlink("/dev/zero", path)), ("pipe", os.mkfifo), ("folder", os.mkdir):
        made = layout(f"blob-{name}", layer(entry("x")), packed="")
        blob = max((p.path for p in os.scandir(f"{made.path}/blobs/sha256")), key=os.path.getsize)
        os.unlink(blob)
        make(blob)
        said = fetched(made.path)
        ok(f"a {name} as a blob", "is missing" in said or "is no file" in said, said)
    both = layout("both", layer(entry("x")), change=lambda manifest, _: manifest.update(manifests=[]))
    has("two readings of a manifest", fetched(both.path), "can be read as")
    c1 = layout("c1", layer(entry("x")), config={"Env": ["A=\x9b31m", "B=\u2028", "C=ü", f"{'D' * 8000}=x"], "WorkingDir": "/\x9b", "Cmd": ["\x9b"]})
    checked(c1)
    same("what a terminal obeys is no setting", read(f"{c1.path}/out/template.keys"), "env.C = ü\n".encode())


def registry():
    """What a registry says of an image is looked at before anything of it is fetched."""
    made = layout("remote", layer(entry("x")))
    server = Server(made)
    source = f"docker://127.0.0.1:{server.server_port}/team/app:1"
    platforms = [{"mediaType": made.manifests[0]["mediaType"], "digest": "sha256:" + "0" * 64, "size": 2, "platform": {
        "architecture": "s390x", "os": "linux"}}, made.manifests[0]]

    def serve(value):
        made.manifests[0] = made.blob(value, value["mediaType"])

    good = json.loads(read(f"{made.path}/blobs/sha256/{made.manifests[0]['digest'][7:]}"))
    same("an image", fetched(source), "well")
    serve({"schemaVersion": 2, "mediaType": f"{oci.OCI}.index.v1+json", "manifests": platforms})
    same("one of several platforms", fetched(source), "well")
    serve({"schemaVersion": 2, "mediaType": f"{oci.OCI}.index.v1+json", "manifests": platforms[:1]})
    has("none of them", fetched(source), "linux/s390x")
    part = good["layers"][0]
    for what, change, words in (
            ("an address", {"layers": [{**part, "urls": ["http://127.0.0.1:9/x"]}]}, "would be fetched"),
            ("in capitals", {"layers": [{**part, "URLs": ["http://127.0.0.1:9/x"]}]}, "two ways"),
            ("a second name", {"Layers": [part]}, "two ways"), ("two in one", {"manifests": platforms}, "can be read as"),
            ("too much", {"layers": [part, {**part, "size": 40 * MIB}]}, "GiB"), ("many", {"layers": [part] * 257}, "257 layers")):
        serve({**good, **change})
        server.asked.clear()
        has(what, fetched(source, **LITTLE), words)
        same(f"{what}: nothing fetched", [path for path in server.asked if "/blobs/" in path], [])
    serve(good)
    server.longer = [part["digest"][7:]]
    has("longer than it was said to be", fetched(source), "file too large")
    server.close()


need("skopeo", "zstd", "busybox")
if os.getuid() != 0:
    skip("this unpacks images as root")
main(unseen, packed, huge, implied, linked, long, accounts, names, laid, hemmed, addresses, registry)
