"""How long kern waits for others: one factor for all of it, which its own tests make small."""

import os
import time


def scaled(seconds: float) -> float:
    return seconds * float(os.environ.get("KERN_TEST_WAITS", "1"))


def sleep(seconds: float) -> None:
    time.sleep(scaled(seconds))
