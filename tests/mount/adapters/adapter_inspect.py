#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""inspect_ai's own check of sandbox providers, its tools inside, and an evaluation, with xsbx_inspect.py."""
# backends: process vm
# night: process vm
# timeout: 600
# conf: [template admin]
# conf: image = python
# conf: language = python
# conf: backend = microvm
# conf: root = yes
from suites import *

CODE = """
import os

import pytest
import xsbx_inspect
from inspect_ai.util import SandboxUserUnsupportedError
from inspect_ai.util._sandbox.self_check import *

# Processes of this host have no root, and so no users of their own.
EXCLUDED = {} if os.environ["BACKEND"] == "vm" else {"test_exec_as_user": SandboxUserUnsupportedError}

@pytest.fixture
async def sandbox_env(request):
    if kind := EXCLUDED.get(request.node.originalname):
        request.node.add_marker(pytest.mark.xfail(raises=kind, strict=True))
    env = xsbx_inspect.XsbxSandboxEnvironment(os.environ["XSBX_TEMPLATE"])
    yield env
    env.session.remove()
"""

WHERE = pip("inspect")


def self_check():
    run_suite(WHERE, CODE, passed=44 if VM else 43, xfailed=0 if VM else 1, template="admin")


def evaluation():
    example("with_inspect", environment(WHERE, "raw"), "success 1.0\nthe tool said: 2\n")


def ours():
    checks("inspect", environment(WHERE, "admin" if VM else "raw"))


main(self_check, evaluation, ours)
