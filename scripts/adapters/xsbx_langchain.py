# SPDX-License-Identifier: Apache-2.0
"""A sandbox backend for LangChain's deep agents."""
from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox

import xsbx

ERRORS = {"No such file or directory": "file_not_found", "Not a directory": "file_not_found",
          "Permission denied": "permission_denied", "Is a directory": "is_directory"}


def error_of(stderr):
    text = stderr.decode(errors="replace")
    return next((code for words, code in ERRORS.items() if words in text), "invalid_path")


class XsbxSandbox(BaseSandbox):
    def __init__(self, template="/sbx/shell", config="", timeout_s=120):
        self.session = xsbx.Session(template, config)
        self.timeout_s = timeout_s

    @property
    def id(self):
        return self.session.path

    def delete(self):
        self.session.remove()

    def execute(self, command, *, timeout=None):
        seconds = self.timeout_s if timeout is None else timeout
        try:
            output, code, _state = self.session.run(["bash", "-c", command], timeout_s=seconds, outputs=["output"])
        except xsbx.Refused as refused:
            return ExecuteResponse(output=str(refused))
        return ExecuteResponse(output=output.decode(errors="replace"), exit_code=code)

    # With the rights of the sandbox's user, and anywhere in the sandbox: files/ is its working directory only.

    def upload(self, path, content):
        if not path.startswith("/"):
            return FileUploadResponse(path=path, error="invalid_path")
        script = 'mkdir -p -- "$(dirname -- "$1")" && cat >"$1"'
        _out, err, code, _state = self.session.run(["sh", "-c", script, "sh", path], stdin=content, env={"LC_ALL": "C"})
        return FileUploadResponse(path=path, error=error_of(err) if code else None)

    def download(self, path):
        if not path.startswith("/"):
            return FileDownloadResponse(path=path, error="invalid_path")
        out, err, code, _state = self.session.run(["cat", "--", path], env={"LC_ALL": "C"})
        if code:
            return FileDownloadResponse(path=path, error=error_of(err))
        return FileDownloadResponse(path=path, content=out)

    def upload_files(self, files):
        return [self.upload(path, content) for path, content in files]

    def download_files(self, paths):
        return [self.download(path) for path in paths]
