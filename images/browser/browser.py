#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Drives Chromium without a window, from Python or as a command.

    screenshot PAGE OUT.png [WIDTHxHEIGHT]      PAGE is a file, or an address

    from browser import Browser
    with Browser(width=800, height=600) as b:
        b.open("page.html")
        print(b.eval("document.title"))
        b.screenshot("page.png")

It speaks the Chrome DevTools Protocol over a pipe: Browser.send() is any of its commands,
https://chromedevtools.github.io/devtools-protocol/.
"""
import base64
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# A machine has one use, and is the sandbox: Chromium's own takes user namespaces, of which it has none. Nor has it a
# graphics card, a message bus, or anything to report to.
OPTIONS = ["--headless", "--no-sandbox", "--no-zygote", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions",
           "--disable-background-networking", "--disable-component-update", "--disable-breakpad", "--no-first-run",
           "--hide-scrollbars", "--mute-audio", "--remote-debugging-pipe", "--log-level=3",
           "--disable-features=Translate,MediaRouter,OptimizationHints"]
PROGRAMS = "chromium-headless-shell", "chromium"


class BrowserError(Exception):
    pass


class Browser:
    def __init__(self, width=1024, height=768, timeout=120):
        """`timeout`: seconds that any one command may take."""
        self.width, self.height, self.timeout = width, height, timeout
        self.number, self.rest, self.events, self.session = 0, b"", [], None
        self.dir = tempfile.mkdtemp(prefix="browser-", dir="/tmp")
        program = next(filter(None, map(shutil.which, PROGRAMS)), None)
        if not program:
            raise BrowserError("there is no Chromium in this image")
        commands, self.out = os.pipe()
        self.into, answers = os.pipe()
        # It reads commands from 3 and writes answers to 4, whatever these are here.
        start = f'exec 9<&{commands} 8>&{answers}; exec "$@" 3<&9 4>&8 9<&- 8>&-'
        with open(f"{self.dir}/log", "wb") as log:
            self.process = subprocess.Popen(
                ["bash", "-c", start, "bash", program, *OPTIONS, f"--user-data-dir={self.dir}",
                 f"--window-size={width},{height}", "about:blank"],
                pass_fds=(commands, answers), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, env={**os.environ, "HOME": self.dir, "XDG_CACHE_HOME": f"{self.dir}/cache"})
        os.close(commands)
        os.close(answers)
        targets = self.send("Target.getTargets")["targetInfos"]
        page = next((t["targetId"] for t in targets if t["type"] == "page"), None) or \
            self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        self.send("Page.enable")
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends it, and removes what it has written."""
        os.close(self.out)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # it, and all of its that is left
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.into)
        shutil.rmtree(self.dir, ignore_errors=True)

    def _message(self, end):
        while b"\0" not in self.rest:
            if not select.select([self.into], [], [], max(0, end - time.monotonic()))[0]:
                raise BrowserError(f"Chromium did not answer within {self.timeout} s")
            data = os.read(self.into, 1 << 20)
            if not data:
                with open(f"{self.dir}/log", errors="replace") as log:
                    raise BrowserError("Chromium has ended: " + log.read()[-500:].strip())
            self.rest += data
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def send(self, method, **params):
        """A command of the protocol; returns its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        try:
            os.write(self.out, json.dumps(message).encode() + b"\0")
        except BrokenPipeError:
            pass  # _message() tells why
        end = time.monotonic() + self.timeout
        while True:
            found = self._message(end)
            if found.get("id") == self.number:
                if "error" in found:
                    raise BrowserError(f"{method}: {found['error'].get('message')}")
                return found.get("result", {})
            if "method" in found:
                self.events.append(found)

    def wait(self, event):
        """Until the browser has told of an event, such as Page.loadEventFired; returns its parameters."""
        end = time.monotonic() + self.timeout
        while True:
            for n, found in enumerate(self.events):
                if found["method"] == event:
                    del self.events[:n + 1]
                    return found.get("params", {})
            found = self._message(end)
            if "method" in found:
                self.events.append(found)

    def open(self, page):
        """A page, loaded: an address, or a file."""
        if "://" not in page and not page.startswith(("data:", "about:")):
            if not os.path.exists(page):
                raise BrowserError(f"there is no file {page}")
            page = "file://" + os.path.abspath(page)
        self.events.clear()
        error = self.send("Page.navigate", url=page).get("errorText")
        if error:
            raise BrowserError(f"{page}: {error}")
        self.wait("Page.loadEventFired")

    def eval(self, code):
        """The value of a JavaScript expression on the page; of a promise, what it becomes."""
        found = self.send("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            what = found["exceptionDetails"]
            raise BrowserError(what.get("exception", {}).get("description") or what.get("text"))
        return found["result"].get("value")

    def screenshot(self, path, full=False):
        """What is seen of the page, or with `full` all of it, as PNG."""
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=full)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: screenshot PAGE OUT.png [WIDTHxHEIGHT]")
    try:
        width, height = map(int, (sys.argv[3] if len(sys.argv) == 4 else "1024x768").split("x"))
    except ValueError:
        sys.exit(f"screenshot: \"{sys.argv[3]}\" is no size; write WIDTHxHEIGHT, such as 800x600")
    try:
        with Browser(width, height) as b:
            b.open(sys.argv[1])
            b.screenshot(sys.argv[2])
    except (BrowserError, OSError) as e:
        sys.exit(f"screenshot: {e}")


if __name__ == "__main__":
    main()
