#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""status.html in a browser: nothing that sandboxes print is executed, it is what it should be light, dark, on a phone, on paper and
without scripts, and it refreshes itself. With PICTURES=DIR in the environment it leaves pictures there, those of README.md too."""
# night: local
# timeout: 240
import contextlib

from browser import *
from xsbx import *

if not program():
    skip("there is no chromium (scripts/deps --suites installs it)")

PICTURES = os.environ.get("PICTURES")
ROOT = f"file://{MNT}"
EVIL = ["<script>document.title = 'owned'; alert(1)</script>", "\"'><img src=x onerror=\"document.title = 'owned'; alert(2)\">",
        "</pre></details></svg></title></style><svg onload=\"document.title = 'owned'; alert(3)\"></svg>",
        "<iframe srcdoc=\"<script>top.document.title = 'owned'; alert(4)</script>\"></iframe>",
        "<a href=\"javascript:document.title = 'owned'\">x</a><meta http-equiv=refresh content='0;url=about:blank'>",
        "<style>body { display: none }</style><base href=//evil.invalid/><link rel=stylesheet href=http://evil.invalid/x.css>"]
browser = None


def fill():
    """What there is to be seen."""
    report, calc = Session("report", "python"), Session("calc", "python")
    for code in ("import csv, time; time.sleep(0.6); print('12 hours by 2 people')", "print(sum(range(10)))", "x = 1; print(x / 0)"):
        report.run(code + "\n")
    for code in ("import statistics, time; time.sleep(0.9); print(statistics.mean([3, 1, 4, 1, 5]))", "print('one')",
                 "import sys; sys.exit(3)"):
        calc.run(code + "\n")
    build, work = Session("build", "shell"), Session("work", "shell")
    build.run("for i in 1 2 3; do echo step $i; sleep 0.4; done\n")
    write(build / "config", "timeout_s = 1\n")
    build.run("while :; do :; done\n")
    build.run("make test || exit 3\n")
    os.mkdir(work / "jobs/lint")
    write(work / "jobs/lint/in", "sleep 0.7; echo 2 warnings; exit 1\n")
    os.mkdir(work / "jobs/test")
    write(work / "jobs/test/in", "echo all passed\n")
    work.run("echo data > files.txt\n")
    read(work / "jobs/lint/exit_code")
    read(work / "jobs/test/exit_code")
    os.mkdir(work / "checkpoints/before")
    read(work / "checkpoints/before/wait")
    with raises("a setting that there is not", errno.EINVAL):
        write(work / "config", "memory = 4G\n")
    write(report / "config", "timeout_s = 600\n")
    report.submit("import time\nfor i in range(1000):\n    print('step', i, flush=True)\n    time.sleep(1)\n")
    report.wait_run(4, "running")
    Session("new", "shell")


def quiet(what):
    """Nothing was executed, loaded or forbidden."""
    same(f"{what}: its title", browser.value("document.title"), "shell/evil")
    same(f"{what}: nothing was said", browser.said, [])
    same(f"{what}: nothing was asked for", [u for u in browser.asked if u != f"{ROOT}/shell/evil/status.html"], [])


def hostile():
    s = Session("evil", "shell")
    for evil in EVIL:
        quoted = evil.replace("'", "'\\''")
        s.run(f"echo '{quoted}'; echo '{quoted}' >&2\n")
    browser.look(1280, 900, "light")
    browser.goto(f"{ROOT}/shell/evil/status.html")
    browser.value("document.querySelectorAll('details').forEach(d => d.open = true)")
    time.sleep(1)
    quiet("a page of hostile outputs")
    ok("they are shown", browser.value("document.body.innerText").count("document.title = 'owned'") >= 10)
    same("elements of theirs", browser.value("document.querySelectorAll('iframe, img, base, link, a[href^=javascript]').length"), 0)


def execute(what, data):
    """Shows a page; return: its title, and what it has said."""
    path = f"{SCRATCH}/{what}.html"
    write(path, data)
    browser.said.clear()
    browser.goto(f"file://{path}")
    time.sleep(1)
    title, said = browser.value("document.title"), list(browser.said)
    browser.said.clear()
    browser.asked.clear()
    return title, said


def control():
    """The same without escaping is executed; and where only that has failed, the page's policy is still in the way."""
    evil = "".join(EVIL[:3]).encode()
    title, said = execute("bare", b"<!doctype html><title>x</title><p>" + evil)
    same("what is not escaped is executed", title, "owned")
    same("all three of it", sorted(said), ["dialog: 1", "dialog: 2", "dialog: 3"] + [x for x in said if "ERR_" in x])
    data = read(f"{MNT}/shell/evil/status.html")
    title, said = execute("policy", data.replace(b"<h2>Runs", evil + b"<h2>Runs", 1))
    same("... and not below the policy", title, "shell/evil")
    ok("which says so", len([x for x in said if "Content Security Policy" in x]) >= 3 and "dialog" not in str(said), said)


def looks():
    """Light, dark, narrow, on paper, without scripts."""
    pages = {"mount": f"{ROOT}/status.html", "session": f"{ROOT}/python/report/status.html", "job": f"{ROOT}/shell/work/status.html"}
    ground = {}
    browser.asked.clear()
    for name, url in pages.items():
        for width, scheme, script in ((1280, "light", True), (1280, "dark", True), (320, "light", True), (320, "dark", False)):
            browser.look(width, 900, scheme, script)
            browser.goto(url)
            what = f"{name}, {width}, {scheme}{'' if script else ', no script'}"
            same(f"{what}: no wider than the window", browser.all_of_it()["width"], width)
            if script:
                ground[scheme] = browser.value("getComputedStyle(document.body).backgroundColor")
                ok(f"{what}: a time line", browser.value("document.querySelectorAll('svg .bar').length") > 0)
                ok(f"{what}: bars have words", browser.value(
                    "[...document.querySelectorAll('svg .bar')].every(b => b.querySelector('title').textContent.length > 5)"))
            if PICTURES:
                browser.picture(f"{PICTURES}/{name}-{width}-{scheme}.png")
    ok("light and dark differ", ground["light"] != ground["dark"], ground)
    browser.look(1280, 900, "light")
    browser.call("Emulation.setEmulatedMedia", media="print")
    browser.goto(pages["mount"])
    same("on paper: no button", browser.value("getComputedStyle(document.querySelector('button')).display"), "none")
    same("nothing was said", browser.said, [])
    same("nothing was loaded", sorted(set(browser.asked) - set(pages.values())), [])


def refined():
    """What the script does."""
    browser.look(1280, 500, "light")
    browser.goto(f"{ROOT}/python/report/status.html")
    ok("the newest run is open, and no other", browser.value("[...document.querySelectorAll('details[id^=run]')].map(d => d.open)")
       == [True, False, False, False])
    browser.value("document.querySelector('#run-3 summary').click(); document.querySelector('#run-4 summary').click()")
    browser.value("scrollTo(0, 200)")
    before = browser.value("document.querySelector('header time').textContent")
    browser.wait("Page.loadEventFired", 2)
    ok("it is loaded anew", wait_for(lambda: browser.value("document.querySelector('header time').textContent") != before))
    same("what was opened and closed is so", browser.value("[...document.querySelectorAll('details[id^=run]')].map(d => d.open)"),
         [False, True, False, False])
    same("it stands where it stood", browser.value("scrollY"), 200)
    browser.value("document.querySelector('svg .bar').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    ok("a bar that is touched says what it is", browser.value("document.getElementById('tip').textContent").startswith("run "))
    ok("times are told as they are here", browser.value("document.querySelector('time').title.length") > 8)
    browser.value("document.querySelector('header button').click()")
    same("it can be held", browser.value("document.querySelector('header button').textContent"), "Go on")
    loads = browser.events.count("Page.loadEventFired")
    time.sleep(4)
    browser.value("1")
    same("... and is not loaded then", browser.events.count("Page.loadEventFired"), loads)
    browser.goto(f"{ROOT}/status.html")
    browser.value("document.querySelector('td a').click()")
    browser.wait("Page.loadEventFired", 2)
    has("a session's link", browser.value("location.href"), "/status.html")
    same("nothing was said", browser.said, [])


def anew():
    """Without scripts it is loaded again by itself as well."""
    browser.look(1280, 900, "light", script=False)
    browser.goto(f"{ROOT}/python/report/status.html")
    browser.wait("Page.loadEventFired", 2)


def picture():
    """The one of README.md."""
    if not PICTURES:
        return
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(f"{MNT}/shell/evil")
    browser.look(1200, 880, "light")
    browser.goto(f"{ROOT}/status.html")
    browser.picture(f"{PICTURES}/status.png", whole=False)


def close():
    browser.close()


browser = Browser(f"{SCRATCH}/browser", SOON)
main(fill, hostile, control, looks, refined, anew, picture, close)
