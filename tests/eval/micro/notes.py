"""notes: shell scripts that keep one note in a line."""

from functools import partial

from tests.eval.task import Task

FILES = {
    "config.sh": "# Sourced by all others.\nNOTES=${NOTES:-notes.txt}\n",
    "note.sh": """\
#!/bin/sh
# note.sh TEXT: adds a note.
. ./config.sh
if [ $# -ne 1 ]; then
    echo "usage: note.sh TEXT" >&2
    exit 2
fi
printf '%s\\n' "$1" >> "$NOTES"
""",
    "list.sh": """\
#!/bin/sh
# list.sh: prints the notes, numbered.
. ./config.sh
cat -n "$NOTES"
""",
    "count.sh": """\
#!/bin/sh
# count.sh: how many notes there are.
. ./config.sh
wc -l < "$NOTES" | tr -d ' '
""",
    "test.sh": """\
#!/bin/sh
# All that must hold.
set -eu
NOTES=$(mktemp)
export NOTES
trap 'rm -f "$NOTES"' EXIT
sh note.sh "buy milk"
sh note.sh 'a $5 `tick`'
test "$(sh count.sh)" = 2
sh list.sh | grep -q 'buy milk'
""",
}
notes = partial(
    Task, files=FILES, settings="[gates]\ntest = 'sh test.sh'\n", check="sh hidden_test.sh"
)

TASKS = (
    notes(
        "notes/quoting",
        "backticks, quotes and a dollar sign in the task's text",
        spec="""\
- [ ] Without a text `note.sh` says: usage: note.sh "TEXT"  # never `note.sh $TEXT`, it's split
  It says so word for word, with both quotes, the backticks and two spaces before the `#`.
""",
        hidden={
            "hidden_test.sh": """\
set -eu
cat > wanted << 'END'
usage: note.sh "TEXT"  # never `note.sh $TEXT`, it's split
END
if sh note.sh 2> told; then exit 1; fi
cmp told wanted
"""
        },
        solution={
            "note.sh": FILES["note.sh"].replace(
                '    echo "usage: note.sh TEXT" >&2\n',
                "    cat >&2 << 'END'\n"
                'usage: note.sh "TEXT"  # never `note.sh $TEXT`, it\'s split\nEND\n',
            )
        },
        wrong={
            "note.sh": FILES["note.sh"].replace(
                'note.sh TEXT"', 'note.sh \\"TEXT\\"  # never note.sh $TEXT, it\'s split"'
            )
        },
    ),
    notes(
        "notes/edges",
        "the cases at the edge stand in the task, and no visible test asks for them",
        spec="""\
- [ ] Add drop.sh NUMBER, which removes that note; a number that no note has is an error (exit 1)
""",
        hidden={
            "hidden_test.sh": """\
set -eu
NOTES=$PWD/mine
export NOTES
printf 'one\\ntwo\\nthree\\n' > mine
sh drop.sh 2
test "$(cat mine)" = "$(printf 'one\\nthree')"
if sh drop.sh 9; then exit 1; fi
if sh drop.sh 0; then exit 1; fi
test "$(cat mine)" = "$(printf 'one\\nthree')"
"""
        },
        solution={
            "drop.sh": """\
#!/bin/sh
# drop.sh NUMBER: removes a note.
. ./config.sh
if [ "$1" -lt 1 ] || [ "$1" -gt "$(sh count.sh)" ]; then
    echo "drop.sh: there is no note $1" >&2
    exit 1
fi
sed "$1d" "$NOTES" > "$NOTES.new" && mv "$NOTES.new" "$NOTES"
"""
        },
        wrong={"drop.sh": '#!/bin/sh\n. ./config.sh\nsed -i "${1}d" "$NOTES"\n'},
    ),
)
