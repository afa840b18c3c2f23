#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""trace_otlp, with spans that are read by OpenTelemetry's own definition of them."""
# backends: local
# mount: none
# night: local
# timeout: 300
# log-allow: the collector of traces is away
# log-allow: the collector refuses spans
# log-allow: the daemon died
import runpy

from suites import *

sys.path.append(pip("otlp"))
import opentelemetry.proto.collector.trace.v1.trace_service_pb2  # noqa: E402, F401

runpy.run_path(f"{os.path.dirname(os.path.realpath(__file__))}/trace_otlp.py", run_name="__main__")
