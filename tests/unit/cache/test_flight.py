"""Many threads that want one thing at once make it once."""

from __future__ import annotations

import os
import threading
from functools import partial

import pytest
from interrupts import interrupted
from side_by_side import side_by_side

from vyre_cuda.cache.flight import SingleFlight

LIMIT = 60.0  # seconds


def together(count, work):
    """What `work(number)` gave in each of `count` threads, or the exception that ended it."""
    results = [None] * count

    def run(number):
        try:
            results[number] = work(number)
        except Exception as error:
            results[number] = error

    side_by_side([partial(run, number) for number in range(count)])
    return results


def test_threads_that_come_while_it_is_made_get_what_the_first_makes():
    flights: SingleFlight[object] = SingleFlight()
    inside, others = threading.Event(), threading.Event()
    made = []

    def make():
        made.append(object())
        inside.set()
        others.wait()
        return made[-1]

    def work(number):
        if number:
            inside.wait()
            if number == 7:
                others.set()
        return flights.run("key", make)

    results = together(8, work)

    assert set(map(id, results)) == set(map(id, made))


def test_other_keys_do_not_wait():
    flights: SingleFlight[str] = SingleFlight()

    assert flights.run("a", lambda: flights.run("b", lambda: "inner") + "outer") == "innerouter"


def test_a_failure_is_the_callers_alone_and_the_next_tries_again():
    flights: SingleFlight[int] = SingleFlight()
    entered = threading.Semaphore(0)
    attempts = []

    def make():
        attempts.append(len(attempts))
        entered.release()
        if len(attempts) == 1:
            second_waits.wait()
            raise RuntimeError("the first fails")
        return 5

    second_waits = threading.Event()

    def work(number):
        if number == 1:
            entered.acquire()
            second_waits.set()
        return flights.run("key", make)

    results = together(2, work)

    assert isinstance(results[0], RuntimeError)
    assert results[1] == 5
    assert attempts == [0, 1]


def test_a_thread_does_not_wait_for_itself():
    flights: SingleFlight[int] = SingleFlight()
    depth = []

    def make():
        depth.append(1)
        return flights.run("key", make) + 1 if len(depth) < 3 else 1

    assert flights.run("key", make) == 3
    assert flights.run("key", lambda: 9) == 9


def test_nothing_is_kept_after_the_end():
    flights: SingleFlight[int] = SingleFlight()

    assert [flights.run("key", lambda n=n: n) for n in range(3)] == [0, 1, 2]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_a_thread_of_its_parent():
    flights: SingleFlight[int] = SingleFlight()
    inside, done = threading.Event(), threading.Event()

    def make():
        inside.set()
        done.wait()
        return 1

    thread = threading.Thread(target=flights.run, args=("key", make))
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        os._exit(flights.run("key", lambda: 42))
    _, status = os.waitpid(child, 0)
    done.set()
    thread.join()

    assert os.waitstatus_to_exitcode(status) == 42


def test_control_c_at_any_moment_leaves_nothing_that_others_wait_for():
    flights: SingleFlight[int] = SingleFlight()
    results = []
    places = 0

    for places in interrupted(lambda: flights.run("key", lambda: 1)):
        other = threading.Thread(target=lambda: results.append(flights.run("key", lambda: 2)), daemon=True)
        other.start()
        other.join(LIMIT)

        assert results == [2] * places

    assert places > 5
