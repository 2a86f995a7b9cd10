"""What kern has pi load beside it: an extension that prints what pi does, and holds its tools.

Measured with 0.74.2: `--mode json` repeats the whole message with each token, so that a file of
20 KB makes 200 MB of output; `--mode text` tells nothing but the end. Where the API says to come
back in an hour, pi waits without a word.
"""

import json

from kern.agents.protocol import Launch
from kern.model import Stage

NAME = "pi-extension.js"
_SOURCE = """
import { realpathSync, writeSync } from "node:fs";
import { basename, relative, resolve } from "node:path";
import { VERSION } from "@earendil-works/pi-coding-agent";

// What no line of the agent's own words can begin with.
const say = (value) => writeSync(1, JSON.stringify({ kern: MARK, ...value }) + "\\n");

const ask = globalThis.fetch;
globalThis.fetch = async (...asked) => {
  const answer = await ask(...asked);
  const after = Number(answer.headers.get("retry-after")) || 0;
  const now = Math.round(Date.now() / 1000);
  if (!answer.ok) say({ type: "refused", status: answer.status, at: now, after });
  return answer;
};

// As pi itself reads a path; what is not there is nowhere.
const place = (path, top) => {
  const spaces = /[\\u00A0\\u2000-\\u200A\\u202F\\u205F\\u3000]/g;
  const plain = path.replace(/^@/, "").replace(spaces, " ");
  return plain.startsWith("~") ? "" : resolve(top, plain);
};
const outside = (path, top) => {
  try {
    const way = relative(realpathSync(top), realpathSync(place(path, top)));
    return way === ".." || way.startsWith("../") || resolve(way) === way;
  } catch {
    return true;
  }
};

const GIT = /(^|[\\s;&|({\\/])git(\\s+-\\S+(\\s+[^-\\s]\\S*)?)*\\s+(commit|push)\\b/m;

export default function (pi) {
  pi.on("session_start", (event, { sessionManager }) =>
    say({ type: "session", id: sessionManager.getSessionId(), version: VERSION }));
  pi.on("message_end", ({ message }) => {
    if (message.role !== "user") say({ type: "message", message });
  });
  pi.on("tool_call", ({ toolName, input }, { cwd }) => {
    const path = String(input.path ?? ".");
    if (READS && outside(path, cwd))
      return { block: true, reason: `${path} is not there, or lies outside of the working tree` };
    const kept = KEPT.some((one) => resolve(cwd, one) === place(path, cwd));
    if (kept && ["edit", "write"].includes(toolName))
      return { block: true, reason: `kern writes ${basename(path)}` };
    if (toolName === "bash" && GIT.test(String(input.command)))
      return { block: true, reason: "kern commits, and nothing is pushed" };
  });
}
"""


def source(launch: Launch) -> str:
    known = {
        "MARK": launch.mark,
        "READS": launch.role is not Stage.IMPLEMENT,
        "KEPT": ["SPEC.md", "LEARNINGS.md"],
    }
    values = [f"const {name} = {json.dumps(value)};\n" for name, value in known.items()]
    return "".join(values) + _SOURCE
