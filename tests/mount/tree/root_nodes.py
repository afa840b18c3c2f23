#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The root: README.md status.json isolation doctor metrics events, and the templates."""
# backends: local vm
import re
import select

from hosts import *

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
INSTALLER = f"{ROOT}/images/packages"
NODES = ["README.md", "status.json", "isolation", "doctor", "metrics", "events"]


def listing():
    names = os.listdir(MNT)
    for name in NODES + ["shell", "python", "javascript", "raw", "dev"]:
        ok(f"{name} is listed", name in names, names)
    for name in NODES:
        # What happens in the sessions of others is not for everybody.
        same(f"{name}: mode", oct(os.stat(f"{MNT}/{name}").st_mode),
             "0o100400" if name == "events" else "0o100444")
    # Its words become more when it is known what machines run on.
    wait_for(lambda: json.loads(read(f"{MNT}/status.json"))["accelerator"] != "probing", 20)
    for name in NODES[:-1]:
        # Numbers in it may have changed between the two.
        size, data = os.stat(f"{MNT}/{name}").st_size, read(f"{MNT}/{name}")
        ok(f"{name}: size", abs(size - len(data)) < 32, (size, len(data)))
        ok(f"{name}: ends with a newline", data.endswith(b"\n"))
    same("statfs", os.statvfs(MNT).f_namemax >= 64, True)
    for option in ("nosuid", "nodev"):
        line = [x for x in read("/proc/self/mountinfo", "r").splitlines() if x.split()[4] == MNT][0]
        has("mount options", line, option)


def readme():
    text = read(f"{MNT}/README.md", "r")
    ok("at most 60 lines", 5 < len(text.splitlines()) <= 60, len(text.splitlines()))
    has("examples", text, "cat shell/demo/stdout")
    for template in ("shell", "python", "javascript", "raw", "dev"):
        has("templates", text, template)
    s = Session("readme")
    ok("a session has one too", len(s.text("README.md")) > 100)


def status():
    info = json.loads(read(f"{MNT}/status.json"))
    for key in ("version", "accelerator", "templates", "sessions"):
        ok(f"status.json: {key}", any(k.startswith(key[:5]) for k in info), list(info))
    ok("uptime", any("uptime" in k for k in info), list(info))
    has("version", json.dumps(info), shell(f"{os.environ['XSBXFS']} --version")[1].split()[-1]
        .decode())


def doctor():
    found = {}
    for line in read(f"{MNT}/doctor", "r").splitlines():
        ok("one check a line", re.match(r"(ok|warn|fail)\b", line) or line.startswith(" "), line)
        found[line[5:].split(": ")[0]] = line
    for name in ("network", "networks of sessions", "packages", "package names", "package layers"):
        ok(f"{name}: looked at", name in found, sorted(found))
    has("how many layers there are", found["package layers"], " MiB, at most 4096 MiB, in /")
    has("which names are allowed", found["package names"], " of Python's, ")
    options = f"allow_network=no,installer={INSTALLER},layer_limit=0,offline=/no,python_list=any"
    done = subprocess.run([os.environ["XSBXFS"], "--check", "-o", options], check=False,
                          stdout=subprocess.PIPE, timeout=2 * SOON).stdout.decode()
    for words in ("ok   networks of sessions: none ([limits] allow_network)\n", "any of Python's",
                  "MiB, no limit, in /", "can't be read: /no"):
        has("--check", done, words)


def secrets():
    """Is there what the configuration names? Who mounts can look; a daemon only tells what there should be."""
    for name, mode in (("private", 0o600), ("open", 0o644)):
        write(f"{SCRATCH}/{name}", "value-of-it\n")
        os.chmod(f"{SCRATCH}/{name}", mode)
    os.symlink("private", f"{SCRATCH}/link")
    os.close(os.open(f"{SCRATCH}/hollow", os.O_CREAT | os.O_WRONLY, 0o600))
    for name, text in (("short", "value\n"), ("blank", "\n"), ("later", "\nvalue-of-it\n")):
        write(f"{SCRATCH}/{name}", text)
        os.chmod(f"{SCRATCH}/{name}", 0o600)
    os.mkdir(f"{SCRATCH}/place", 0o700)
    sources = {"good": f"file {SCRATCH}/private", "opened": f"file {SCRATCH}/open", "linked": f"file {SCRATCH}/link",
               "missing": f"file {SCRATCH}/none", "hollow": f"file {SCRATCH}/hollow", "short": f"file {SCRATCH}/short", "blank": f"file {SCRATCH}/blank",
               "later": f"file {SCRATCH}/later", "folder": f"command {SCRATCH}/place", "unset": "env XSBX_TEST_NONE", "set": "env XSBX_TEST_SET",
               "made": "command /bin/echo it", "unmade": f"command {SCRATCH}/none it"}
    write(f"{SCRATCH}/conf", "".join(f"[secret {name}]\nfrom = {source}\nhosts = a.test\n" for name, source in sources.items()))
    done = subprocess.run([os.environ["XSBXFS"], "--check", "--conf", f"{SCRATCH}/conf"], check=False, stdout=subprocess.PIPE,
                          timeout=2 * SOON, env={**os.environ, "XSBX_TEST_SET": "value-of-it"}).stdout.decode()
    for name, words in (("good", "file, for a.test:443\n"), ("set", "env, for a.test:443\n"), ("made", "command, for a.test:443\n")):
        has(name, done, f"ok   secret {name}: from {words}")
    for name, words in (("opened", f"{SCRATCH}/open can be used by others: its mode is 644; chmod 600 it -- "),
                        ("linked", f"{SCRATCH}/link is a link: name the file itself -- "),
                        ("missing", f"{SCRATCH}/none: No such file or directory -- "),
                        ("hollow", f"{SCRATCH}/hollow is empty -- "),
                        *((name, f"{SCRATCH}/{name}: its first line is no value: that has 6 characters or more -- ")
                          for name in ("short", "blank", "later")),
                        ("folder", f"{SCRATCH}/place: Permission denied -- "),
                        ("unset", "the variable XSBX_TEST_NONE is not set here, or empty -- "),
                        ("unmade", f"{SCRATCH}/none: No such file or directory -- ")):
        has(name, done, f"warn secret {name}: {words}")
    ok("no value is said", "value-of-it" not in done, done)


def isolation():
    lines = read(f"{MNT}/isolation", "r").splitlines()
    ok("some lines", len(lines) >= (3 if VM else 1), lines)
    for line in lines:
        ok("key: value", re.match(r"[a-z][\w .-]*: \S", line), line)


def metrics():
    text = read(f"{MNT}/metrics", "r")
    types, seen = {}, set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            ok("a type is said once", name not in types, line)
            ok("a known type", kind in ("counter", "gauge", "histogram", "summary"), line)
            types[name] = kind
        elif line.startswith("#"):
            ok("a comment", re.match(r"# HELP [a-z_:][a-z0-9_:]* \S", line), line)
        else:
            found = re.match(r'([a-z_:][a-z0-9_:]*)(\{([a-z_]+="[^"\n]*",?)*\})? (\S+)$', line)
            if ok("a sample", found, line):
                float(found.group(4))
                base = re.sub("_(bucket|sum|count)$", "", found.group(1))
                ok("has a type", base in types or found.group(1) in types, line)
                ok("is there once", found.group(0).rsplit(" ", 1)[0] not in seen, line)
                seen.add(found.group(0).rsplit(" ", 1)[0])
    ok("there are some", len(seen) >= 5, len(seen))
    has("named after the program", text, "xsbx")

    def total():
        return sum(float(m) for m in re.findall(r"^xsbx\w*runs\w*_total(?:\{.*\})? (\S+)$",
                                                read(f"{MNT}/metrics", "r"), re.M))
    before = total()
    Session("counted").run("true\n")
    ok("runs are counted", total() > before, (before, total()))


def events():
    fd = os.open(f"{MNT}/events", os.O_RDONLY | os.O_NONBLOCK)
    s = Session("watched")
    s.run("echo x\n")
    s.remove()
    text = b""
    while b"watched" not in text or text.count(b"\n") < 3:
        if not select.select([fd], [], [], SOON)[0]:
            break
        text += os.read(fd, 65536)
    os.close(fd)
    lines = [json.loads(line) for line in text.splitlines()]
    ok("events came", len(lines) >= 3, len(lines))
    has("about this session", text, b"watched")
    ok("each has a time and a kind", all(len(x) >= 2 for x in lines), lines[:2])
    child = subprocess.Popen(["cat", f"{MNT}/events"], stdout=subprocess.PIPE)
    shown = os.read(child.stdout.fileno(), 1 << 20)
    Session("followed")
    while b"followed" not in shown and select.select([child.stdout], [], [], SOON)[0]:
        shown += os.read(child.stdout.fileno(), 1 << 20)
    has("cat shows the next", shown, b"followed")
    child.kill()
    child.wait()


def templates():
    for name in ("python", "raw"):
        info = json.loads(read(f"{MNT}/{name}/template.json"))
        text = json.dumps(info)
        has(f"{name}: settings", text, "timeout_s")
        if VM:
            has(f"{name}: what the image holds", text.lower(), "bash")
        same(f"{name}: a listing", [n for n in os.listdir(f"{MNT}/{name}") if "." in n],
             ["template.json", "README.md"])


def named():
    """A template of processes needs no image, so that there is none of its name is no problem."""
    mount = Host("named", "[limits]\nallow_process = yes\n[template mine]\nlanguage = python\nbackend = process\n"
                  "[template other]\nlanguage = python\nbackend = microvm\n")
    info = {name: json.loads(read(f"{mount.mnt}/{name}/template.json")) for name in ("mine", "other")}
    whole = {t["name"]: t for t in json.loads(read(f"{mount.mnt}/status.json"))["templates"]}
    same("one with an image of another name", (whole["mine"]["ready"], whole["mine"]["problem"]), (True, None))
    same("its own node", info["mine"].get("problem"), None)
    other = whole["other"]
    same("a machine does need it", (other["ready"], other["problem"] is None), (other["image"]["state"] == "ready",) * 2)
    mount.close()


def session_status():
    s = Session("status")
    info = s.json()
    same("state", info["state"], "new")
    s.run("echo x\n")
    info = s.json()
    same("state", info["state"], "idle")
    for key in ("session", "template", "settings", "sandbox", "usage", "runs", "error"):
        ok(f"status.json of a session: {key}", key in info, list(info))
    for key in ("backend", "boot_ms", "setup_ms", "interpreter"):
        ok(f"of its sandbox: {key}", key in info["sandbox"], list(info["sandbox"]))
    ok("a process", isinstance(s.pid(), int))
    ok("how it started", info["sandbox"]["start"] in ("cold", "snapshot", "warm"), info["sandbox"])
    run = s.json("runs/1/status.json")
    ok("wall time of the run", any("wall" in k or "_ms" in k for k in json.dumps(run).split('"')),
       run)
    if VM:
        ok("console has the boot log, or says why not", len(s.text("console")) > 10)
    else:
        s.text("console")
    same("error is empty", s.text("error"), "")


main(listing, readme, status, doctor, secrets, isolation, metrics, events, templates, named, session_status)
