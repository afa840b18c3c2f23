# SPDX-License-Identifier: Apache-2.0
"""
A sandbox backend for LangChain's deep agents, who get the tools execute, ls, read_file, write_file, edit_file, glob and grep:

    create_deep_agent(model, backend=XsbxSandbox("/sbx/shell"))

Its session is removed with the object, or by delete(). xsbx.py has to be beside this file.
"""
from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox

import xsbx

ERRORS = {"No such file or directory": "file_not_found", "Not a directory": "file_not_found",
          "Permission denied": "permission_denied", "Is a directory": "is_directory"}
UPLOAD = 'mkdir -p -- "$(dirname -- "$1")" && cat >"$1"'


def error_of(done):
    text = done.stderr.decode(errors="replace")
    return next((code for words, code in ERRORS.items() if words in text), text.strip() or "invalid_path")


def response(done, seconds):
    text = done.output.decode(errors="replace")
    if done.state != "done":
        text += f"\n{done.state}: it was ended" + (f" after {seconds} s" if done.state == "timeout" else "")
    return ExecuteResponse(output=text, exit_code=done.code, truncated=done.status["truncated"])


class XsbxSandbox(BaseSandbox):
    def __init__(self, template="/sbx/shell", config="", timeout_s=120):
        """@config: lines for the session's `config`, see xsbxfs.conf(5); @timeout_s: of a command, unless it has one"""
        self.session = xsbx.Session(template, config)
        self.timeout_s = timeout_s

    @property
    def id(self):
        return str(self.session.path)

    def delete(self):
        self.session.remove()

    def start(self, command, timeout):
        seconds = self.timeout_s if timeout is None else timeout
        return self.session.job(["bash", "-c", command], timeout_s=seconds), seconds

    def execute(self, command, *, timeout=None):
        try:
            program, seconds = self.start(command, timeout)
            return response(program.follow(wanted=["output"]), seconds)
        except xsbx.Failed as failed:
            return ExecuteResponse(output=str(failed))

    async def aexecute(self, command, *, timeout=None):
        """Cancelled, it stops the command."""
        try:
            program, seconds = self.start(command, timeout)
            return response(await program.wait(wanted=["output"]), seconds)
        except xsbx.Failed as failed:
            return ExecuteResponse(output=str(failed))

    # With the rights of the sandbox's user, and anywhere in the sandbox: files/ is its working directory only.

    def upload(self, path, content):
        if not path.startswith("/"):
            return FileUploadResponse(path=path, error="invalid_path")
        try:
            done = self.session.job(["sh", "-c", UPLOAD, "sh", path], content, env={"LC_ALL": "C"}, timeout_s=0).follow()
        except xsbx.Failed as failed:
            return FileUploadResponse(path=path, error=str(failed))
        return FileUploadResponse(path=path, error=error_of(done) if done.code else None)

    def download(self, path):
        if not path.startswith("/"):
            return FileDownloadResponse(path=path, error="invalid_path")
        try:
            done = self.session.job(["cat", "--", path], env={"LC_ALL": "C"}, timeout_s=0).follow()
        except xsbx.Failed as failed:
            return FileDownloadResponse(path=path, error=str(failed))
        if done.code or done.status["truncated"]:
            return FileDownloadResponse(path=path, error=error_of(done) if done.code else "larger than output_limit")
        return FileDownloadResponse(path=path, content=done.stdout)

    def upload_files(self, files):
        return [self.upload(path, content) for path, content in files]

    def download_files(self, paths):
        return [self.download(path) for path in paths]
