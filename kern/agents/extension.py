"""What kern has a CLI load beside it, in JavaScript: a line of its own for what the CLI keeps to
itself, and a word against what a role may not do where the CLI has no rule for it.
"""

import json
from urllib.parse import quote

from kern.agents.protocol import Launch
from kern.model import Stage

# A command that does what kern does, and nobody else; a pattern of Python and JavaScript alike.
PUBLISHES = r"(^|[\s;&|({/])git(\s+-\S+(\s+[^-\s]\S*)?)*\s+(commit|push)\b"
_COMMON = """
import { realpathSync, writeSync } from "node:fs";
import { basename, relative, resolve } from "node:path";

// What no line of the agent's own words can begin with.
const say = (value) => writeSync(1, JSON.stringify({ kern: MARK, ...value }) + "\\n");

// As the CLI itself reads a path; what is not there is nowhere.
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
const GIT = new RegExp(PUBLISHES, "m");

// Why a call is not carried out; empty where it is.
const barred = (tool, path, command, top) => {
  if (READS && outside(path ?? ".", top))
    return `${path} is not there, or lies outside of the working tree`;
  const kept = path && KEPT.some((one) => resolve(top, one) === place(path, top));
  if (kept && ["edit", "write"].includes(tool)) return `kern writes ${basename(path)}`;
  if (GIT.test(command ?? "")) return "kern commits, and nothing is pushed";
  return "";
};
"""


def url(launch: Launch, name: str) -> str:
    """Where it lies; in a path node would take a space for an end, and an escape for a letter."""
    return f"file://{quote(launch.folder, errors='surrogateescape')}/{name}"


def source(launch: Launch, own: str, **more: str) -> str:
    """`own`: the CLI's part, which calls `say` and `barred`. `more`: texts that it knows."""
    known = {
        "MARK": launch.mark,
        "READS": launch.role is not Stage.IMPLEMENT,
        "KEPT": ["SPEC.md", "LEARNINGS.md"],
        "PUBLISHES": PUBLISHES,
        **more,
    }
    values = [f"const {name} = {json.dumps(value)};\n" for name, value in known.items()]
    return "".join(values) + _COMMON + own
