#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""LangChain's tests of sandbox backends, and a deep agent, with xsbx_langchain.py."""
# backends: process vm
# night: process vm
# timeout: 600
# conf: output_limit = 16M
from suites import *

CODE = """
import os

import pytest
from langchain_tests.integration_tests import SandboxIntegrationTests
from xsbx_langchain import XsbxSandbox

# The two packages disagree: these want paths of glob() in another form than deepagents gives them, and a write to what is
# there to fail.
DISAGREE = ["test_glob", "test_write_existing_file_fails", "test_glob_basic_pattern", "test_glob_with_directories",
            "test_glob_hidden_files_explicitly", "test_glob_with_character_class", "test_glob_with_question_mark"]
# They execute `python`, which Debian does not have by that name.
PYTHON = ["test_execute_large_stdout_payload", "test_aexecute_large_stdout_payload"]
EXCLUDED = DISAGREE + ([] if os.environ["HAS_PYTHON"] == "True" else PYTHON)

class TestXsbx(SandboxIntegrationTests):
    @pytest.fixture(autouse=True)
    def excluded(self, request):
        if request.node.originalname in EXCLUDED:
            request.node.add_marker(pytest.mark.xfail(strict=True))

    @pytest.fixture(scope="class")
    def sandbox(self):
        backend = XsbxSandbox(os.environ["XSBX_TEMPLATE"])
        yield backend
        backend.delete()
"""

AGENT = """human: say hello
ai: 
tool: Updated file /home/user/hello.sh
ai: 
tool: hello from user

[Command failed with exit code 3]
ai: done
"""

WHERE = pip("langchain")


def standard_tests():
    run_suite(WHERE, CODE, passed=79, xfailed=7, python=2)


def agent():
    example("with_langchain", environment(WHERE, "raw"), AGENT)


def ours():
    checks("langchain", environment(WHERE, "raw"))


main(standard_tests, agent, ours)
