#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""inspect_ai's own check of sandbox providers, through scripts/adapters/xsbx_inspect.py."""
# backends: process vm
# night: process vm
# timeout: 600
from suites import run_suite

CODE = """
import os

import pytest
import xsbx_inspect
from inspect_ai.util import SandboxUserUnsupportedError
from inspect_ai.util._sandbox.self_check import *

# There is one user in a sandbox; root would have to write to the image, which is read-only.
EXCLUDED = {"test_exec_as_user": SandboxUserUnsupportedError}

@pytest.fixture
async def sandbox_env(request):
    if kind := EXCLUDED.get(request.node.originalname):
        request.node.add_marker(pytest.mark.xfail(raises=kind, strict=True))
    env = xsbx_inspect.XsbxSandboxEnvironment(os.environ["XSBX_TEMPLATE"])
    yield env
    env.session.remove()
"""

run_suite("inspect", CODE, passed=43, xfailed=1)
