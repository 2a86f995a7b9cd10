"""The JSON objects in what an agent printed: one a line, an array of them a line, or one value over
many lines.
"""

import codecs
import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, BinaryIO

Object = dict[str, Any]

LOG_LIMIT = 1 << 20  # bytes of a line, where a log stands between the objects
LINE_LIMIT = 1 << 22  # bytes of a line; a longer one holds what a command printed
WHOLE_LIMIT = 1 << 24  # bytes; nothing longer is read at once
_BEGINNING = 1 << 12  # bytes
_PIECE = 1 << 20  # bytes read at a time of an array
_BETWEEN = re.compile(r"[\s,]*")


def objects(file: BinaryIO) -> Iterator[Object]:
    """In order, one by one, from the file's beginning; what is torn or too large is left out."""
    file.seek(0)
    array = file.read(_BEGINNING).lstrip().startswith(b"[")
    for read in (_members, _by_line) if array else (_by_line, _whole):
        file.seek(0)
        found = None
        for found in read(file):
            yield found
        if found is not None:
            return


def lines(file: BinaryIO) -> Iterator[Object]:
    """The objects, one a line; what else stands there, as a log does, is the `log` of one."""
    file.seek(0)
    while line := file.readline(LOG_LIMIT):
        yield from _values(line) or [{"log": line[:_BEGINNING].decode("utf-8", "replace").rstrip()}]


def line(data: bytes) -> Object:
    """A line of the live output; see `lines`."""
    return next(iter(_values(data)), {"log": data[:_BEGINNING].decode("utf-8", "replace").rstrip()})


def epoch(text: object) -> float:
    """Seconds; 0 where it is no time."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return 0.0


def _members(file: BinaryIO) -> Iterator[Object]:
    """Those of an array, one by one: a long stage prints more than is to be in memory at once."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    scan = json.JSONDecoder().raw_decode
    text = ""
    at = -1  # before the opening bracket
    while len(text) <= WHOLE_LIMIT and (piece := file.read(max(_PIECE, len(text)))):
        text += decode(piece)
        at = text.find("[") + 1 if at < 0 else 0
        try:
            while gap := _BETWEEN.match(text, at):
                value, at = scan(text, gap.end())
                if isinstance(value, dict):
                    yield value
        except RecursionError:
            return
        except ValueError:  # a member that is not whole yet, or the end
            text = text[at:]


def _whole(file: BinaryIO) -> Iterator[Object]:
    data = file.read(WHOLE_LIMIT + 1)
    if len(data) <= WHOLE_LIMIT:
        yield from _values(data)


def _by_line(file: BinaryIO) -> Iterator[Object]:
    while line := file.readline(LINE_LIMIT):
        torn = len(line) == LINE_LIMIT and not line.endswith(b"\n")
        yield from () if torn else _values(line)
        while torn:  # the rest of the line
            torn = file.readline(LINE_LIMIT)[-1:] not in (b"\n", b"")


def _values(data: bytes) -> list[Object]:
    """The object, or those in the array, that the data is."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return []
    return [one for one in (found if isinstance(found, list) else [found]) if isinstance(one, dict)]
