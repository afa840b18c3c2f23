#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The filesystem server of MCP's reference servers, on a mount as it is: who has its tools alone can run code."""
# backends: process vm
# night: process vm
# timeout: 300
from suites import *

SERVER = f"{npm('filesystem')}/node_modules/.bin/mcp-server-filesystem"
WHERE = pip("mcp")


def files():
    checks("mcp_filesystem", environment(WHERE, "python", SERVER=SERVER))


main(files)
