"""Which texts come near a query, the best first: by SQLite's words, and by meaning as well where
kern is installed with its extra `semantic`. Pure.
"""

import contextlib
import importlib.util
import re
import sqlite3
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

_K = 10  # of reciprocal rank fusion: who stands high in one list, or well in both, comes first
_MOST_EMBEDDED = 5000  # texts: a tenth of a millisecond each
_MOST_WORDS = 128  # of a query
_WORD = re.compile(r"[^\W_]{1,64}")


def ranked(texts: Sequence[str], query: str, worth: Sequence[float] = ()) -> list[int]:
    """The places of those that come near, among equals the older first; none where no word of the
    query stands in any. `worth`: of each text, by which its nearness is multiplied.
    """
    lists = [_by_words(texts, query)]
    if lists[0] and len(texts) <= _MOST_EMBEDDED:
        lists.append(_by_meaning(texts, query))
    points = dict[int, float]()
    for near in lists:
        value = {at: near[at] * (worth[at] if worth else 1) for at in near}
        for rank, at in enumerate(sorted(near, key=lambda at: -value[at])):
            points[at] = points.get(at, 0) + 1 / (_K + rank)
    return sorted(sorted(points), key=lambda at: -points[at])


def _by_words(texts: Sequence[str], query: str) -> dict[int, float]:
    every = list(dict.fromkeys(_WORD.findall(query)))
    # Any text has the short ones, but for names: `CSV`.
    words = ([word for word in every if len(word) > 3 or word[1:].isupper()] or every)[:_MOST_WORDS]
    clean = (text.replace("\0", " ").encode("utf-8", "replace").decode() for text in texts)
    with contextlib.closing(sqlite3.connect(":memory:")) as base:
        base.execute("CREATE VIRTUAL TABLE row USING fts5 (text, tokenize = 'porter unicode61')")
        base.executemany("INSERT INTO row (rowid, text) VALUES (?, ?)", enumerate(clean))
        asked = " OR ".join(f'"{word}"' for word in words) or '""'
        return dict(base.execute("SELECT rowid, -bm25(row) FROM row WHERE row MATCH ?", (asked,)))


def _by_meaning(texts: Sequence[str], query: str) -> dict[int, float]:
    """The cosine of each to the query, each text being the mean of its word pieces."""
    if (loaded := vectors()) is None:
        return {}
    numpy, pieces, rows = loaded
    plainly = [" ".join(_WORD.findall(text)).lower() or "x" for text in (*texts, query)]
    cuts = pieces.encode_batch_fast(plainly, add_special_tokens=False)
    means = numpy.stack([rows[cut.ids].mean(0) for cut in cuts])
    means /= numpy.linalg.norm(means, axis=1, keepdims=True)
    return dict(enumerate((means[:-1] @ means[-1]).tolist()))


@cache
def vectors() -> tuple[Any, Any, Any] | None:
    """Of the package wordllama its files are read, its code is not run: that could download."""
    spec = importlib.util.find_spec("wordllama")
    try:
        import numpy
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        folder = Path(spec.submodule_search_locations[0])  # type: ignore[union-attr, index]
        pieces = Tokenizer.from_file(f"{folder}/tokenizers/l2_supercat_tokenizer_config.json")
        (rows,) = load_file(folder / "weights/l2_supercat_256.safetensors").values()
    except Exception:  # not installed, or another version: words alone are searched
        return None
    pieces.no_padding()
    pieces.no_truncation()
    return numpy, pieces, rows.astype(numpy.float32)
