#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""keep = yes: sessions are there again at the next mount, whatever ended the one before."""
# backends: local process vm
# timeout: 400
import errno
import glob

from kept import *


def outlines(s):
    return s.text("stdout").splitlines()[-1], s.text("stderr").splitlines()[-1]


def unmount_and_mount():
    k = Kept("plain")
    s = k.make("demo", "timeout_s = 77\nenv.A = b c\n")
    same("made", s.run("echo one > f; mkdir -p d; echo two > d/g\n").code, 0)
    s.run(LONG)
    write(s / "files/h", "from outside\n")
    os.mkdir(s / "jobs/j")
    write(s / "jobs/j/in", "echo job; exit 4\n")
    same("a job", read(s / "jobs/j/exit_code"), b"4\n")
    os.mkdir(s / "runs/named")
    write(s / "runs/named/in", "echo named\n")
    same("a named run", read(s / "runs/named/stdout"), b"named\n")
    os.mkdir(s / "jobs/later")
    write(s / "jobs/later/config", "argv = echo 'a b'\n")
    os.mkdir(s / "checkpoints/c")
    same("a checkpoint", read(s / "checkpoints/c/wait"), b"whole\n")
    s.run("echo changed > f\n")
    write(s / ".note.swp", "half")
    fresh, gone = k.make("fresh"), k.make("gone")
    gone.run("true\n")
    gone.remove()
    before = {node: read(s / node) for node in ("config", "summary", "exit_code", "runs/2/summary", "runs/1/in")}
    created = os.stat(s / "runs/1").st_mtime

    same("it ends", k.end(), 0)
    for path in glob.glob(f"{k.state}/**", recursive=True):
        ok(f"{path} is nobody else's", os.stat(path).st_mode & 0o077 == 0 or os.path.isdir(path))
    ok("what was written is not to be read", b"from outside" not in b"".join(
        read(p) for p in glob.glob(f"{k.state}/**", recursive=True) if os.path.isfile(p)))
    k.begin()
    same("those that are there", sorted(n for n in os.listdir(f"{k.mnt}/raw") if "." not in n), ["demo", "fresh"])
    s, fresh = k.there("demo"), k.there("fresh")
    same("states", (s.word(), fresh.word()), ("asleep", "new"))
    same("no error", s.text("error"), "")
    for node, text in before.items():
        same(f"{node} is as it was", read(s / node), text)
    same("a run's time", os.stat(s / "runs/1").st_mtime, created)
    same("runs", s.runs(), [1, 2, 3, 4])
    same("a long output", (read(s / "runs/2/stdout").splitlines()[-1], read(s / "runs/2/stderr").splitlines()[-1]),
         (b"100000", b"30000"))
    same("all of it", len(read(s / "runs/2/stdout")), 588895)
    same("both", len(read(s / "runs/2/output")), 588895 + len(read(s / "runs/2/stderr")))
    same("jobs", (sorted(os.listdir(s / "jobs")), read(s / "jobs/j/stdout"), read(s / "jobs/later/state")),
         (["j", "later"], b"job\n", b"new\n"))
    same("the named run", (read(s / "runs/named/stdout"), read(s / "runs/named/exit_code")), (b"named\n", b"0\n"))
    same("a scratch file", read(s / ".note.swp"), b"half")
    same("files, without waking it", (read(s / "files/f"), read(s / "files/d/g"), read(s / "files/h"), s.word()),
         (b"changed\n", b"two\n", b"from outside\n", "asleep"))
    same("the checkpoint's", read(s / "checkpoints/c/files/f"), b"one\n")
    same("it wakes", s.run("cat f h\n").out, "changed\nfrom outside\n")
    same("number of the run", s.runs()[-1], 5)
    same("the job that waited", (write(s / "jobs/later/ctl", "start\n"), read(s / "jobs/later/stdout"))[1], b"a b\n")
    s.ctl("restore c")
    same("it goes back", s.run("cat f\n").out, "one\n")
    same("it ends again", k.end(signal.SIGTERM), 0)


def removed_at_the_end():
    """What was saved of sessions that are awake goes with them, though the mount ends in the next moment."""
    k = Kept("removed")
    for name in ("one", "two"):
        k.make(name).run("echo x > f\n")
    k.again()
    ok("they were saved", len(glob.glob(f"{k.state}/saved/*/pack")) == 2)
    for name in ("one", "two"):
        same("it wakes", k.there(name).run("cat f\n").out, "x\n")
    for name in ("one", "two"):
        k.there(name).remove()
    same("it ends", k.end(), 0)
    same("nothing is left of them", glob.glob(f"{k.state}/saved/*/*") + glob.glob(f"{k.state}/sessions/*/*"), [])


def next_one_waits():
    """For one that ends, though that is mounted still: a run goes on in it."""
    k = Kept("next")
    k.make("demo").submit("sleep 5; echo x > f\n")
    ok("it runs", wait_for(lambda: k.there("demo").word() == "running"))
    before = k.daemon
    before.send_signal(signal.SIGTERM)
    ok("it ends", wait_for(lambda: "ending: " in read(k.log, "r")))
    k.begin()
    same("the one before it has ended", before.wait(SOON), 0)
    s = k.there("demo")
    same("and let its run end", (s.state_of(1), s.word(), read(s / "files/f")), ("done", "asleep", b"x\n"))
    same("it ends", k.end(), 0)


def copies():
    k = Kept("copies")
    s = k.make("demo")
    s.run("echo x > f\n")
    os.mkdir(s / "checkpoints/c")
    read(s / "checkpoints/c/wait")
    copy = k.make("copy", "from = demo@c\n")
    same("a copy", copy.run("cat f\n").out, "x\n")
    k.again()
    s, copy = k.there("demo"), k.there("copy")
    same("whose copy it is", copy.json()["parent"]["session"], "raw/demo")
    has("its source knows it", json.dumps(s.json()["children"]), "raw/copy")
    same("it is one", copy.run("cat f\n").out, "x\n")
    again = k.make("again", "from = demo@c\n")
    same("another one, of a checkpoint that was there before", again.run("cat f\n").out, "x\n")
    k.end()


def a_run_goes_on():
    k = Kept("going")
    s = k.make("demo")
    s.run("echo x > f\n")
    s.submit("echo begun; exec sleep 1000\n")
    ok("it runs", wait_for(lambda: s.word() == "running"), s.word())
    s.submit("echo never\n")
    same("it ends", k.end(signal.SIGTERM), 0)
    k.begin()
    s = k.there("demo")
    ok("the run has ended", s.state_of(2) in ("done", "killed", "lost"), s.text("runs/2/summary"))
    same("what it had said", read(s / "runs/2/stdout"), b"begun\n")
    same("what waited has not begun", s.state_of(3), "refused")
    same("it was saved", (s.word(), read(s / "files/f")), ("asleep", b"x\n"))
    k.end()


def power_cut():
    k = Kept("cut")
    s = k.make("sleeper")
    s.run("echo x > f\n")
    s.ctl("sleep")
    ok("asleep", s.wait_state("asleep", 20 * SLOW), s.text("error"))
    s = k.make("woken")
    s.run("echo x > f\n")
    s.ctl("sleep")
    ok("asleep", s.wait_state("asleep", 20 * SLOW), s.text("error"))
    k.written("woken")
    same("it wakes", s.run("echo y > g; cat f\n").out, "x\n")
    k.written("woken")
    s = k.make("idle")
    s.run("echo out; echo err >&2; exit 3\n")
    s.run(LONG)
    os.mkdir(s / "checkpoints/c")
    read(s / "checkpoints/c/wait")
    s = k.make("busy")
    s.submit("echo begun; exec sleep 1000\n")
    ok("it runs", wait_for(lambda: s.word() == "running"), s.word())
    k.written("busy")
    k.power_cut()
    k.begin()
    s = k.there("sleeper")
    same("who slept sleeps", (s.word(), read(s / "files/f")), ("asleep", b"x\n"))
    s = k.there("woken")
    same("who woke up is what it was when it fell asleep", (s.word(), os.listdir(s / "files")), ("asleep", ["f"]))
    has("with words", s.text("error"), "it is as it was when it fell asleep at 20")
    same("what it has run since", (s.state_of(2), read(s / "runs/2/stdout")), ("done", b"x\n"))
    same("it goes on", s.run("cat f\n").out, "x\n")
    s = k.there("idle")
    same("who did not is closed", s.word(), "closed")
    has("with words", s.text("error"), "not-kept")
    same("its results", (read(s / "runs/1/stdout"), read(s / "runs/1/stderr"), read(s / "runs/1/exit_code")),
         (b"out\n", b"err\n", b"3\n"))
    same("long ones", outlines(s), ("100000", "30000"))
    s.ctl("restore c")
    same("its checkpoint", s.run("echo back\n").out, "back\n")
    s = k.there("busy")
    same("what ran is lost", s.state_of(1), "lost")
    has("with words", s.text("runs/1/summary"), "xsbxfs ended while run 1 went on")
    s.ctl("reset")
    same("it can be used", s.run("echo again\n").out, "again\n")
    k.end()


def whole():
    """A checkpoint that is said to be whole outlasts a power cut in the next moment."""
    k = Kept("whole")
    s = k.make("demo")
    s.run("echo x > f\n")
    os.mkdir(s / "checkpoints/c")
    same("whole", read(s / "checkpoints/c/wait"), b"whole\n")
    k.power_cut()
    k.begin()
    s = k.there("demo")
    same("and is still", s.json("checkpoints/c/status.json")["state"], "whole")
    s.ctl("restore c")
    same("with all that there was", s.run("cat f\n").out, "x\n")
    k.end()


def damaged():
    k = Kept("damaged")
    for name in ("good", "bad", "moved", "saved"):
        k.make(name).run(f"echo {name} > f\n")
    same("it ends", k.end(), 0)
    top = f"{k.state}/sessions/raw"
    text = bytearray(read(f"{top}/bad.rec"))
    text[len(text) // 2] ^= 1
    write(f"{top}/bad.rec", bytes(text))
    shutil.copy(f"{top}/good.rec", f"{top}/moved.rec")
    bad = bytes(text)
    k.begin()
    same("good", (k.there("good").word(), read(k.there("good") / "files/f")), ("asleep", b"good\n"))
    for name in ("bad", "moved"):
        s = k.there(name)
        same(f"{name}: state", s.word(), "failed")
        has(f"{name}: code", s.text("error"), "damaged")
        has(f"{name}: what to do", s.text("error"), "rmdir")
        with raises(f"{name}: takes nothing", errno.ESTALE, errno.EBUSY, errno.EIO):
            write(s / "in", "echo x\n")
        with raises(f"{name}: reset", errno.ESTALE):
            s.ctl("reset")
        has(f"{name}: still says so", s.text("error"), "damaged")
    same("it is as it was on the disk", read(f"{top}/bad.rec"), bad)
    k.again()
    same("and next time", k.there("bad").word(), "failed")
    for name in ("bad", "moved"):
        k.there(name).remove()
    wait_for(lambda: not glob.glob(f"{top}/bad*") and not glob.glob(f"{top}/moved*"), 10)
    same("removed from the disk", sorted(os.path.basename(p) for p in glob.glob(f"{top}/*.rec")), ["good.rec", "saved.rec"])
    k.again()
    same("what is left", sorted(n for n in os.listdir(f"{k.mnt}/raw") if "." not in n), ["good", "saved"])
    k.end()
    packs = glob.glob(f"{k.state}/saved/*/pack")
    flip(packs)
    k.begin()
    s = k.there("saved")
    same("what was saved is damaged", s.state_of(1), "done")
    with raises("its files", errno.EIO, errno.ESTALE, errno.ENOENT, errno.EBADMSG):
        read(s / "files/f")
    s.submit("cat f\n")
    same("it does not run", s.wait_run(2, "refused", 20 * SLOW), True)
    has("and says why", s.text("error"), "damaged")
    ok("it is closed", wait_for(lambda: s.word() == "closed", 10 * SLOW), s.word())
    has("... and can be tried again", s.text("error"), "echo wake > ctl tries it again")
    k.again()
    same("what is damaged is there", len(glob.glob(f"{k.state}/saved/*/pack")), len(packs))
    same("and is tried at the next mount", k.there("saved").word(), "asleep")
    flip(packs)
    same("mended", k.there("saved").run("cat f\n").out, "saved\n")
    k.end()


def flip(paths):
    for path in paths:
        text = bytearray(read(path))
        text[len(text) // 2] ^= 1
        write(path, bytes(text))


def restore_of_a_damaged_one():
    """What is whole is not given up for it: neither a sandbox, nor a sleep."""
    k = Kept("restores")
    s = k.make("demo")
    s.run("echo one > f\n")
    os.mkdir(s / "checkpoints/c")
    same("a checkpoint", read(s / "checkpoints/c/wait"), b"whole\n")
    packs = glob.glob(f"{k.state}/saved/*/pack")
    same("of one that is awake", len(packs), 1)
    s.run("echo two > f\n")
    k.again()
    s = k.there("demo")
    there = glob.glob(f"{k.state}/saved/*/pack")
    same("it sleeps, and has a checkpoint", (s.word(), len(there)), ("asleep", 2))
    flip(packs)
    with raises("asleep", errno.EIO):
        s.ctl("restore c")
    has("... in words", s.text("error"), 'the checkpoint "c" can\'t be read from state_dir: the session is as it was')
    same("it is shown", s.json("checkpoints/c/status.json")["state"], "failed")
    same("it is as it was", (s.word(), s.run("cat f; echo three > f\n").out), ("asleep", "two\n"))
    k.again()
    s = k.there("demo")
    same("awake", s.run("cat f; echo four > f\n").out, "three\n")
    with raises("... likewise", errno.EIO):
        s.ctl("restore c")
    same("it is awake", (s.word(), s.run("cat f\n").out), ("idle", "four\n"))
    flip(packs)
    k.again()
    s = k.there("demo")
    s.ctl("restore c")
    same("mended", s.run("cat f\n").out, "one\n")
    k.end()


def out_of(k, name, template="raw"):
    return glob.glob(f"{k.state}/sessions/{template}/{name}.*.out")[0]


def long_code():
    """It is in a file of its own, written once; one that is damaged, or not there, takes its own run's code down alone."""
    k = Kept("code")
    s = k.make("demo")
    code = [f"echo {i}\n#{'x' * (70000 + i)}\n" for i in range(4)]
    for i, text in enumerate(code):
        same(f"run {i}", s.run(text).out, f"{i}\n")
    rec = k.written("demo")
    ok("the record is short", os.path.getsize(rec) < 16384, os.path.getsize(rec))
    files = {name: os.stat(f"{out_of(k, 'demo')}/{name}").st_ino for name in os.listdir(out_of(k, "demo"))}
    same("the files", sorted(files), [f"r{i}.code" for i in range(1, 5)])
    s.run("echo short\n")
    k.written("demo")
    same("written once", {name: os.stat(f"{out_of(k, 'demo')}/{name}").st_ino for name in files}, files)
    os.rmdir(s / "runs/1")
    ok("it goes with its run", wait_for(lambda: "r1.code" not in os.listdir(out_of(k, "demo")), 10 * SLOW))
    k.again()
    s = k.there("demo")
    same("it is there", [read(s / f"runs/{i}/in", "r") for i in (2, 3, 4)], code[1:])
    same("no problem", s.text("error"), "")
    k.end()
    with open(f"{out_of(k, 'demo')}/r2.code", "r+b") as f:
        f.seek(1000)
        f.write(b"damage")
    os.unlink(f"{out_of(k, 'demo')}/r4.code")
    k.begin()
    s = k.there("demo")
    has("it is said", s.text("error"), "the code of run 2 can't be read")
    for i in (2, 4):
        with raises(f"run {i} has none", errno.EIO):
            read(s / f"runs/{i}/in")
        has("why", s.text("error"), f"the code of run {i} ")
        same("how much", s.json(f"runs/{i}/status.json")["code_lost_bytes"], len(code[i - 1]))
        same("its output is there", read(s / f"runs/{i}/stdout", "r"), f"{i - 1}\n")
    same("the others have theirs", read(s / "runs/3/in", "r"), code[2])
    same("it goes on", s.run("echo on\n").out, "on\n")
    k.end()


def template_gone():
    conf = f"{SCRATCH}/templates.conf"
    one = "[xsbxfs]\nspool_dir = %s/spool.t\n[limits]\nallow_process = yes\n[template %s]\nimage = raw\nlanguage = raw\n%s"
    rest = "" if VM else "backend = process\n" if BACKEND == "process" else ""
    write(conf, one % (SCRATCH, "mine", rest))
    k = Kept("template", conf=conf)
    k.make("demo", template="mine").run("echo x > f\n")
    same("it ends", k.end(), 0)
    write(conf, one % (SCRATCH, "other", rest))
    k.begin()
    has("the root says so", read(f"{k.mnt}/error", "r"), "mine/demo")
    k.make("new", template="other").run("true\n")
    same("it ends", k.end(), 0)
    write(conf, one % (SCRATCH, "mine", rest))
    k.begin()
    same("with its template it is there again", read(k.there("demo", "mine") / "files/f"), b"x\n")
    k.end()


def refused_directories():
    k = Kept("refused", wait=False)

    def says(what, words):
        try:
            k.begin()
        except RuntimeError as error:
            has(what, str(error), words)
            ok(f"{what}: no mount is left", not mounted(k.mnt))
        else:
            fail(what, "it was taken")
            k.end()

    os.makedirs(k.state, 0o777)
    os.chmod(k.state, 0o777)
    says("others may write", "others may write to it")
    os.chmod(k.state, 0o700)
    if os.geteuid() == 0:
        os.chown(k.state, ALICE, ALICE)
        says("another's", "belongs to another user")
        os.chown(k.state, 0, 0)
    write(f"{k.state}/version", "999\n")
    says("of the future", "version 999")
    write(f"{k.state}/version", "what\n")
    says("no version", "damaged")
    os.rename(k.state, f"{k.state}.real")
    os.symlink(f"{k.state}.real", k.state)
    says("a link", "or a link")
    os.unlink(k.state)
    k.begin()
    other = Kept("refused2", state=k.state, wait=False)
    try:
        other.begin()
    except RuntimeError as error:
        has("two at once", str(error), "another mount has it")
        ok("two at once: no mount is left", not mounted(other.mnt))
    else:
        fail("two at once", "it was taken")
    k.make("demo").run("true\n")
    same("the first one goes on", k.there("demo").word(), "idle")
    k.end()


def sleeps_on():
    """Since when it sleeps is told by the wall clock."""
    k = Kept("since")
    s = k.make("demo")
    s.run("true\n")
    s.ctl("sleep")
    ok("asleep", s.wait_state("asleep", 20 * SLOW))
    since = s.json()["asleep"]["since"]
    time.sleep(1.5)
    k.again()
    s = k.there("demo")
    same("since", round(s.json()["asleep"]["since"], 3), round(since, 3))
    s.run("true\n")
    ok("how long", s.json()["woken"]["asleep_ms"] >= 1500, s.json()["woken"])
    k.end()


main(unmount_and_mount, removed_at_the_end, next_one_waits, copies, a_run_goes_on, power_cut, whole, damaged, restore_of_a_damaged_one, long_code, template_gone, refused_directories, sleeps_on)
