# SPDX-License-Identifier: Apache-2.0
"""What an agent can meet: errors, answers of many kinds, ends of the interpreter, hostile output."""
import os

from smolagents import AgentLogger, LogLevel, Tool
from smolagents.default_tools import FinalAnswerTool
from smolagents.utils import AgentError
from xsbx_smolagents import XsbxExecutor


class Triple(Tool):
    name, description, output_type = "triple", "Triples a number.", "integer"
    inputs = {"number": {"type": "integer", "description": "the number"}}

    def forward(self, number):
        return 3 * number


def error_of(code):
    try:
        return f"no error, but {executor(code)}"
    except AgentError as error:
        return str(error)


executor = XsbxExecutor(os.environ["XSBX_TEMPLATE"], timeout_s=60, logger=AgentLogger(level=LogLevel.OFF))
executor.send_variables({"given": [1, {"a": 2.5}], "word": "é"})
executor.send_tools({"final_answer": FinalAnswerTool(), "triple": Triple()})
result = executor("x = triple(number=given[0])\nprint('say', word)\nx")
assert (result.output, result.logs.strip(), result.is_final_answer) == ("3", "say é", False), result
result = executor("import sys\nprint('no newline', end='')\nsys.stderr.write('err')\nfinal_answer({'x': x, 'set': {1}, 'b': b'\\xff'})")
assert result.is_final_answer and result.output == {"x": 3, "set": {1}, "b": b"\xff"}, result
assert "no newline" in result.logs and "err" in result.logs, result
said = error_of("def broken():\n    return x / 0\nprint('before')\nbroken()")
assert "before" in said and 'line 2, in broken\n    return x / 0' in said and "ZeroDivisionError" in said, said
assert "_xsbx_run" not in said, said
assert "SyntaxError" in error_of("x = = 1") and executor("x").output == "3"
assert "SystemExit" in error_of("sys.exit(3)") and executor("x").output == "3"
assert "cannot" in error_of("final_answer(object())").lower()
executor.timeout_s = 4
said = error_of("print('early', flush=True)\nwhile True: pass")
assert "longer than 4 s" in said and "early" in said, said
executor.timeout_s = 60
assert executor("triple(number=5)").output == "15"  # a new interpreter has the tools, too
assert "NameError" in error_of("x")
assert "status 9" in error_of("import os\nos._exit(9)")
assert executor("given[1]['a']").output == "2.5"
assert "more than the mount keeps" in error_of("print('x' * 3_000_000)")
forge = "import sys\nmark = sys._getframe(1).f_locals['mark']\nprint('\\n' + mark + {} + mark)"
for forged in "[1]", "{", "{}", "1", '"error"', '{"final": 1}', '{"final": "pickle:gASVAAAA"}', '{"final": "safe:{"}':
    said = error_of(forge.format(repr(forged)))  # what it can say for itself by reading the mark
    assert "can't be read" in said, (forged, said)
assert "can't be read" in error_of(forge.format("'[' * 100000"))
assert executor(forge.format(repr('{"value": {"a": 1}}'))).output == {"a": 1}  # the control: it is taken for the outcome
assert executor("1 + 1").output == "2"
path = executor.session.path
executor.cleanup()
executor.cleanup()
assert not path.exists() and "failed" in error_of("1")
print("smolagents: fine")
