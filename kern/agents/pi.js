// Measured with 0.74.2: `--mode json` repeats the whole message with each token, so that a file of
// 20 KB makes 200 MB of output; `--mode text` tells nothing but the end. Where the API says to come
// back in an hour, pi waits without a word.
import { VERSION } from "@earendil-works/pi-coding-agent";

const ask = globalThis.fetch;
globalThis.fetch = async (...asked) => {
  const answer = await ask(...asked);
  const after = Number(answer.headers.get("retry-after")) || 0;
  const now = Math.round(Date.now() / 1000);
  if (!answer.ok) say({ type: "refused", status: answer.status, at: now, after });
  return answer;
};

export default function (pi) {
  pi.on("session_start", (event, { sessionManager }) =>
    say({ type: "session", id: sessionManager.getSessionId(), version: VERSION }));
  pi.on("message_end", ({ message }) => {
    if (message.role !== "user") say({ type: "message", message });
  });
  pi.on("tool_call", ({ toolName, input }, { cwd }) => {
    const reason = barred(toolName, input.path, input.command, cwd);
    if (reason) return { block: true, reason };
  });
}
