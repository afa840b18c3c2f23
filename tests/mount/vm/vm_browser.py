#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The template `browser`: a picture of a page, as a file; of another page it is another picture. And Chromium driven from
Python, which runs the page's scripts."""
# backends: vm
# night: vm
# timeout: 1800
# conf: prepare = no
# conf: [template browser]
import struct
import zlib

from xsbx import *

vm_only()

PAGE = """<!doctype html><title>Two halves</title><style>body { margin: 0 } div { float: left; width: 50%%; height: 100vh }</style>
<div style="background: #%s"></div><div style="background: #%s"></div>"""


def picture(data):
    """Width, height, and a function for the colour of a dot, of a PNG with 8 bits a channel and no interlacing."""
    same("a PNG", data[:8], b"\x89PNG\r\n\x1a\n")
    at, body = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            width, height, bits, colours, *_ , laced = struct.unpack(">IIBBBBB", data[at + 8:at + 21])
            assert bits == 8 and colours in (2, 6) and not laced, (bits, colours, laced)
            step = 3 if colours == 2 else 4
        elif kind == b"IDAT":
            body += data[at + 8:at + 8 + size]
        at += size + 12
    raw, rows, before = zlib.decompress(body), [], bytes(width * step)
    for y in range(height):
        filtered = raw[y * (width * step + 1)]
        row = bytearray(raw[y * (width * step + 1) + 1:(y + 1) * (width * step + 1)])
        for i in range(len(row)):
            a = row[i - step] if i >= step else 0
            b, c = before[i], before[i - step] if i >= step else 0
            if filtered == 4:
                p = a + b - c
                near = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            row[i] = (row[i] + (0, a, b, (a + b) // 2, near if filtered == 4 else 0)[filtered]) & 255
        rows.append(bytes(row))
        before = row
    return width, height, lambda x, y: rows[y][x * step:x * step + 3]


def image():
    return [t for t in json.loads(read(f"{MNT}/status.json"))["templates"] if t["name"] == "browser"][0]["image"]


def ready():
    s = Session("ready", "browser")
    s.submit("screenshot 2>&1; echo $?\n")
    while image()["state"] in ("building", "waiting", "missing"):
        time.sleep(2)
    has("its image is there", s.text("stdout"), "usage: screenshot PAGE")
    s.remove()


def shoots():
    s = Session("shot", "browser", config="timeout_s = 600\n")
    shots = []
    for name, left, right in ("one", "ff0000", "0000ff"), ("two", "00ff00", "0000ff"):
        write(s / f"files/{name}.html", PAGE % (left, right))
        began = time.monotonic()
        result = s.run(f"screenshot {name}.html {name}.png 400x300\n")
        same(f"{name}: it says nothing", (result.code, result.out, result.err), (0, "", ""))
        print(f"{name}: {time.monotonic() - began:.1f} s")
        shots.append(read(s / f"files/{name}.png"))
        width, height, dot = picture(shots[-1])
        same(f"{name}: size", (width, height), (400, 300))
        same(f"{name}: left", dot(100, 150).hex(), left)
        same(f"{name}: right", dot(300, 150).hex(), right)
        same(f"{name}: the middle", (dot(199, 0).hex(), dot(200, 299).hex()), (left, right))
    ok("another page is another picture", shots[0] != shots[1])
    same("nothing else is left in files/", sorted(os.listdir(s / "files")), ["one.html", "one.png", "two.html", "two.png"])
    same("nor a process", s.run("pgrep -c chrom\n").out, "0\n")
    result = s.run("screenshot none.html x.png\n")
    same("a page that is not there", (result.code, result.err), (1, "screenshot: there is no file none.html\n"))
    s.remove()


def driven():
    s = Session("driven", "browser", config="timeout_s = 600\n")
    write(s / "files/page.html", "<title>Sum</title><input id=a value=40><button onclick='a.value = +a.value + 2'>+</button>")
    write(s / "files/drive.py", """from browser import Browser, BrowserError
with Browser(300, 200) as b:
    b.open("page.html")
    print(b.eval("document.title"))
    b.eval("document.querySelector('button').click()")
    print(b.eval("a.value"), b.eval("new Promise(r => setTimeout(() => r(7), 10))"))
    try:
        b.eval("nothing.at.all")
    except BrowserError as e:
        print(str(e).splitlines()[0])
    try:
        b.open("http://example.com/")
    except BrowserError as e:
        print(str(e))
""")
    result = s.run("python3 drive.py\n")
    lines = result.out.splitlines()
    same("what it found", lines[:3], ["Sum", "42 7", "ReferenceError: nothing is not defined"]) or print(result.err)
    has("no way out", lines[3] if len(lines) > 3 else "", "net::ERR_")
    s.remove()


main(ready, shoots, driven)
