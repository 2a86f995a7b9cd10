"""What gemini's node loads before it.

Measured with 0.61.0: while it asks a failing API again (ten times in four minutes), it prints
nothing where kern would see it. Settings that would make it ask less often count only from a
folder that nobody else can write, which no temporary folder is.
"""

import json

from kern.agents.protocol import Launch

NAME = "gemini-preload.mjs"
_SOURCE = """
import { writeSync } from "node:fs";

if (GIVEN) process.env.NODE_OPTIONS = GIVEN; else delete process.env.NODE_OPTIONS;
const say = (value) => writeSync(1, JSON.stringify({ kern: MARK, ...value }) + "\\n");
let again = 0;
const ask = globalThis.fetch;
globalThis.fetch = async (...asked) => {
  if (!/generateContent/i.test(String(asked[0]?.url ?? asked[0]))) return ask(...asked);
  const failed = (status, message, after) => {
    again += 1;
    const at = Math.round(Date.now() / 1000);
    say({ type: "refused", status, message: message.slice(0, 2000), at, after, again });
  };
  let answer;
  try {
    answer = await ask(...asked);
  } catch (error) {
    failed(0, String(error.cause ?? error), 0);
    throw error;
  }
  if (answer.ok) again = 0;
  const after = Number(answer.headers.get("retry-after")) || 0;
  if (!answer.ok) failed(answer.status, await answer.clone().text(), after);
  return answer;
};
"""


def source(launch: Launch) -> str:
    known = {"MARK": launch.mark, "GIVEN": launch.given.get("NODE_OPTIONS", "")}
    return (
        "".join(f"const {name} = {json.dumps(value)};\n" for name, value in known.items()) + _SOURCE
    )
