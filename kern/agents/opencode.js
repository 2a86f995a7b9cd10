// Measured with 1.18.33: while opencode asks a failing API again, it prints nothing (77 s in all;
// where the API says to come back in an hour, an hour), and what it says of an unknown model is in
// its log alone. A link in the tree is read wherever it leads. Before it loads a plugin it fetches a
// package that no plugin of kern's needs; where there is no network, that takes a minute.
if (GIVEN) process.env.npm_config_offline = GIVEN; else delete process.env.npm_config_offline;

export const Kern = async ({ directory }) => ({
  event: async ({ event: { type, properties } }) => {
    const at = Date.now();
    if (type === "session.created") say({ type: "session", version: properties.info.version });
    if (type === "session.status" && properties.status.type === "retry")
      say({ ...properties.status, at });
    if (type === "session.error") say({ type: "error", at, error: properties.error });
  },
  "tool.execute.before": async ({ tool }, { args }) => {
    const reason = barred(tool, args.filePath ?? args.path, args.command, directory);
    if (reason) throw new Error(reason);
  },
});
