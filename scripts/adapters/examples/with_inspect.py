#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An evaluation whose model has a shell, in a sandbox for each sample. The model is a fake that counts the files."""
import os

import xsbx_inspect  # registers the provider "xsbx"
from inspect_ai import Task, eval as evaluate
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash

samples = [Sample(input="How many files are here?", target="2", files={"one.txt": "1", "two.txt": "2"})]
task = Task(dataset=samples, solver=[use_tools(bash(timeout=60)), generate()], scorer=match(),
            sandbox=("xsbx", os.environ.get("XSBX_TEMPLATE", "/sbx/shell")))
script = [ModelOutput.for_tool_call("mockllm/model", "bash", {"command": "ls *.txt | wc -l"}),
          ModelOutput.from_content("mockllm/model", "2")]
for output in script:
    output.usage = ModelUsage()  # or it would count tokens, for which it needs a network
model = get_model("mockllm/model", custom_outputs=script)
[log] = evaluate(task, model=model, display="none", log_dir=os.environ.get("TMPDIR", "/tmp"))
print(log.status, log.results.scores[0].metrics["accuracy"].value)
print("the tool said:", next(message.text.strip() for message in log.samples[0].messages if message.role == "tool"))
