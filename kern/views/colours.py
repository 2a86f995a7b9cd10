"""Named colours that are read on a dark and on a light background alike; whatever they say stands
in words as well. Not yellow, which vanishes on white, nor blue, which does on black, nor dim.
"""

GOOD, BAD, NOTICE = "green", "red", "magenta"
HEAD = "bold"
