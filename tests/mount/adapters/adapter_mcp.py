#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""xsbx_mcp.py with a client of MCP's SDK."""
# backends: process vm
# night: process vm
# timeout: 300
from suites import *

WHERE = pip("mcp")


def client():
    example("with_mcp", environment(WHERE, "python"), """run, job, files, fork
files: wrote 14 bytes
run: 3
exit status 0
fork: second is a copy of main
job: 3
exit status 0
files: data.txt
files: (error) Error executing tool files: ../in is not below the working directory
""")


def ours():
    checks("mcp", environment(WHERE, "python"))


main(client, ours)
