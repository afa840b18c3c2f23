# SPDX-License-Identifier: Apache-2.0
"""
An executor for smolagents' CodeAgent, in place of its DockerExecutor or E2BExecutor:

    with CodeAgent(tools=[...], model=model, executor=XsbxExecutor("/sbx/python")) as agent:
        agent.run(...)

Code goes to the interpreter of a session, whose variables last from step to step. Packages that tools need have to be there
before it starts: config="packages = numpy==2.3.5\\n". xsbx.py has to be beside this file.
"""
import json
import re
import secrets

from smolagents.local_python_executor import CodeOutput
from smolagents.monitoring import AgentLogger, LogLevel
from smolagents.remote_executors import RemotePythonExecutor
from smolagents.utils import AgentError

import xsbx

# Runs inside: says behind a mark what came of the code, of which smolagents wants the last expression's value, and an answer
# that final_answer() throws.
WRAPPER = '''
def _xsbx_run(source, mark):
    import ast, json, linecache, traceback
    linecache.cache["<code>"] = len(source), None, source.splitlines(True), "<code>"
    told = {}
    try:
        tree = ast.parse(source, "<code>")
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<code>", "exec"), globals())
        value = eval(compile(ast.Expression(last.value), "<code>", "eval"), globals()) if last else None
        told["value"] = None if value is None else repr(value)
    except BaseException as error:
        if type(error).__name__ == "FinalAnswerException":
            told["final"] = error.value
        else:
            error.__traceback__ = error.__traceback__.tb_next
            told["error"] = "".join(traceback.format_exception(error))
    print("\\n" + mark + json.dumps(told) + mark, flush=True)
'''


class XsbxExecutor(RemotePythonExecutor):
    def __init__(self, template="/sbx/python", config="", timeout_s=60, logger=None, allow_pickle=False):
        """@template: of Python; @config: lines for the session's `config`, see xsbxfs.conf(5); @timeout_s: of each step"""
        super().__init__([], logger or AgentLogger(level=LogLevel.ERROR), allow_pickle)
        self.session, self.timeout_s = xsbx.Session(template, config), timeout_s
        self.setup, self.setting_up, self.lost = [], False, False

    def send_tools(self, tools):
        self.set_up(super().send_tools, tools)

    def send_variables(self, variables):
        self.set_up(super().send_variables, variables)

    def set_up(self, send, what):
        self.setting_up = True
        try:
            send(what)
        finally:
            self.setting_up = False

    def run_code_raise_errors(self, code):
        """Raises AgentError, with what the code printed, its traceback, or why it was ended."""
        if self.lost:  # the interpreter that had the tools was ended; its successor gets them, and no variable of the code's
            for earlier in self.setup:
                self.run_one(earlier)
            self.lost = False
        if self.setting_up:  # smolagents' own tools name packages (numpy) that they can do without
            code = re.sub(r"(?m)^import (.+)$", r"try:\n    import \1\nexcept ImportError:\n    pass", code)
            self.setup.append(code)
        return self.run_one(code)

    def run_one(self, code):
        mark = secrets.token_hex(16)
        try:
            done = self.session.code(f"{WRAPPER}\n_xsbx_run({code!r}, {mark!r})\n", timeout_s=self.timeout_s).follow(["output"])
        except xsbx.Failed as failed:
            self.lost = True
            raise AgentError(f"The sandbox failed: {failed}", self.logger) from failed
        self.lost = done.status["interpreter"] != "kept"
        logs, _mark, rest = done.output.decode(errors="replace").partition(f"\n{mark}")
        told, _mark, after = rest.partition(f"{mark}\n")
        logs += after
        if not told:
            why = {"timeout": f"it took longer than {self.timeout_s} s", "oom": "the sandbox ran out of memory"}
            why = why.get(done.state, f"the interpreter has ended with status {done.code}")
            if done.status["truncated"]:
                why = "it printed more than the mount keeps"
            raise AgentError(f"{logs}\nThe code was ended: {why}. Variables may be lost.", self.logger)
        try:  # code can find the mark, and print it with anything behind it
            told = json.loads(told)
            if "final" in told:
                answer = self._deserialize_final_answer(told["final"], self.allow_pickle)
                return CodeOutput(answer, logs, is_final_answer=True)
            if "error" not in told:
                return CodeOutput(told["value"], logs, is_final_answer=False)
            why = str(told["error"])
        except Exception as error:
            raise AgentError(f"{logs}\nWhat came of the code can't be read: {error!r:.200}", self.logger) from error
        raise AgentError(f"{logs}\nExecuting code yielded an error:\n{why}", self.logger)

    def install_packages(self, additional_imports):
        """Nothing can be installed any more. Some that tools are said to need they can do without, so this is no error."""
        self.logger.log(f"Not installed, unless config names them: {', '.join(additional_imports)}", level=LogLevel.INFO)
        return additional_imports

    def cleanup(self):
        self.session.remove()
