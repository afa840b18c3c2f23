#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""status.html: what sandboxes print is text in it, whatever it is; each user has his own; reading it wakes nobody."""
# night: vm
# backends: local vm
# option: allow_other
import html.parser
import re

from xsbx import *

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
TAGS = set("""html head meta title style body header h1 h2 h3 h4 small div span ul li b p svg rect path code pre table thead tbody
              tr th td a bdi time details summary dl dt dd footer script noscript""".split())
EVIL = [b"</pre></details></title></style></svg></script><script>alert(1)</script>",
        b"\"'><img src=x onerror=alert(2)><svg onload=alert(3)>", b"<!--", b"]]>", b"&lt;b&gt;&#60;i&#62;", b"\x1b[31m\x07\x00\x9b",
        b"\xff\xfe\xc0\xbc\xe2\x80", "\u202etxt.exe\u2066\u200b\ufeff".encode(), b"\xe2<b>", b"<base href=//evil><meta http-equiv=x>"]


class Page(html.parser.HTMLParser):
    """What a browser would make of a page, by another's hand."""

    def __init__(self, data):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.links, self.text, self.left = [], set(), set(), "", []
        self.feed(data.decode())  # it is UTF-8, or this fails
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links |= {value for name, value in attrs if name in ("href", "src", "xlink:href")}
        if tag not in ("meta", "rect", "path"):
            self.left.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if self.left and self.left[-1] == tag:
            self.left.pop()

    def handle_endtag(self, tag):
        if self.left and self.left[-1] == tag:
            self.left.pop()
        elif tag not in ("rect", "path"):
            self.left.append("/" + tag)

    def handle_data(self, data):
        self.text += data

    def handle_comment(self, data):
        self.tags.append("!--" + data)


def check(what, data):
    """A page in which nothing is markup of others."""
    page = Page(data)
    same(f"{what}: no other elements", sorted(set(page.tags) - TAGS), [])
    same(f"{what}: every element ends", page.left, [])
    same(f"{what}: one style, one script", (page.tags.count("style"), page.tags.count("script")), (1, 1))
    same(f"{what}: no handlers, no styles", [a for a in page.attributes if a.startswith("on") or a in ("style", "src")], [])
    same(f"{what}: links lead nowhere else", [u for u in page.links if not re.match(r"\.\.?/[\w./-]*$", u)], [])
    same(f"{what}: nothing that is not seen", re.findall("[\0-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069\ufeff]", page.text),
         [])
    return page.text


def hostile():
    s = Session("hostile")
    for i, evil in enumerate(EVIL):
        code = "printf '" + "".join(f"\\x{c:02x}" for c in evil) + "'"
        s.run(f"{code}; {code} >&2; exit {i}\n")
    os.mkdir(s / "jobs/evil")
    write(s / "jobs/evil/in", "echo '<b>'; # </summary><script>\n")
    read(s / "jobs/evil/exit_code")
    with raises("a setting that there is not", errno.EINVAL):
        write(s / "config", b"<script>alert(1)</script>\x1b = 1\n")
    text = check("a session", read(s / "status.html"))
    for words in (EVIL[0].decode(), EVIL[1].decode(), "<!--", "&lt;b&gt;&#60;i&#62;", "\u241b[31m\u2407\u2400\ufffd",
                  "\ufffd\ufffd\ufffd\ufffd\ufffd", "[U+202E]txt.exe[U+2066]", "\ufffd<b>", "<base href=//evil>",
                  "# </summary><script>"):
        has("it is shown as it is", text, words)
    has("what went wrong", text, "<script>alert(1)</scri")
    has("what to do", text, "What to do:")
    text = check("the mount", read(f"{MNT}/status.html"))
    has("its session", text, "raw/hostile")


def control():
    """One that does not escape is found out."""
    data = read(f"{MNT}/raw/hostile/status.html")
    ok("what escapes is what is looked for", b"&lt;script&gt;alert(1)" in data)
    worse = Page(b"<p>" + b"".join(EVIL[i] for i in (1, 9, 0)))
    same("elements of others", sorted(set(worse.tags) - TAGS), ["base", "img"])
    ok("handlers", [a for a in worse.attributes if a.startswith("on")], worse.attributes)


def whose():
    if os.getuid():
        skip("needs root, to be two users")
    page = f"{MNT}/status.html"
    as_user(ALICE, lambda: os.mkdir(f"{MNT}/raw/alice"))
    as_user(ALICE, lambda: write(f"{MNT}/raw/alice/in", "echo ALICES-OUTPUT; : ALICES-CODE; exit 9\n"))
    as_user(ALICE, lambda: read(f"{MNT}/raw/alice/exit_code"))
    info = as_user(ALICE, lambda: (os.stat(page).st_uid, os.stat(page).st_mode & 0o777))
    same("hers is hers", info, (ALICE, 0o400))
    same("and mine mine", (os.stat(page).st_uid, os.stat(page).st_mode & 0o777), (0, 0o400))
    text = as_user(ALICE, lambda: read(page)).decode()
    has("her session", text, "./raw/alice/status.html")
    has("her code", text, "ALICES-CODE")
    ok("not those of others", "raw/hostile" not in text, text[-3000:])
    text = as_user(BOB, lambda: read(page)).decode()
    ok("bob sees nothing of both", "raw/" not in re.sub(r'<a href="./raw/?"', "", text) and "ALICES" not in text, text[-3000:])
    has("but how many there are", text, " of other users")
    text = read(page, "r")
    has("who mounted sees who is there", text, "raw/alice</bdi> <small class=\"soft\">of user 12001")
    has("and how it went, as in events", text, "exit 9")
    ok("and nothing else", "ALICES" not in text)
    ok("a session's is its owner's", as_user(BOB, lambda: read(f"{MNT}/raw/alice/status.html")) == "EACCES")
    # A descriptor that is handed on shows what its opener may see, to whoever has it; and nothing is mixed up.
    fd = os.open(page, os.O_RDONLY)
    theirs = as_user(BOB, lambda: (os.fstat(fd).st_uid, os.pread(fd, 1 << 20, 0)))
    os.close(fd)
    same("it is one file", (theirs[0], b"raw/alice" in theirs[1]), (0, True))


def exact():
    """Its size is that of what is read, and it is there where only the session is seen."""
    for path in (f"{MNT}/status.html", f"{MNT}/raw/hostile/status.html"):
        with open(path, "rb") as file:
            same("size", os.fstat(file.fileno()).st_size, len(file.read()))
    same("cp", shell(f"cp {MNT}/raw/hostile/status.html {SCRATCH}/copy && tail -n 1 {SCRATCH}/copy")[:2], (0, b"</html>\n"))
    with raises("it can't be written", errno.EACCES, errno.EPERM):
        os.open(f"{MNT}/raw/hostile/status.html", os.O_WRONLY)


def asleep():
    """It neither wakes a session, nor counts as use."""
    s = Session("asleep")
    s.run("echo x\n")
    s.ctl("sleep")
    s.wait_state("asleep", 20)
    for _ in range(3):
        has("it is asleep", s.text("status.html"), ">asleep</span>")
        read(f"{MNT}/status.html")
    same("and stays so", s.word(), "asleep")
    tired = Session("tired", config="idle_timeout_s = 2\nidle = close\n")
    tired.run("echo x\n")

    def closed():
        read(tired / "status.html")
        read(f"{MNT}/status.html")
        return tired.word() == "closed"

    ok("one that is looked at all the time is idle", wait_for(closed, 20), tired.word())


def colours():
    """Text is to be read, light and dark: at least 4.5 to 1, WCAG 2 level AA, also of a state on its tint."""
    css = read(f"{ROOT}/fs/tree/page/status.css", "r")

    def parts(colour):
        digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
        return [int(digits[i:i + 2], 16) / 255 for i in (0, 2, 4)]

    def light(rgb):
        r, g, b = (c / 12.92 if c <= .03928 else ((c + .055) / 1.055) ** 2.4 for c in rgb)
        return .2126 * r + .7152 * g + .0722 * b

    def ratio(a, b):
        low, high = sorted((light(a), light(b)))
        return (high + .05) / (low + .05)

    themes = re.findall(r":root \{(.*?)\}", css, re.S)
    same("light and dark", len(themes), 2)
    for theme in themes:
        of = {k: parts(v) for k, v in re.findall(r"--(\w+): (#\w+)", theme)}
        tint = int(re.search(r"--tint: (\d+)%", theme)[1]) / 100
        for name in ("text", "soft", "link", "done", "exit", "stop", "bad", "live", "rest"):
            for ground in ("bg", "card"):
                mixed = [a * tint + b * (1 - tint) for a, b in zip(of[name], of[ground])]
                ok(f"{name} on {ground}", ratio(of[name], of[ground]) >= 4.5, ratio(of[name], of[ground]))
                ok(f"{name} on its tint on {ground}", ratio(of[name], mixed) >= 4.5, ratio(of[name], mixed))
    ok("control: what is pale is found", ratio(parts("#999"), parts("#fff")) < 4.5)


main(hostile, control, whose, exact, asleep, colours)
