# SPDX-License-Identifier: Apache-2.0
"""For tests of man/status.schema.json: what is wrong with an object, as that says."""

from xsbx import *

try:
    from jsonschema import Draft202012Validator as Validator
except ImportError:
    skip("python3-jsonschema is not installed")

SCHEMA = json.loads(read(f"{os.path.dirname(os.path.abspath(__file__))}/../../../man/status.schema.json"))
DEFINITIONS = {name: Validator({"$defs": SCHEMA["$defs"], "$ref": f"#/$defs/{name}"}) for name in SCHEMA["$defs"]}


def wrong(name, value):
    """What is wrong with an object that the schema calls so, in words."""
    return [f"{'.'.join(map(str, e.absolute_path))}: {e.message[:300]}" for e in DEFINITIONS[name].iter_errors(value)]


def finds_mistakes(name, value):
    """The schema sees what is wrong with an object that is right."""
    ok(f"{name}: a member more is found", wrong(name, value | {"surprise": 1}))
    ok(f"{name}: one less is", wrong(name, {k: v for k, v in value.items() if k != "schema_version"}))
    ok(f"{name}: another type is", wrong(name, value | {"schema_version": "1"}))
