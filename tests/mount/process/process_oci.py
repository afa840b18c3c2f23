#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images from elsewhere: OCI layouts and archives become templates, and hostile ones become nothing."""
# backends: process
# timeout: 240
# mount: none
# log-allow: left out
import glob
import random

import oci
from hosts import *
from oci import Layout, entry, folder as directory, layer, link

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
CACHE = f"{SCRATCH}/cache"
IMAGES = f"{CACHE}/images"
START = b"#!/bin/sh\necho \"$PWD|$1|$2|$GREETING\"\n"
WANTS = {"Env": ["PATH=/bin:/app", "GREETING=good day", "MULTI=a\nb", "9=x", "LD_PRELOAD=/x.so"], "User": "app",
         "WorkingDir": "/app/data", "Entrypoint": ["start"], "Cmd": ["a b; c", "it's"]}
TOO_MUCH = 20 << 30


def borrow():
    """The kernel of the shared cache, so that none has to be fetched."""
    for place in "images", "images/bases", "images/templates":
        os.makedirs(f"{CACHE}/{place}")
    found = glob.glob(f"{os.environ['IMAGES']}/images/kernel-*") + glob.glob(
        f"{os.environ['IMAGES']}/images/bases/kernel-*")
    if not found:
        skip("there is no kernel in the cache of images; scripts/images builds it")
    for path in found:
        os.symlink(path, path.replace(f"{os.environ['IMAGES']}/images", IMAGES))


def images(*arguments, code=0, **env):
    """Runs scripts/images; what it says."""
    done = subprocess.run([f"{TOP}/scripts/images", *arguments], env={**os.environ, "XSBXFS_CACHE": CACHE, **env},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=2 * SOON, text=True)
    same(f"scripts/images {' '.join(arguments)}", done.returncode, code) or print(done.stdout)
    return done.stdout


def layout(name, *layers, config=None, **more):
    made = Layout(f"{SCRATCH}/{name}")
    made.image(list(layers), config, **more)
    return made


def template(name):
    return read(f"{IMAGES}/templates/{name}/template.conf", "r").split("\n")[1:-1]


def good():
    """Whiteouts, variables, user, directory, entry point; and used without any configuration."""
    app = layout("app", oci.busybox(
        directory("srv", uid=10001, gid=10002), entry("srv/mine", b"mine", uid=10001, gid=10002, mode=0o600),
        entry("srv/gone", b"x"), entry("srv/old/x", b"x"), entry("srv/theirs", b"x", uid=1000, gid=1000),
        entry("null", type=oci.tarfile.FIFOTYPE)),
        layer(entry("srv/.wh.gone"), entry("srv/old/.wh..wh..opq"), entry("srv/old/new", b"new"),
              entry("app/start", START), entry("app/same", type=oci.tarfile.LNKTYPE, linkname="app/start")), config=WANTS)
    app.tar(f"{SCRATCH}/app.tar")
    said = images("--oci", f"{SCRATCH}/app.tar")
    has("the mounts that look there have it", said, f"the next mount with cache_dir = {CACHE} has a template 'app'")
    for what in "MULTI", '"9=x"', "LD_PRELOAD":
        has("what is left out is said", said, what)
    has("so is what was laid over", said, "laid over, for the image has none: bash")
    same("its template", template("app"), [
        "[template app]", "language = raw", "view = image", "env.USER = app", "env.LOGNAME = app", "env.PATH = /bin:/app",
        "env.GREETING = good day", "cwd = /app/data", "entrypoint = /app/start 'a b'\\;' c' 'it'\\''s'"])
    has("a second time there is nothing to do", images("--oci", f"{SCRATCH}/app.tar"), "nothing to do")
    images("--unpack", "app")
    tree = f"{IMAGES}/templates/app/tree"
    same("whiteouts", sorted(os.listdir(f"{tree}/srv") + os.listdir(f"{tree}/srv/old")),
         ["mine", "new", "old", "theirs"])
    # What is unpacked for processes is its builder's; whose it is for machines the file system tells.
    subprocess.run(["fsck.erofs", f"--extract={SCRATCH}/as_is", f"{tree}/../rootfs.erofs"], check=True, stdout=subprocess.DEVNULL)
    same("its user's files", os.stat(f"{SCRATCH}/as_is/srv/mine").st_uid, 1000)
    same("another's", os.stat(f"{SCRATCH}/as_is/srv/theirs").st_uid, 10001)
    same("nobody gets another's rights", os.stat(f"{tree}/bin/busybox").st_mode & 0o6000, 0)
    same("no FIFO", os.path.lexists(f"{tree}/null"), False)

    host = Host("good", "[template app]\nbackend = process\nenv.MORE = mine\n"
                "[template also]\nimage = app\nbackend = microvm\n", f"cache_dir={CACHE}",
                "allow_process=yes", f"image_builder={TOP}/scripts/images")
    s = host.session("one", template="app")
    same("the interpreter", s.run("echo $GREETING $MORE $USER; cat /srv/old/new; pwd; x=5\n").out,
         "good day mine app\nnew/home/user\n")
    same("keeps its state", s.run("echo $((x + 1)) $(/app/same z) $(sh -c 'echo $0')\n").out,
         "6 /home/user|z||good day sh\n")
    os.mkdir(s / "jobs/it")
    write(s / "jobs/it/ctl", "start\n")
    same("the entry point", s.text("jobs/it/stdout"), "/app/data|a b; c|it's|good day\n")
    has("and what it was", s.text("jobs/it/config"), "argv = /app/start 'a b; c'")
    os.mkdir(s / "jobs/own")
    write(s / "jobs/own/config", "argv = pwd\ncwd = .\n")
    write(s / "jobs/own/ctl", "start\n")
    same("a job that says where", s.text("jobs/own/stdout"), "/home/user\n")
    os.mkdir(s / "jobs/code")
    write(s / "jobs/code/in", "pwd; echo $BASH_VERSION | cut -c 1\n")
    same("code", s.text("jobs/code/stdout"), "/app/data\n5\n")
    also = host.session("two", template="also", config="backend = process\n")
    os.mkdir(also / "jobs/it")
    write(also / "jobs/it/ctl", "start\n")
    same("so does a template of another name, for machines, where a session is none", also.text("jobs/it/stdout"), "/app/data|a b; c|it's|good day\n")
    host.close()


def fetch(source, tag=""):
    """What an image wants, as far as it is known before it is unpacked."""
    out = f"{SCRATCH}/{len(os.listdir(SCRATCH))}.out"
    os.mkdir(out)
    done = subprocess.run([f"{TOP}/images/build-oci", "fetch", source, tag, out], check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return read(f"{out}/facts/template.keys", "r") if done.returncode == 0 else done.stdout


def forms():
    """A directory with several, several platforms, layers of each kind, docker save's old form, nothing but a program."""
    small = oci.busybox()
    many = Layout(f"{SCRATCH}/many")
    many.image([small], {"Cmd": ["one"]}, tag="one", packed="+zstd")
    many.image([small], {"Cmd": ["two"]}, tag="two", packed="")
    has("which one?", fetch(many.path), "one two")
    same("plain", fetch(many.path, "two"), "entrypoint = two\n")
    images("--oci", many.path, "--tag", "one", "--name", "first")
    has("zstd", template("first"), "entrypoint = one")
    subprocess.run(["skopeo", "--insecure-policy", "copy", "-q", f"oci:{many.path}:two",
                    f"docker-archive:{SCRATCH}/old.tar:some/name:1"], check=True, stdout=subprocess.DEVNULL)
    same("docker save", fetch(f"{SCRATCH}/old.tar"), "entrypoint = two\n")
    both = Layout(f"{SCRATCH}/both")
    both.image([layer(entry("x", b"arm"))], {"Cmd": ["arm"]}, arch="arm64")
    both.image([layer(entry("hello", b"\x7fELF"))], {"Cmd": ["/hello"]})
    both.index()
    said = images("--oci", both.path)
    several()
    has("this host's platform", template("both"), "entrypoint = /hello")
    has("busybox, where there is no shell", said, "busybox (")
    has("which its manifest says", read(f"{IMAGES}/templates/both/manifest.json", "r"), "laid over")


def several():
    """--tag, of an archive of docker save with several images, in its old form and its new one."""
    one = layer(entry("x", b"y"))
    old = f"{SCRATCH}/a:b.tar"  # skopeo takes no such name
    oci.save(old, a=(one, {"Cmd": ["a"]}, "app:1.1"), b=(one, {"Cmd": ["b"]}, "registry.example/me/app:1.2", "app:new"),
             c=(layer(entry("z", b"y")), {"Cmd": ["c"]}, "registry.example:5000/me/tool:1.1"), d=(one, {"Cmd": ["d"]}))
    new = Layout(f"{SCRATCH}/new:er")
    for letter, name in ("a", "app:1.1"), ("b", "registry.example/me/app:1.2"), ("c", "registry.example:5000/me/tool:1.1"):
        new.image([one], {"Cmd": [letter]}, tag=name.rpartition(":")[2])["annotations"]["io.containerd.image.name"] = name
    new.image([one], {"Cmd": ["d"]})
    new.tar(f"{SCRATCH}/new.tar")
    for source, newest in (old, "app:new"), (new.path, "registry.example/me/app:1.2"), (f"{SCRATCH}/new.tar", "registry.example/me/app:1.2"):
        for tag, want in ("1.2", "b"), ("app:1.1", "a"), ("me/tool:1.1", "c"), ("@3", "d"):
            same(f"{source} {tag}", fetch(source, tag), f"entrypoint = {want}\n")
        if source.endswith("new.tar"):  # which becomes a layout
            break
        for tag, words in ("", "more than one image"), ("1.3", "no image 1.3"), ("1.1", "more than one image 1.1"), \
                ("app", "no image app"), ("p:1.2", "no image p:1.2"), ("@4", "no image @4"):
            has(f"{source} {tag}: which there are", fetch(source, tag),
                f"{words}: app:1.1 {newest} registry.example:5000/me/tool:1.1 @3")
    same("another name of the same", fetch(old, "new"), "entrypoint = b\n")
    oci.save(f"{SCRATCH}/alone.tar", a=(one, {"Cmd": ["a"]}, "app:latest"))
    for tag in "", "app", "latest":
        same(f"the only one, {tag}", fetch(f"{SCRATCH}/alone.tar", tag), "entrypoint = a\n")
    has("twice", fetch("docker://127.0.0.1:9/app:1", "2"), "says already which one")


def spoil_size(manifest, _):
    manifest["layers"][0]["size"] += 1


def spoil_diff(_, config):
    config["rootfs"]["diff_ids"][0] = "sha256:" + "0" * 64


def foreign(manifest, _):
    manifest["layers"][0]["mediaType"] = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"


def no_config(_, config):
    config["config"] = [1]


def account():
    """The name of the image's user is no setting, and nothing that a terminal obeys."""
    name = b"x\x1b]0;mine\x07\x1b[31m ;y"
    said = images("--oci", layout("account", layer(directory("etc"), entry(
        "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n" + name + b":x:77:77::/:/bin/sh\n")), config={"User": "77"}).path)
    same("no name", [line for line in template("account") if "env." in line], [])
    same("nothing for the terminal", "\x1b" in said, False)


def hostile():
    """Each is refused with words of its own; with the one thing that is wrong mended, it is taken."""
    outside = folder("outside")
    write(f"{outside}/keep", "keep")
    up = "../" * 12 + outside.lstrip("/")
    hole = oci.tarfile.TarInfo("hole")
    hole.size = TOO_MUCH
    bad = {
        "climbs": (layer(entry(f"{up}/new")), {}, "leads out"),
        "hard": (layer(entry("x", type=oci.tarfile.LNKTYPE, linkname=f"{up}/keep")), {}, "leads out"),
        "huge": (hole.tobuf(oci.tarfile.GNU_FORMAT) + b"\0" * 1024, {}, "no tar archive|GiB"),
        "above": (layer(entry(".wh...")), {}, "leads out"),
        "long": (layer(entry("a/" + "b" * 300)), {}, "no name"),
        "garbage": (b"\x01" * 4096, {}, "no tar archive"),
        "size": (layer(entry("x")), {"change": spoil_size}, "layer|can't be read"),
        "diff": (layer(entry("x")), {"change": spoil_diff}, "not the one that the image was made of"),
        "kind": (layer(entry("x")), {"change": foreign}, "type|can't be read"),
        "config": (layer(entry("x")), {"change": no_config}, "not of the right type|can't be read"),
        "arch": (layer(entry("x")), {"arch": "riscv64"}, "amd64|can't be read"),
        "user": (layer(entry("x")), {"config": {"User": "ghost"}}, "'ghost' is not in its /etc/passwd"),
        "shell": (layer(entry("x")), {"config": {"User": "$(id)"}}, "no name of a user"),
        "usr": (layer(link("usr", outside)), {}, "/usr is a link"),
    }
    for name, (one, more, words) in bad.items():
        layout(f"bad-{name}", one, **more)
        said = images("--oci", f"{SCRATCH}/bad-{name}", code=1)
        ok(f"{name}: says why", any(w in said for w in words.split("|")), said)
        ok(f"{name}: and no more", "Traceback" not in said, said)
        same(f"{name}: is nothing", os.path.lexists(f"{IMAGES}/templates/bad-{name}"), False)
    same("outside", os.listdir(outside), ["keep"])
    # Links that lead out lead to what is inside; where things are put, and where things are removed.
    links = {"run": outside, "etc/hosts": f"{outside}/keep", "opt": outside, "home": outside,
             "var/tmp": f"../../../../../../../../{outside}", "mnt": up}
    images("--oci", layout("links", layer(directory("etc"), directory("var"), *(link(*one) for one in links.items())), layer(
        *(entry(f"{one}/new", b"new") for one in links if one != "etc/hosts"))).path)
    same("outside, still", (os.listdir(outside), read(f"{outside}/keep")), (["keep"], b"keep"))
    images("--oci", layout("mended", layer(entry("x"), directory("usr")), config={"User": "0"}).path)  # the control

    # A layer that is not what its digest says.
    damaged = layout("damaged", layer(entry("x", b"x" * 100)), packed="")
    blob = max(glob.glob(f"{damaged.path}/blobs/sha256/*"), key=os.path.getsize)
    data = bytearray(read(blob))
    data[700] ^= 1
    write(blob, data)
    has("damaged", images("--oci", damaged.path, code=1), "error:")


def mutated():
    """What is checked may hold anything: there are words for it, and no trace of Python."""
    rnd = random.Random(15)
    for n in range(20):
        made = layout(f"mut{n}", layer(entry("x", b"y" * 30)), packed="")
        names = [p for p in glob.glob(f"{made.path}/blobs/sha256/*") + [f"{made.path}/index.json"]]
        path = rnd.choice(names)
        data = bytearray(read(path))
        for _ in range(rnd.randint(1, 8)):
            at = rnd.randrange(len(data))
            data[at:at + rnd.randint(0, 3)] = rnd.choice([b"\0", b"9" * 30, b"[", b"{", b"null", b"\xff", b"-1", b'"'])
        if rnd.random() < 0.7 and path != names[-1]:  # with a digest that is right again
            name = oci.hashlib.sha256(data).hexdigest()
            text = read(f"{made.path}/index.json", "r").replace(os.path.basename(path), name)
            write(f"{made.path}/index.json", text)
            write(f"{made.path}/blobs/sha256/{name}", data)
        write(path, data)
        os.mkdir(f"{made.path}/out")
        done = subprocess.run([f"{TOP}/images/oci-read", "check", made.path, f"{made.path}/out"], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=SOON)
        ok(f"mutation {n}", done.returncode in (0, 1) and "Traceback" not in done.stderr and
           (done.returncode == 0 or done.stderr), (n, done))


def names():
    for name in "raw", "kernel", "status.json", "-x", "a/b", "shell":
        has(name, images("--oci", f"{SCRATCH}/app.tar", "--name", name, code=1), "name")
    # Before anything is fetched: there is no kernel in this cache.
    empty = folder("empty")
    for arguments, words in ([f"{SCRATCH}/none.tar"], "there is no file"), ([f"{SCRATCH}/app.tar", "--name", "raw"], "is taken"), \
            ([f"{SCRATCH}/app.tar", "--arch", "arm64"], "can't be made for arm64"), \
            (["--registry", "app"], "which registry?"), (["--registry", "me/app:1"], "which registry?"), \
            (["--unpack", "raw", "--arch", "arm64"], "images for arm64 can't be unpacked here"):
        said = images(*([] if arguments[0].startswith("--") else ["--oci"]), *arguments, code=1, XSBXFS_CACHE=empty)
        ok(f"{arguments}: nothing is begun", words in said and "==>" not in said, said)
    write(f"{SCRATCH}/text.tar", "hello")
    has("no archive", images("--oci", f"{SCRATCH}/text.tar", code=1), "no tar archive")
    for text in b"", b"[", b"{}", b"[1]", b"[]", b'[{"RepoTags": 1}]', b'[{"RepoTags": [1]}]', b"[" * 100000, b"\xff":
        write(f"{SCRATCH}/saved.tar", layer(entry("manifest.json", text)))
        said = fetch(f"{SCRATCH}/saved.tar", "1")
        ok(f"manifest.json: {text[:20]}", "error: " in said and "Traceback" not in said, said)


def removed():
    """An image that nobody wants any more, and what it was made of; and no other."""
    with open(f"{IMAGES}/templates/both/manifest.json", encoding="utf-8") as file:
        base = json.load(file)["base"]
    image = os.path.realpath(f"{IMAGES}/templates/both")
    rest = sorted(set(glob.glob(f"{IMAGES}/*-*") + glob.glob(f"{IMAGES}/bases/*") + glob.glob(f"{IMAGES}/templates/*")) -
                  {image, f"{IMAGES}/bases/{base}", f"{IMAGES}/templates/both"})
    has("it says so", images("--remove", "both"), "of the image 'both'")
    same("nothing of it is left, and all else", sorted(
        glob.glob(f"{IMAGES}/*-*") + glob.glob(f"{IMAGES}/bases/*") + glob.glob(f"{IMAGES}/templates/*")), rest)
    has("how it is made again", images("both", code=1), "--oci FILE")
    for name, words in ("both", "there is no image 'both'"), ("../x", "there is no image"), ("kernel", "need a kernel"):
        has(f"--remove {name}", images("--remove", name, code=1), words)
    for arguments in (["--remove", "first", "raw"], ["--remove", "first", "--remove", "raw"]):
        has(f"{arguments}: not half of it", images(*arguments, code=1), "--remove")
    # What a link of one's own leads to, or a manifest that came from elsewhere says, is not removed.
    mine, precious = folder("mine"), folder("precious")
    os.mkdir(f"{IMAGES}/evil-0123456789abcdef")
    write(f"{IMAGES}/evil-0123456789abcdef/manifest.json", json.dumps({"base": os.path.relpath(precious, f"{IMAGES}/bases")}))
    for name, target in ("mine", mine), ("evil", "../evil-0123456789abcdef"):
        os.symlink(target, f"{IMAGES}/templates/{name}")
        images("--remove", name)
        same("its link is gone", os.path.lexists(f"{IMAGES}/templates/{name}"), False)
    same("and the image", os.path.lexists(f"{IMAGES}/evil-0123456789abcdef"), False)
    ok("nothing else", os.path.isdir(mine) and os.path.isdir(precious), "removed")
    # To remove takes none of what a build takes.
    bin = folder("bin")
    for path in (p for d in ("/usr/bin", "/bin") for p in glob.glob(f"{d}/*") if os.path.basename(p) != "mmdebstrap"):
        if not os.path.lexists(f"{bin}/{os.path.basename(path)}"):
            os.symlink(path, f"{bin}/{os.path.basename(path)}")
    os.remove(f"{IMAGES}/templates/first")
    said = images("--prune", PATH=bin)
    ok("--prune builds nothing", "that no template needs" in said and "==>" not in said, said)
    same("it is gone", glob.glob(f"{IMAGES}/first-*"), [])


need("skopeo", "busybox", "patchelf", "mkfs.erofs", "fsck.erofs", "zstd")
if b"INTERP" in subprocess.run(["readelf", "-lW", shutil.which("busybox")], stdout=subprocess.PIPE, check=True).stdout:
    skip("busybox is not the static one: apt-get install busybox-static")
if os.getuid() != 0:
    skip("this unpacks images as root")
borrow()
main(good, forms, account, hostile, mutated, names, removed)
