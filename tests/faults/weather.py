"""A remote that fails as servers and networks do while results go there, or come from there."""

from __future__ import annotations

import http.client
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random

from tests.faults import deaths
from tests.faults.commands import cold, whole_remote
from tests.faults.failures import broken_objects, left_behind
from tests.faults.projects import FIRST
from tests.faults.rig import Judgement, Rig, process
from tests.remote import s3
from tests.remote.relay import Answer, Relay

REFUSED = "--remote-required"
SLOW = 1.0  # seconds until a slow answer, once
LASTING_SLOW = 0.1  # the same, of each of them

TROUBLES = (
    "500", "503", "429", "403", "hung up", "hung up, though done", "cut off", "other bytes", "slow", "stored half",
)  # fmt: skip
HURTS = ("stored half",)  # after which something in the remote is damaged, which who comes next finds and mends
HOW = ("once", "three times", "from then on")
DIRECTIONS = ("push", "pull")
Trouble = tuple[str, int, str]  # one of `TROUBLES`, the number of the first request that has it, and one of `HOW`


@dataclass
class Weather(Relay):
    """A relay that lets some of the requests go wrong.

    Attributes:
        trouble: one of `TROUBLES`; none if empty.
        first: the number of the first request with it, from 1.
        times: how many requests have it.
        met: how many have had it.
    """

    trouble: str = ""
    first: int = 1
    times: int = 1
    met: int = 0

    def __post_init__(self) -> None:
        self._meets = threading.local()
        super().__post_init__()

    def set(self, trouble: str, first: int = 1, times: int = 1) -> None:
        """Let requests go wrong from now on, counted anew; none if there is no trouble."""
        self.trouble, self.first, self.times, self.met = trouble, first, times, 0
        self.requests.clear()

    def verdict(self, method: str, path: str) -> int:
        """See `Relay.verdict`."""
        usual = super().verdict(method, path)
        self._meets.now = bool(self.trouble) and self.first <= len(self.requests) and self.met < self.times
        if not self._meets.now or not (self.trouble.isdecimal() or self.trouble == "hung up"):
            return usual
        self.met += 1
        return int(self.trouble) if self.trouble.isdecimal() else -1

    def hand_on(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """See `Relay.hand_on`."""
        if not self._meets.now:
            return super().hand_on(method, path, headers, body)
        if self.trouble == "slow":
            time.sleep(SLOW if self.times == 1 else LASTING_SLOW)
        if self.trouble == "stored half" and method == "PUT" and len(body) > 1:
            self.met += 1
            body = body[: len(body) // 2]
            headers = {name: value for name, value in headers.items() if name.lower() != "content-length"}
        status, answer_headers, content = super().hand_on(method, path, headers, body)
        if self.trouble in ("slow", "hung up, though done"):
            self.met += 1
        if self.trouble == "hung up, though done":
            raise ConnectionError
        if self.trouble in ("cut off", "other bytes") and status < http.client.MULTIPLE_CHOICES and len(content) > 1:
            self.met += 1
            half = content[: len(content) // 2]
            content = half if self.trouble == "cut off" else half + bytes([content[-1] ^ 1]) + content[len(half) + 1 :]
            answer_headers = [*((name, value) for name, value in answer_headers if name.lower() != "content-length")]
            answer_headers.append(
                ("Content-Length", str(len(content) + (len(half) if self.trouble == "cut off" else 0)))
            )
        return status, answer_headers, content


@contextmanager
def serving() -> Iterator[Weather]:
    """An S3 server in a process of its own, and the relay before it."""
    with s3.serving() as port:
        weather = Weather(port)
        try:
            yield weather
        finally:
            weather.close()


def requests(rig: Rig, weather: Weather, direction: str) -> int:
    """How many requests a run makes that meets with no trouble."""
    url = prepared(rig, weather, direction)
    ended = rig.run(FIRST, "--remote", url)
    assert ended.code == 0, ended
    return len(weather.requests)


def prepared(rig: Rig, weather: Weather, direction: str) -> str:
    """The URL of an empty remote, or of one that has everything; and an empty store."""
    weather.set("")
    url = s3.new_bucket(weather.port)
    cold(rig)
    if direction == "pull":
        ended = rig.run(FIRST, "--remote", url)
        assert ended.code == 0, ended
        cold(rig)
    weather.requests.clear()
    return url


def some_trial(rig: Rig, weather: Weather, most: Mapping[str, int], chance: Random) -> tuple[str, str, Judgement]:
    """Let any request go wrong in some way, one that can: not every answer has a content to cut off."""
    while True:
        direction, trouble, how = chance.choice(DIRECTIONS), chance.choice(TROUBLES), chance.choice(HOW)
        first, count = chance.randint(1, most[direction]), chance.choice((1, 1, 2))
        options = (REFUSED,) if chance.random() < 1 / 4 else ()
        description, judgement = trial(rig, weather, direction, (trouble, first, how), count, options)
        if weather.met or judgement.outcome == "wrong":
            return trouble, description, judgement


def trial(
    rig: Rig, weather: Weather, direction: str, fault: Trouble, count: int, options: tuple[str, ...]
) -> tuple[str, Judgement]:
    """Let requests of one or two runs on a store go wrong, and then none."""
    trouble, first, how = fault
    url = prepared(rig, weather, direction)
    weather.set(trouble, first, {"once": 1, "three times": 3, "from then on": sys.maxsize}[how])
    token = f"{os.getpid()}-{Random().getrandbits(32):x}"
    marked = replace(rig, variables={**rig.variables, **s3.variables(weather.url), deaths.MARK: token})
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(process, marked, rig.command_line(FIRST, "--remote", url, *options)) for _ in range(count)]
        ended = [run.result() for run in runs]
    met, weather.trouble = weather.met, ""
    description = f"{direction}, {count} at once {' '.join(options)}: {trouble} from request {first} {how}, {met} times"
    judgements = [rig.judge(FIRST, run, ()) for run in ended]
    judgement = next((item for item in judgements if item.outcome == "wrong"), judgements[0])
    if any(item.outcome == "refused" for item in judgements) and not options:
        judgement = Judgement("wrong", f"the remote is in the way: {judgements}")
    judgement = deaths.in_all(judgement, token, lambda: afterwards(rig, url, hurt=trouble in HURTS))
    weather.met = met
    return description, judgement


def afterwards(rig: Rig, url: str, *, hurt: bool) -> str:
    """What is wrong when runs without trouble have followed."""
    after = deaths.afterwards(rig, deaths.stored(rig), "--remote", url)
    if after.outcome == "wrong":
        return after.why
    if left := left_behind(rig):
        return f"left behind: {', '.join(left)}"
    if broken := broken_objects(rig):
        return f"not what their names say: {', '.join(broken)}"
    if hurt:
        whole_remote(rig, url)  # which mends it
    return whole_remote(rig, url)
