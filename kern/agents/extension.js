import { realpathSync, writeSync } from "node:fs";
import { basename, relative, resolve } from "node:path";

// What no line of the agent's own words can begin with.
const say = (value) => writeSync(1, JSON.stringify({ kern: MARK, ...value }) + "\n");

// As the CLI itself reads a path; what is not there is nowhere.
const place = (path, top) => {
  const spaces = /[\u00A0\u2000-\u200A\u202F\u205F\u3000]/g;
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
