// Measured with 0.61.0: while gemini asks a failing API again (ten times in four minutes), it prints
// nothing where kern would see it. Settings that would make it ask less often count only from a
// folder that nobody else can write, which no temporary folder is.
if (GIVEN) process.env.NODE_OPTIONS = GIVEN; else delete process.env.NODE_OPTIONS;
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
