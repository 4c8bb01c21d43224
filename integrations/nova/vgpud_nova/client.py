# SPDX-License-Identifier: Apache-2.0
"""What vgpud thinks of hosts. Who asks gets an opinion for each host, whatever happens: where vgpud
is away, too slow or wrong, the opinion is that nothing is known."""
import collections
import http.client
import json
import logging
import math
import threading
import time
from typing import NamedTuple, Optional

from vgpud_nova import transport

LOG = logging.getLogger(__name__)

PATH = "/v1/nova/placement"
# Hosts in one request, as the API has it.
HOSTS_MAX = 2000
# Answers kept at once. One about 1000 hosts takes about 400 kB.
ANSWERS_MAX = 32
NEUTRAL = 0.5


class Settings(NamedTuple):
    """The options of nova.conf, see vgpud_nova.conf."""
    endpoints: tuple
    cafile: Optional[str] = None
    token_file: Optional[str] = None
    timeout_s: float = 0.25
    cache_ttl: float = 2.0
    stale_limit: float = 60.0
    breaker_failures: int = 3
    breaker_pause: float = 5.0
    breaker_pause_max: float = 60.0


class Host(NamedTuple):
    """A host that is asked about; instances is how many nova counts there now, or None."""
    name: str
    uuid: Optional[str] = None
    instances: Optional[int] = None


class Opinion(NamedTuple):
    """Of one host. pending: instances that nova has put there since vgpud was asked."""
    known: bool = False
    veto: bool = False
    score: float = NEUTRAL
    reason: str = "vgpud was not asked"
    pending: int = 0


class _Verdict(NamedTuple):
    """One host of an answer."""
    verdict: str
    score: float
    reason: str
    age_s: float
    instances: Optional[int]


class _Entry(NamedTuple):
    """An answer, or None where there was none; at: when it was requested."""
    at: float
    verdicts: Optional[dict]
    problem: str = ""


class Unavailable(Exception):
    """No endpoint gave an answer; says why."""


def _covers(entry, hosts):
    """Is it about all of these hosts?"""
    return entry.verdicts is None or all(
        (host.name, host.uuid) in entry.verdicts for host in hosts)


def _fail(what):
    raise ValueError("not what the API answers: " + what)


def _number(value, what):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        _fail(f"{what} is no number")
    return float(value)


def read_answer(data, hosts):
    """{(name, uuid): _Verdict} of the body of an answer, and where the class of the instance is from.
    Raises ValueError."""
    document = json.loads(data)
    if not isinstance(document, dict) or not isinstance(document.get("hosts"), list):
        _fail("no list of hosts")
    if len(document["hosts"]) != len(hosts):
        _fail(f"{len(document['hosts'])} hosts for {len(hosts)}")
    verdicts = {}
    for index, (host, one) in enumerate(zip(hosts, document["hosts"])):
        what = f"hosts[{index}]"
        if not isinstance(one, dict) or one.get("name") != host.name:
            _fail(f"{what} is not '{host.name}'")
        if one.get("verdict") not in ("pass", "veto", "unknown"):
            _fail(f"{what} has no verdict")
        score = _number(one.get("score"), what + ".score")
        age_ms = one.get("age_ms")
        age_s = 0.0 if age_ms is None else _number(age_ms, what + ".age_ms") / 1000
        verdicts[host.name, host.uuid] = _Verdict(one["verdict"], min(max(score, 0.0), 1.0),
                                                  str(one.get("reason", "")), age_s, host.instances)
    return verdicts, document.get("class_from")


class Client:
    """Shared by all threads of a process. Threads: any."""

    def __init__(self, settings):
        self.settings = settings
        self.lock = threading.Lock()
        # What was answered, or not, to the newest requests; and the newest answers, for when there are
        # none.
        self.newest = collections.OrderedDict()
        self.earlier = collections.OrderedDict()
        self.own_problem = False
        self.endpoints = []
        for url in settings.endpoints:
            breaker = transport.Breaker(settings.breaker_failures, settings.breaker_pause,
                                        settings.breaker_pause_max)
            try:
                self.endpoints.append(transport.Endpoint(url, settings.cafile, settings.token_file,
                                                         breaker))
            except ValueError as problem:
                LOG.warning("[vgpud] endpoints: %s; it is left out", problem)
        if not self.endpoints:
            LOG.warning("[vgpud] endpoints names no vgpud to ask: all hosts pass with equal weight")

    def ask(self, instance, hosts):
        """An Opinion for each of the hosts (Host), in their order. instance: the member of the request
        of that name. Raises nothing."""
        try:
            if not hosts:
                return []
            opinions = self._opinions(instance, hosts)
            self.own_problem = False
            return opinions
        except Exception as problem:  # whatever it is, nova has to go on
            self.trouble(problem)
            return [Opinion(reason="error in vgpud_nova")] * len(hosts)

    def trouble(self, problem):
        """Tells of an error of this package, once until things go well again."""
        if not self.own_problem:
            self.own_problem = True
            LOG.info("vgpud_nova: all hosts pass with equal weight because of an error of its own: %r",
                     problem)
        LOG.debug("vgpud_nova: %r", problem, exc_info=True)

    # ---- answers that are kept ----

    def _opinions(self, instance, hosts):
        kind = json.dumps({**instance, "uuid": None}, sort_keys=True)
        key = (kind, instance.get("uuid"))
        now = time.monotonic()
        entry = self._find(self.newest, key, now - self.settings.cache_ttl)
        if entry is None or not _covers(entry, hosts):
            entry = self._ask_and_keep(key, instance, hosts, now)
        veto = True
        if entry.verdicts is None:
            # Older than it should be, so nobody is kept out because of it, but better than nothing.
            veto = False
            problem = entry.problem
            since = now - self.settings.stale_limit
            entry = (self._find(self.earlier, key, since) or
                     self._find(self.earlier, (kind, None), since))
            if entry is None:
                return [Opinion(reason=problem)] * len(hosts)
        elapsed = time.monotonic() - entry.at
        return [self._opinion(entry.verdicts.get((host.name, host.uuid)), host, elapsed, veto)
                for host in hosts]

    def _opinion(self, verdict, host, elapsed, veto):
        if verdict is None:
            return Opinion(reason="vgpud was not asked about this host")
        if verdict.verdict == "unknown":
            return Opinion(reason=verdict.reason)
        if verdict.age_s + elapsed > self.settings.stale_limit:
            return Opinion(reason="what vgpud knows is too old")
        pending = 0
        if host.instances is not None and verdict.instances is not None:
            pending = max(0, host.instances - verdict.instances)
        return Opinion(True, veto and verdict.verdict == "veto", verdict.score, verdict.reason, pending)

    def _find(self, kept, key, since):
        with self.lock:
            entry = kept.get(key)
        return entry if entry is not None and entry.at >= since else None

    def _keep(self, kept, key, entry):
        with self.lock:
            kept[key] = entry
            kept.move_to_end(key)
            while len(kept) > ANSWERS_MAX:
                kept.popitem(last=False)

    def _ask_and_keep(self, key, instance, hosts, now):
        try:
            verdicts, class_from = self._ask_now(instance, hosts)
            entry = _Entry(now, verdicts)
            # What is not from an instance's own history holds for any other one of the kind.
            self._keep(self.earlier, key if class_from == "history" else (key[0], None), entry)
        except Unavailable as problem:
            # Kept, too, so that the weigher does not wait once more for what the filter did not get.
            entry = _Entry(now, None, str(problem))
        self._keep(self.newest, key, entry)
        return entry

    # ---- requests ----

    def _ask_now(self, instance, hosts):
        deadline = transport.Deadline(self.settings.timeout_s)
        verdicts, class_from = {}, None
        for first in range(0, len(hosts), HOSTS_MAX):
            part = hosts[first:first + HOSTS_MAX]
            body = json.dumps({"instance": instance,
                               "hosts": [{"name": host.name, "uuid": host.uuid} for host in part]})
            some, class_from = self._ask_endpoints(body.encode(), part, deadline)
            verdicts.update(some)
        return verdicts, class_from

    def _ask_endpoints(self, body, hosts, deadline):
        with self.lock:
            now = time.monotonic()
            usable = [each for each in self.endpoints if each.breaker.lets_through(now)]
        problem = "vgpud does not answer" if self.endpoints else "no vgpud is configured"
        for index, endpoint in enumerate(usable):
            with self.lock:
                if not endpoint.breaker.try_now(time.monotonic()):
                    continue
            try:
                # Each leaves time for those behind it.
                share = transport.Deadline(deadline.left() / (len(usable) - index))
                status, data = endpoint.post(PATH, body, share)
                if status != 200:
                    raise ValueError(_status(status, data))
                answer = read_answer(data, hosts)
            except (OSError, ValueError, RecursionError, http.client.HTTPException) as each:
                problem = str(each) or repr(each)
                self._failed(endpoint, problem)
            else:
                self._answered(endpoint)
                return answer
        raise Unavailable(problem)

    def _answered(self, endpoint):
        with self.lock:
            endpoint.breaker.ok()
            changed = endpoint.answers is not True
            endpoint.answers = True
        if changed:
            LOG.info("vgpud at %s answers", endpoint.url)

    def _failed(self, endpoint, problem):
        with self.lock:
            endpoint.breaker.failed(time.monotonic())
            changed = endpoint.answers is not False
            endpoint.answers = False
        if changed:
            LOG.info("vgpud at %s does not answer: %s; where no other does, all hosts pass with equal "
                     "weight", endpoint.url, problem)
        else:
            LOG.debug("vgpud at %s does not answer: %s", endpoint.url, problem)


def _status(status, data):
    """An error of the API in words."""
    try:
        detail = json.loads(data)["detail"]
    except (ValueError, KeyError, TypeError, RecursionError):
        detail = ""
    return f"HTTP status {status}" + (f": {detail}" if isinstance(detail, str) and detail else "")
