# SPDX-License-Identifier: Apache-2.0
"""
exec_sandbox's interface (0.22) on a mount, for programs that were written for it: with this folder's parent first in PYTHONPATH
they run as they are. The mount is XSBX_MOUNT or /sbx, and a language's template has its name. xsbx.py has to be beside it.

What differs: an output may be as long as the mount's output_limit; status 137 does not end a session; env_vars are those of
one exec(), their names have to be identifiers, and none is refused (there: PATH, LD_PRELOAD and more); what catches SIGTERM at
its time limit has the status -1 as well; standard input that nobody gave is at its end; packages have exact versions; results
are dataclasses; what SchedulerConfig says of images, pools, snapshots and overcommitment is the mount's own business, and
ignored, as is configure_logging(): the daemon has a log.
"""
from .config import SchedulerConfig
from .exceptions import *
from .models import ExecutionResult, ExposedPort, FileInfo, Language, PortMapping, TimingBreakdown
from .scheduler import Scheduler
from .session import Session


def configure_logging(*_arguments, **_options):
    """Nothing is logged here."""
