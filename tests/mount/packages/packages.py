#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packages from a mirror on this host: installed once, seen by the interpreter and its children,
shared; and what is said when they can't be had."""
# backends: local vm
# night: vm
# timeout: 240
# mount: none
# log-allow: did not start
# log-allow: packages-failed|packages |warmup-failed
from layers import *

need_language("python")
host = None


def mirror():
    wheel("alpha", "1.0", {"alpha/__init__.py": "from beta import TWICE\nNAME = 'alpha'\n"
                                                "def main(): print('script of alpha')\n"},
          requires=["beta>=2"], scripts=["alpha-tool=alpha:main"])
    wheel("beta", "1.0")
    wheel("beta", "2.0", {"beta.py": "TWICE = 84\n", "beta_hook.pth": "import sys; sys.hooked = 1\n"})
    wheel("gamma", "1.0", requires=["beta<2"])
    wheel("other", "1.0", tag="cp27-cp27m-win32")


def works():
    s = host.session("works", "alpha==1.0 beta==2.0")
    same("what was asked for", s.text("config").split("packages = ")[1].split("\n")[0],
         "alpha==1.0 beta==2.0")
    same("an import", s.run("import alpha, beta\nprint(alpha.NAME, alpha.TWICE)\n").out, "alpha 84\n")
    same("a .pth file", s.run("import sys; print(sys.hooked)\n").out, "1\n")
    same("in a child", s.run("import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', "
                             "'import alpha, sys; print(alpha.TWICE, sys.hooked)'], "
                             "capture_output=True, text=True).stdout)\n").out, "84 1\n\n")
    same("a script", s.run("import subprocess\nprint(subprocess.run(['alpha-tool'], "
                           "capture_output=True, text=True).stdout)\n").out, "script of alpha\n\n")
    same("compiled", s.run("print(alpha.__cached__ is not None, "
                           "__import__('os').path.exists(alpha.__cached__))\n").out, "True True\n")
    if BACKEND != "local":
        denied = s.run("open(alpha.__file__, 'a')\n")
        ok("read-only", "Read-only" in denied.err or "Permission" in denied.err, denied)
    has("the console shows the installer", s.text("console"), "alpha")
    same("one layer", len(layers()), 1)
    s.ctl("reset")
    same("after a reset", s.run("import alpha; print(alpha.TWICE)\n").out, "84\n")
    s.remove()


def again():
    """The same in another order, and written another way, is the same layer."""
    before = layers()
    s = host.session("again", "Beta==2.0,ALPHA==1.0")
    same("again", s.run("import alpha; print(alpha.TWICE)\n").out, "84\n")
    same("the layer", layers(), before)
    ok("nothing was installed", "Installed" not in s.text("console"), s.text("console")[-500:])
    s.remove()
    s = Session("none", template="python", mnt=host.mnt)
    ok("others don't see them", "ModuleNotFoundError" in s.run("import alpha\n").err)
    s.remove()


def refusal(name, packages, code, *words):
    before = layers()
    s = host.session(name, packages)
    run = s.run("print(1)\n")
    same(f"{name}: not run", (run.code, run.stdout), ("EIO", b""))
    same(f"{name}: refused", s.state_of(1), "refused")
    error = s.text("error")
    has(f"{name}: code", error, f"code: {code}")
    for word in words:
        has(f"{name}: {word}", error, word)
    same(f"{name}: no half layer", layers(), before)
    same(f"{name}: state", s.word(), "failed")
    log = read(os.environ["LOG"], "r")
    cause = error.split("\ncause: ")[1].split("\n")[0]
    same(f"{name}: logged once, with the cause", log.count(f": {cause}\n"), 1)
    same(f"{name}: logged once, by its session", log.count(f"python/{name}: {code}\n"), 1)
    ok(f"{name}: no reset is asked for", "reset" not in error, error)
    write(s / "config", "packages = alpha==1.0 beta==2.0\n")
    same(f"{name}: mended, it runs", s.run("import beta; print(beta.TWICE)\n").out, "84\n")
    s.remove()


def refusals():
    refusal("version", "beta==9.9", "packages-failed", "beta==9.9")
    refusal("name", "nobody==1.0", "packages-failed", "nobody")
    refusal("conflict", "alpha==1.0 gamma==1.0", "packages-failed", "beta")
    refusal("wheel", "other==1.0", "packages-failed", "other", "wheel")


def syntax():
    s = Session("syntax", template="python", mnt=host.mnt)
    for text in "beta", "beta>=1", "beta==*", "-e==1", "beta==1 beta==2":
        with raises(text, errno.EINVAL):
            write(s / "config", f"packages = {text}\n")
    has("words", s.text("error"), "one package")
    same("nothing changed", s.run("print(1)\n").out, "1\n")
    with raises("while it runs", errno.EBUSY):
        write(s / "config", "packages = beta==2.0\n")
    s.remove()
    s = Session("raw", template="raw", mnt=host.mnt)
    with raises("raw", errno.EINVAL):
        write(s / "config", "packages = beta==1.0\n")
    s.remove()


def offers():
    """The newest version of what was asked for without one: it fits all the rest, and this interpreter."""
    before = layers()
    s = Session("offers", template="python", mnt=host.mnt)
    has("the newest", offer(s, "Beta"), "echo 'packages = beta==2.0' >> config")
    for n in 1, 2:
        has(f"asked again, {n}", offer(s, "Beta"), "echo 'packages = beta==2.0' >> config")
    has("that fits", offer(s, "gamma==1.0 beta"), "echo 'packages = beta==1.0 gamma==1.0' >> config")
    for name in "other", "nobody":
        fix = offer(s, name)
        has(f"{name}: there is none", fix, "could not be looked up: ")
        has(f"{name}: for a reason", fix, "can't be installed: ")
        has(f"{name}: in the installer's words", s.text("error"), name)
    fix = offer(s, "alpha")
    same("the command can be taken as it is", shell(fix.split(": ")[1], cwd=s.path)[::2], (0, b""))
    same("then there is no error", s.text("error"), "")
    same("and it runs", s.run("import alpha; print(alpha.TWICE)\n").out, "84\n")
    same("nothing half-made", [n for n in layers() if n.startswith(".")], [])
    ok("nothing else", len(layers()) <= len(before) + 1, layers())
    s.remove()


def listed():
    names = f"{SCRATCH}/names"
    write(names, "alpha\nBeta\n")
    other = Mount("listed", packages=f"offline = {MIRROR}\npython_list = {names}\n")
    s = Session("one", template="python", mnt=other.mnt)
    with raises("not listed", errno.EINVAL):
        write(s / "config", "packages = gamma==1.0\n")
    has("so it is said", s.text("error"), "code: not-listed")
    with raises("misspelt", errno.EINVAL):
        write(s / "config", "packages = alpah==1.0\n")
    has("the closest", s.text("error"), "Did you mean alpha?")
    write(s / "config", "packages = BETA==2.0\n")
    same("listed", s.run("import beta; print(beta.TWICE)\n").out, "84\n")
    other.close()


def together():
    """Sessions that ask at once for the same have it made once."""
    wheel("delta", "1.0")
    before = len(layers())
    sessions = [host.session(f"together{i}", "delta==1.0") for i in range(3)]
    for s in sessions:
        s.submit("import delta; print(delta.VERSION)\n")
    for s in sessions:
        same("each", s.result().out, "1.0\n")
    same("one build", len([e for e in host.events() if "delta==1.0: there after" in json.dumps(e)]), 1)
    same("one layer", len(layers()), before + 1)
    for s in sessions:
        s.remove()


def mounts():
    """Two mounts that share a cache, likewise."""
    wheel("epsilon", "1.0")
    other = Mount("second")
    sessions = [m.session("twice", "epsilon==1.0") for m in (host, other)]
    for s in sessions:
        s.submit("import epsilon; print(epsilon.VERSION)\n")
    for s in sessions:
        same("each", s.result().out, "1.0\n")
    built = [m for m in (host, other)
             if any("epsilon" in json.dumps(e) and "Installed" in json.dumps(e) for e in m.events())]
    same("one of them built it", len(built), 1)
    for s in sessions:
        s.remove()
    other.close()


def javascript():
    if not has_language("javascript"):
        print("(no bun on this host)")
        return
    tarball("left", "1.2.3", {"index.js": "module.exports = 'left'\n"})
    tarball("@scope/right", "2.0.0", {"index.mjs": "export const side: string = 'right'\n".replace(": string", ""),
                                      "cli.js": "#!/usr/bin/env bun\nconsole.log('tool')\n"},
            main="index.mjs", bin={"right-tool": "cli.js"},
            scripts={"postinstall": "touch /layer/tree/ran"})
    s = host.session("js", "@scope/right@2.0.0 left@1.2.3", template="javascript")
    same("import", s.run("import { side } from '@scope/right'\nconst n: string = side\n"
                         "console.log(n)\n").out, "right\n")
    same("require", s.run("console.log(require('left'))\n").out, "left\n")
    same("in a child", s.run("await Bun.write('a.ts', \"import left from 'left'; const x: string = left; "
                             "console.log(x)\")\nconsole.log(await Bun.$`bun a.ts`.text())\n").out, "left\n\n")
    same("no script of it ran", s.run("console.log(require('fs').readdirSync("
                                      "process.env.NODE_PATH + '/..').includes('ran'))\n").out, "false\n")
    s.remove()
    s = Session("js-offer", template="javascript", mnt=host.mnt)
    tarball("left", "1.10.0", {"index.js": ""})
    tarball("left", "2.0.0-beta", {"index.js": ""})
    tarball("left-pad", "7.0.0", {"index.js": ""})
    has("the newest", offer(s, "left @scope/right@2.0.0"),
        "echo 'packages = @scope/right@2.0.0 left@1.10.0' >> config")
    has("there is none", offer(s, "righteous"), "could not be looked up: ")
    s.remove()
    s = host.session("js-none", "left@9.9.9", template="javascript")
    s.run("1\n")
    has("a version that is not there", s.text("error"), "left-9.9.9.tgz")
    s.remove()


def killed():
    """A daemon that is killed while it installs leaves nothing behind."""
    wheel("zeta", "1.0", {f"zeta/m{i}.py": "X = 1\n" * 500 for i in range(400)} | {"zeta/__init__.py": ""})
    cache = folder("killed.cache")
    link_images(cache)
    first = Mount("killed", cache=cache)
    s = first.session("one", "zeta==1.0")
    s.submit("import zeta; print('there')\n")
    ok("half-way", wait_for(lambda: any(n.startswith(".tmp-") for n in layers(cache)), 20))
    first.daemon.kill()
    first.daemon.wait()
    ok("it is gone", wait_for(lambda: not mounted(first.mnt), 10))
    ok("no layer", not [n for n in layers(cache) if not n.startswith(".")], layers(cache))
    second = Mount("after", cache=cache)
    s = second.session("one", "zeta==1.0")
    same("the next one makes it", s.run("import zeta; print('there')\n").out, "there\n")
    same("and cleans up", [n for n in layers(cache) if n.startswith(".")], [])
    second.close()


def full():
    """A cache that is full."""
    cache = folder("full.cache")
    if libc.mount(b"tmpfs", cache.encode(), b"tmpfs", 0, b"size=1500k"):
        print("(no file system could be mounted)")
        return
    link_images(cache)
    wheel("huge", "1.0", {f"huge/m{i}.py": f"X = '{os.urandom(30000).hex()}'\n" for i in range(80)})
    small = Mount("full", cache=cache, options=(f"spool_dir={SCRATCH}/full.spool",))
    s = small.session("one", "huge==1.0")
    run = s.run("print(1)\n")
    same("refused", (run.code, s.state_of(1)), ("EIO", "refused"))
    has("why", s.text("error"), "No space left")
    same("nothing is left", layers(cache), [])
    small.close()
    libc.umount2(cache.encode(), 2)


def limit():
    """What was not used for longest goes."""
    cache = folder("limit.cache")
    link_images(cache)
    for name in "eta", "theta", "iota":
        wheel(name, "1.0", {f"{name}.py": f"X = '{os.urandom(400000).hex()}'\n"})
    small = Mount("limit", "[template python]\npool = 0\n", cache=cache, packages=f"offline = {MIRROR}\npython_list = any\nlayer_limit = 4M\n")
    for name in "eta", "theta", "iota":
        s = small.session(name, f"{name}==1.0")
        same(name, s.run(f"import {name}; print(len({name}.X))\n").out, "800000\n")
        s.remove()
        time.sleep(0.05)
    ok("some went", len(layers(cache)) < 3, layers(cache))
    wheel("kappa", "1.0", {f"kappa{i}.py": f"X = '{os.urandom(400000).hex()}'\n" for i in range(6)})
    s = small.session("kappa", "kappa==1.0")
    same("too large", s.run("1\n").code, "EIO")
    has("why", s.text("error"), "layer_limit")
    same("nothing of it is left", [n for n in layers(cache) if n.startswith(".")], [])
    small.close()


def in_use():
    """A layer that somebody uses stays, whatever the limit."""
    cache = folder("use.cache")
    link_images(cache)
    for name in "eta", "theta", "iota":
        wheel(name, "1.0", {f"{name}.py": f"X = '{os.urandom(400000).hex()}'\n"})
    small = Mount("use", cache=cache, packages=f"offline = {MIRROR}\npython_list = any\nlayer_limit = 2M\n")
    s = small.session("user", "eta==1.0")
    same("used", s.run("print(1)\n").out, "1\n")
    key = layers(cache)
    other = small.session("other", "theta==1.0")
    same("another", other.run("import theta; print(1)\n").out, "1\n")
    ok("it stays", set(key) <= set(layers(cache)), layers(cache))
    same("and works", s.run("import eta; print(len(eta.X))\n").out, "800000\n")
    small.close()


def warmup():
    """A template's packages, and code that its sandboxes have run."""
    conf = ("[template data]\nimage = python\nlanguage = python\npackages = Alpha==1.0\n"
            "warmup = import alpha; START = alpha.TWICE\n"
            "[template bad]\nimage = python\nlanguage = python\npackages = alpha==1.0\n"
            "warmup = import nothing_of_this_name\n")
    other = Mount("warm", conf)
    s = Session("one", template="data", mnt=other.mnt)
    same("it has run", s.run("print(START, alpha.NAME)\n").out, "84 alpha\n")
    has("settings", s.text("config"), "packages = alpha==1.0")
    s.remove()
    s = Session("without", template="data", config="packages =\n", mnt=other.mnt)
    same("other packages, no warm-up", s.run("print('START' in globals())\n").out, "False\n")
    s.remove()
    s = Session("bad", template="bad", mnt=other.mnt)
    same("a bad one", s.run("print(1)\n").code, "EIO")
    has("is the template's problem", s.text("error"), "nothing_of_this_name")
    has("in a word", s.text("error"), "code: warmup-failed")
    has("where", s.text("error"), 'File "<warmup>", line 1')
    other.close()


mirror()
host = Mount("host")
# What happens on the disk is the same with machines, only slower.
disk = () if VM else (listed, mounts, killed, full, limit, in_use)
main(works, again, refusals, syntax, offers, together, javascript, warmup, *disk, lambda: host.close())
