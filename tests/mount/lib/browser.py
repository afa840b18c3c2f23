# SPDX-License-Identifier: Apache-2.0
"""A browser without a window, over the Chrome DevTools Protocol on a pair of pipes: no port, no server, no driver."""

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def program():
    """The path of one that is installed, or None."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """@folder: that it makes, for all it writes; @seconds: how long an answer may take. What a page says (console, exceptions, violations of its policy, dialogs) is in `said`; what it asks the network for, in
    `asked`."""

    def __init__(self, folder, seconds):
        self.seconds, self.last, self.said, self.asked, self.events, self.left = seconds, 0, [], [], [], b""
        theirs_r, self.to = os.pipe()
        self.fd, theirs_w = os.pipe()

        def connect():
            a, b = os.dup(theirs_r), os.dup(theirs_w)
            os.dup2(a, 3)
            os.dup2(b, 4)

        root = ["--no-sandbox"] if os.getuid() == 0 else []
        os.makedirs(folder, 0o700)
        home = {name: folder for name in ("HOME", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
        self.process = subprocess.Popen(
            [program(), "--headless=new", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", *root,
             f"--user-data-dir={folder}/profile", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=connect, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True, env=os.environ | home)
        os.close(theirs_r)
        os.close(theirs_w)
        target = self.call("Target.getTargets", None)["targetInfos"]
        page = next(t["targetId"] for t in target if t["type"] == "page")
        self.session = None
        self.session = self.call("Target.attachToTarget", None, targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        """With all its processes, which go when it does."""
        self.send("Browser.close", None)
        try:
            self.process.wait(self.seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.to)
        os.close(self.fd)

    def message(self, end):
        """The next one, or None when it is @end."""
        while b"\0" not in self.left:
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                return None
            piece = os.read(self.fd, 1 << 20)
            if not piece:
                raise RuntimeError("the browser has ended")
            self.left += piece
        text, _, self.left = self.left.partition(b"\0")
        return json.loads(text)

    def take(self, event):
        method, params = event["method"], event.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.said.append("console: " + str([a.get("value") for a in params["args"]]))
        elif method == "Runtime.exceptionThrown":
            self.said.append("exception: " + params["exceptionDetails"].get("text", ""))
        elif method == "Log.entryAdded":
            self.said.append(f"{params['entry']['level']}: {params['entry']['text']}")
        elif method == "Page.javascriptDialogOpening":
            self.said.append("dialog: " + params["message"])
            self.send("Page.handleJavaScriptDialog", self.session, accept=True)
        elif method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])
        self.events.append(method)

    def send(self, method, session, **params):
        self.last += 1
        text = {"id": self.last, "method": method, "params": params}
        if session:
            text["sessionId"] = session
        os.write(self.to, json.dumps(text).encode() + b"\0")
        return self.last

    def call(self, method, session="", **params):
        number = self.send(method, self.session if session == "" else session, **params)
        end = time.monotonic() + self.seconds
        while True:
            message = self.message(end)
            if message is None:
                raise RuntimeError(f"no answer to {method}")
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            if "method" in message:
                self.take(message)

    def wait(self, event, count=1):
        """Until it has come so often since the last goto()."""
        end = time.monotonic() + self.seconds
        while self.events.count(event) < count:
            message = self.message(end)
            if message is None:
                raise RuntimeError(f"no {event}")
            if "method" in message:
                self.take(message)

    def goto(self, url):
        self.events.clear()
        problem = self.call("Page.navigate", url=url).get("errorText")
        if problem:
            raise RuntimeError(f"{url}: {problem}")
        self.wait("Page.loadEventFired")

    def value(self, expression):
        """What an expression is, in the page."""
        got = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in got:
            raise RuntimeError(got["exceptionDetails"]["text"])
        return got["result"].get("value")

    def look(self, width, height, scheme, script=True):
        """How wide and high it is, light or dark, with or without scripts."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Emulation.setScriptExecutionDisabled", value=not script)

    def picture(self, path, whole=True):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole,
                         **({"clip": self.all_of_it()} if whole else {}))
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def all_of_it(self):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
