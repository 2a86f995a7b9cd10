"""A server of tools on stdin and stdout, as a person may have one: `look` says that it only reads,
`change` does not. What is called, it notes in the file that its argument names.
"""

import json
import sys
from pathlib import Path
from typing import Any


def answer(method: str, given: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            about = {"name": "own", "version": "1"}
            version = given["protocolVersion"]
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            form = {"description": "x", "inputSchema": {"type": "object", "properties": {}}}
            look = {"name": "look", **form, "annotations": {"readOnlyHint": True}}
            return {"tools": [look, {"name": "change", **form}]}
        case "tools/call":
            with Path(sys.argv[1]).open("a") as file:
                file.write(f"{given['name']}\n")
            return {"content": [{"type": "text", "text": "done"}]}
    return {}


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            result = answer(asked["method"], asked.get("params") or {})
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
