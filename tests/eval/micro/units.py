"""units: a node program, without dependencies, that converts units."""

from functools import partial

from tests.eval.task import Task

FILES = {
    "package.json": '{\n  "name": "units",\n  "version": "1.0",\n  "type": "module"\n}\n',
    "main.js": """\
import { convert, FACTORS } from "./src/units.js";

const [first, from, to] = process.argv.slice(2);
if (first === "--list") {
  console.log(Object.keys(FACTORS).join("\\n"));
} else {
  console.log(convert(Number(first), from, to));
}
""",
    "src/units.js": """\
export const FACTORS = { m: 1, km: 1000, cm: 0.01 };

/** The value in another unit. */
export function convert(value, from, to) {
  for (const unit of [from, to]) {
    if (!(unit in FACTORS)) throw new Error(`no such unit: ${unit}`);
  }
  return (value * FACTORS[from]) / FACTORS[to];
}
""",
    "test/units.test.js": """\
import assert from "node:assert";
import { test } from "node:test";
import { convert } from "../src/units.js";

test("convert", () => {
  assert.equal(convert(2, "km", "m"), 2000);
  assert.throws(() => convert(2, "km", "s"), /no such unit: s/);
});
""",
    "tools/lint.js": """\
// Lines of at most 72 characters, double quotes, no space at an end.
import { readFileSync } from "node:fs";

let red = 0;
for (const file of ["main.js", "src/units.js"]) {
  readFileSync(file, "utf8").split("\\n").forEach((line, at) => {
    const why =
      (line.length > 72 && "longer than 72 characters") ||
      (/'/.test(line) && "single quote") ||
      (/\\s$/.test(line) && "space at the end");
    if (why) {
      console.log(`${file}:${at + 1}: ${why}`);
      red = 1;
    }
  });
}
process.exit(red);
""",
    "tools/docs.js": """\
// Whatever src/units.js exports has a comment above it.
import { readFileSync } from "node:fs";

const lines = readFileSync("src/units.js", "utf8").split("\\n");
const bare = lines.filter(
  (line, at) => line.startsWith("export") && !(lines[at - 1] ?? "").includes("*/"),
);
bare.forEach((line) => console.log(`without a comment: ${line}`));
process.exit(bare.length ? 1 : 0);
""",
}
units = partial(Task, files=FILES, check="node hidden.mjs", needs=("node",))
_TEST = "test = 'node --test'\n"
_LINT = "lint = 'node tools/lint.js'\n"
_UNKNOWN = FILES["src/units.js"].replace(
    "    if (!(unit in FACTORS)) throw new Error(`no such unit: ${unit}`);\n",
    """\
    if (unit in FACTORS) continue;
    const known = Object.keys(FACTORS).sort().join(", ");
    const see = "see --list for all of them";
    throw new Error(`no such unit: ${unit} (known: ${known}); ${see}`);
""",
)

TASKS = (
    units(
        "units/lint-one-line",
        "lint is red on one line of work that is right",
        settings=f"[gates]\n{_TEST}{_LINT}",
        spec="""\
- [ ] An unknown unit's error lists the known ones, by the alphabet
  Word for word: `no such unit: s (known: cm, km, m); see --list for all of them`.
""",
        hidden={
            "hidden.mjs": """\
import assert from "node:assert";
import { convert, FACTORS } from "./src/units.js";

FACTORS.dm = 0.1;
for (const args of [[1, "s", "m"], [1, "m", "s"]]) {
  assert.throws(() => convert(...args), {
    message: "no such unit: s (known: cm, dm, km, m); see --list for all of them",
  });
}
"""
        },
        solution={"src/units.js": _UNKNOWN},
        wrong={"src/units.js": _UNKNOWN.replace(".sort()", "")},
    ),
    units(
        "units/red-before",
        "a project's gate is red before the task, and not for the task to mend",
        settings=f"[gates]\n{_TEST}docs = {{ run = 'node tools/docs.js', red = 'known' }}\n",
        spec="- [ ] Add inches and feet as `in` (0.0254 m) and `ft` (12 in)\n",
        hidden={
            "hidden.mjs": """\
import assert from "node:assert";
import { execSync } from "node:child_process";
import { convert } from "./src/units.js";

const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-9, `${a} is not ${b}`);
near(convert(1, "ft", "in"), 12);
near(convert(10, "in", "cm"), 25.4);
near(convert(1, "km", "m"), 1000);
const tools = execSync("git log --format=%h -- tools kern.toml").toString().trim();
assert.equal(tools.split("\\n").length, 1, "the gate is not for the task to change");
"""
        },
        solution={
            "src/units.js": FILES["src/units.js"].replace(
                "cm: 0.01 }", "cm: 0.01, in: 0.0254, ft: 0.3048 }"
            )
        },
        wrong={
            "src/units.js": FILES["src/units.js"].replace(
                "cm: 0.01 }", "cm: 0.01, in: 0.0254, ft: 0.254 }"
            )
        },
        red=("docs",),
    ),
    units(
        "units/vacuous-gate",
        "the task's own gate is green before anything is done: it proves nothing",
        settings=f"[gates]\n{_TEST}",
        spec="""\
- [ ] `node main.js --list` prints the largest unit first, each with its factor: `km 1000`
  > **Gate:** `node main.js --list | grep -q km`
""",
        hidden={
            "hidden.mjs": """\
import assert from "node:assert";
import { execSync } from "node:child_process";

const told = execSync("node main.js --list").toString();
assert.equal(told, "km 1000\\nm 1\\ncm 0.01\\n");
assert.equal(execSync("node main.js 2 km m").toString(), "2000\\n");
"""
        },
        solution={
            "main.js": FILES["main.js"].replace(
                '  console.log(Object.keys(FACTORS).join("\\n"));\n',
                """\
  const units = Object.entries(FACTORS).sort((a, b) => b[1] - a[1]);
  console.log(units.map((unit) => unit.join(" ")).join("\\n"));
""",
            )
        },
        wrong={
            "main.js": FILES["main.js"].replace(
                "Object.keys(FACTORS)", "Object.keys(FACTORS).sort().reverse()"
            )
        },
        held_out=True,
    ),
)
