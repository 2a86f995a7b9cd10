"""`kern`: arguments in, one call, an exit code out."""

import contextlib
import gc
import sys

from kern import plain
from kern.cli import commands as commands  # the app knows them by that
from kern.cli.app import app as app
from kern.cli.app import call
from kern.errors import Interrupted, KernError, UsageError
from kern.system import streams


def main() -> None:
    streams.settle()
    try:
        if (encoding := sys.getfilesystemencoding()) != "utf-8":
            what = f"git's names of files are UTF-8, and this locale would take them for {encoding}"
            raise UsageError(what, hint="PYTHONUTF8=1 kern; or set a locale of UTF-8")
        code = call(sys.argv[1:])
    except (KernError, Interrupted) as exc:
        code = _complain(exc)
    except KeyboardInterrupt:
        code = 130
    except ImportError as exc:
        if str(exc.name).startswith("kern"):  # it is broken, and no extra mends it
            raise
        what = f"this needs an extra of kern's, of which Python finds no {exc.name} that fits"
        code = _complain(UsageError(what, hint="pip install 'kern[mcp,dask]'"))
    except OSError as exc:
        where = f" {exc.filename}" if exc.filename else ""
        hint = "fix it, then run kern again: it resumes"
        code = _complain(KernError(f"cannot use{where}: {exc.strerror}", hint=hint))
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # or Python complains at its end, with its own code
            stream.flush()
    gc.freeze()  # else Python looks through all of it for garbage before it ends
    sys.exit(code)


def _complain(exc: KernError | Interrupted) -> int:
    if isinstance(exc, Interrupted):
        print("kern: interrupted; run it again and it goes on from here", file=sys.stderr)
        return exc.exit_code
    first, *rest = plain.block(str(exc)).splitlines() or [""]
    print(f"kern: {first}", *(f"      {line}" for line in rest), sep="\n", file=sys.stderr)
    if exc.hint:
        print(f"  hint: {plain.block(exc.hint)}", file=sys.stderr)
    return exc.exit_code
