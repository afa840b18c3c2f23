# SPDX-License-Identifier: Apache-2.0
"""The tree of exec_sandbox's exceptions, whole, for programs that name them; most of them can't happen here."""

TREE = """
SandboxError: TransientError PermanentError InputValidationError CommunicationError CommunicationOutcomeUnknownError
SandboxError: SnapshotError GuestAgentError PackageNotAllowedError AssetError SandboxDependencyError
TransientError: VmTransientError PackageInstallTransientError BalloonTransientError MigrationTransientError
VmTransientError: VmBootTimeoutError VmOverlayError VmQemuCrashError VmGvproxyError VmCapacityError
PermanentError: VmPermanentError PackageInstallPermanentError SessionClosedError OutputLimitError
VmPermanentError: VmConfigError VmDependencyError
InputValidationError: CodeValidationError EnvVarValidationError
CommunicationError: SocketAuthError
AssetError: AssetDownloadError AssetChecksumError AssetNotFoundError
"""


class SandboxError(Exception):
    def __init__(self, message, context=None):
        super().__init__(message)
        self.message, self.context = message, context or {}


for line in TREE.split("\n")[1:-1]:
    base, _, names = line.partition(":")
    for name in names.split():
        globals()[name] = type(name, (globals()[base],), {"__module__": __name__})

VmError, VmTimeoutError, VmBootError = VmPermanentError, VmBootTimeoutError, VmTransientError  # noqa: F821 (made above)
__all__ = [name for name in globals() if name.endswith("Error")]
