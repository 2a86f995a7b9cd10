"""A headless Chromium, spoken to by its DevTools protocol on two pipes."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Self

ARGUMENTS = "--headless=new --no-sandbox --disable-gpu --remote-debugging-pipe"


class Browser:
    """`with` it: one page, and what that has asked for and logged since."""

    def __init__(self, program: str, home: Path) -> None:
        theirs, self.write = os.pipe()
        read, ours = os.pipe()
        script = f'exec "{program}" {ARGUMENTS} --user-data-dir="{home}" 3<&{theirs} 4>&{ours}'
        self.process = subprocess.Popen(
            ["bash", "-c", script],
            pass_fds=(theirs, ours),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs)
        os.close(ours)
        self.read = os.fdopen(read, "rb")
        self.rest, self.number, self.session = b"", 0, ""
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()
        os.close(self.write)
        self.read.close()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        message |= {"sessionId": self.session} if self.session else {}
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                self.rest += self.read.read1(1 << 16) or b"{}\0"
            raw, _, self.rest = self.rest.partition(b"\0")
            answer: dict[str, Any] = json.loads(raw)
            if answer.get("id") == self.number:
                return dict(answer["result"])
            self.events.append(answer)

    def evaluate(self, script: str) -> Any:
        """A promise is waited for."""
        how = {"awaitPromise": True, "returnByValue": True}
        return self.call("Runtime.evaluate", expression=script, **how)["result"].get("value")

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def named(self, *methods: str) -> list[dict[str, Any]]:
        return [one["params"] for one in self.events if one.get("method") in methods]
