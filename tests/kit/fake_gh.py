"""A stand-in for gh as the workflows use it: `fake_gh.py FOLDER ARGV…`; jq is real."""

import json
import subprocess
import sys
from pathlib import Path

MAY = {"ann": "admin", "bob": "read"}


def main(place: Path, argv: list[str]) -> int:
    with (place / "gh.log").open("a") as log:
        log.write(json.dumps(argv) + "\n")
    if argv[0] == "api" and "/collaborators/" in argv[1]:
        if (may := MAY.get(argv[1].split("/")[4])) is None:
            print('{"message": "Not Found"}')  # as gh prints an error's body
            return 1
        data = json.dumps({"permission": may})
    else:
        file = {"pr list": "prs.json", "api --paginate": "issues.json"}.get(" ".join(argv[:2]), "")
        data = (place / file).read_text() if file and (place / file).exists() else "[]"
    if "--jq" in argv:
        subprocess.run(["jq", "-rc", argv[argv.index("--jq") + 1]], input=data, text=True)
    return 0


sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
