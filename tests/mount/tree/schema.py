#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every status.json and template.json is as man/status.schema.json says, in whatever state what it is about is."""
# backends: local vm
# conf: checkpoint_limit = 64M
# conf: [quota]
# conf: sessions = 100
# conf: cpu_s_day = 3600
import re

from schemas import *

seen = {}


def kind(path):
    """What a node is about, by where it is."""
    parts = path.split("/")
    if parts[-1] == "template.json":
        return "template"
    if len(parts) == 1:
        return "mount"
    if len(parts) == 3:
        return "session"
    if parts[2] == "runs" and parts[3].isdigit():
        return "run"
    return "checkpoint" if parts[2] == "checkpoints" else "job"


def check_all():
    """All there are now."""
    paths = ["status.json"]
    for template in (t["name"] for t in json.loads(read(f"{MNT}/status.json"))["templates"]):
        paths.append(f"{template}/template.json")
        for session in os.listdir(f"{MNT}/{template}"):
            top = f"{template}/{session}"
            if not os.path.isdir(f"{MNT}/{top}"):
                continue
            paths.append(f"{top}/status.json")
            for part in ("runs", "jobs", "checkpoints"):
                paths += [f"{top}/{part}/{name}/status.json" for name in os.listdir(f"{MNT}/{top}/{part}")
                          if name != "latest"]
    for path in paths:
        try:
            value = json.loads(read(f"{MNT}/{path}"))
        except FileNotFoundError:
            continue
        name = kind(path)
        same(f"{path} is as the schema says", wrong(name, value), [])
        same(f"{path}: the schema's number", value.get("schema_version"), 1)
        seen.setdefault(name, {}).setdefault(value.get("state"), value)


def schema():
    Validator.check_schema(SCHEMA)
    same("a definition for each kind of node", [e["$ref"] for e in SCHEMA["oneOf"]], [
        f"#/$defs/{name}" for name in ("mount", "template", "session", "run", "job", "checkpoint", "question")])
    # One that nobody uses is about nothing.
    text = json.dumps(SCHEMA)
    same("all are used", [name for name in SCHEMA["$defs"] if f'"#/$defs/{name}"' not in text], [])


def beginning():
    Session("new", config="env.A = 1\n")
    check_all()


def settings():
    """None is missing where they are shown: what `config` has, the object has, and what is set is on the page."""
    same("the schema wants all it knows", sorted(SCHEMA["$defs"]["settings"]["required"]),
         sorted(SCHEMA["$defs"]["settings"]["properties"]))
    s = Session("set", config="cwd = /tmp\nentrypoint = echo 'a b'\nenv.A = 1\n")
    lines = re.findall(r"^(\w+) =(?: (.*))?$", s.text("config"), re.M)
    ok("config has them", len(lines) > 20 and ("cwd", "/tmp") in lines, lines)
    shown = s.json("status.json")["settings"]
    same("status.json", sorted(shown), sorted([key for key, _ in lines] + ["env"]))
    same("as they are written", {key: shown[key] for key in ("cwd", "entrypoint", "view", "root", "network", "timeout_s")},
         {"cwd": "/tmp", "entrypoint": "echo 'a b'", "view": "host", "root": False, "network": False, "timeout_s": 30})
    page = s.text("status.html").split('id="settings"')[1]
    same("status.html", re.findall(r"<dt><code>(\w+)</code>", page), [key for key, value in lines if value])
    for words in ("<dd class=\"foreign\">/tmp</dd>", "echo &#39;a b&#39;", "192 MiB", ">30 s<", ">two fifths of the memory<"):
        has("on the page", page, words)


def running():
    s = Session("runs", config="timeout_s = 600\n")
    s.submit("echo out; echo err >&2; read -r x < <(sleep 600)\n")
    s.submit("echo queued\n")
    s.wait_run(1, "running")
    os.mkdir(s / "jobs/new")
    os.mkdir(s / "jobs/going")
    write(s / "jobs/going/config", "argv = sleep 600\nenv.A = b\ncwd = /tmp\n")
    write(s / "jobs/going/ctl", "start\n")
    os.mkdir(s / "runs/mine")
    wait_for(lambda: s.word("jobs/going/state") == "running")
    check_all()
    s.ctl("kill")
    s.wait_run(2, "done")
    write(s / "runs/mine/in", "exit 3\n")
    same("a named run", read(s / "runs/mine/exit_code"), b"3\n")
    write(s / "config", "timeout_s = 1\n")
    s.run("while :; do :; done\n")
    write(s / "jobs/going/ctl", "kill\n")
    read(s / "jobs/going/exit_code")
    os.mkdir(s / "jobs/done")
    write(s / "jobs/done/in", "echo x\n")
    read(s / "jobs/done/exit_code")
    check_all()
    s.submit("sleep 600\n")
    s.submit("echo never\n")
    s.wait_run(5, "running")
    s.ctl("close")
    s.wait_state("closed")
    check_all()


def lost():
    s = Session("lost", config="timeout_s = 600\n")
    s.submit("read -r x < <(sleep 600)\n")
    s.wait_run(1, "running")
    os.kill(s.pid(), signal.SIGKILL)
    s.wait_run(1, "lost", 20)
    check_all()


def saved():
    s = Session("saved")
    s.run("echo one > a\n")
    os.mkdir(s / "checkpoints/one")
    same("a checkpoint", read(s / "checkpoints/one/wait"), b"whole\n")
    copy = Session("copy", config="from = saved@one\n")
    check_all()
    same("the copy runs", copy.run("cat a\n").out, "one\n")
    s.ctl("sleep")
    s.wait_state("asleep", 20)
    check_all()
    same("it wakes", s.run("cat a\n").out, "one\n")
    s.ctl("pause")
    s.wait_state("paused")
    check_all()
    s.ctl("resume")
    with raises("a setting that there is not", errno.EINVAL):
        write(s / "config", "no_such_setting = 1\n")
    check_all()
    s.remove()
    check_all()


def all_of_it():
    """What was looked at, so that this test is about something."""
    want = {"mount": {None}, "template": {None}, "session": {"new", "running", "idle", "closed", "asleep", "paused"},
            "run": {"queued", "running", "done", "timeout", "killed", "lost", "refused"},
            "job": {"new", "running", "done", "killed"}, "checkpoint": {"whole"}}
    for name, states in want.items():
        ok(f"{name}: states that were seen", states <= set(seen.get(name, {})), (states, set(seen.get(name, {}))))


def control():
    """The schema finds what is wrong with one."""
    for name, states in seen.items():
        for value in states.values():
            finds_mistakes(name, value)
    value = json.loads(json.dumps(seen["session"]["idle"]))
    value["settings"]["surprise"] = value["latest"]["stdout"]["surprise"] = 1
    same("also deep inside", len(wrong("session", value)), 2)
    ok("a state that there is not", wrong("run", seen["run"]["done"] | {"state": "finished"}))


main(schema, beginning, settings, running, lost, saved, all_of_it, control)
