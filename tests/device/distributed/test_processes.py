"""Groups of processes: what the others see of one that fails, and how all end."""

from __future__ import annotations

import re

import pytest

from .started_ranks import ENDS_WITHIN, LAUNCHERS

pytestmark = pytest.mark.timeout(ENDS_WITHIN + 200)  # so that ranks that do not end say where they are

WAYS = pytest.mark.parametrize("small", [None, 0], ids=["one shot", "NCCL"])


@WAYS
@pytest.mark.ranks(2)
def test_a_rank_that_is_killed_is_named_to_the_others(start, small):
    ended = start("killed", LAUNCHERS["torchrun"], small=small)

    last = len(ended) - 1
    for status, output in ended[:-1]:
        assert status == 0, output
        assert f"told rank {last} of {len(ended)} ranks is gone" in output
    assert ended[-1][0] == -9


@pytest.mark.thin
@pytest.mark.parametrize(
    ("scene", "small"), [("leaves_early", None), ("leaves_early", 0), ("leaves_before_the_first", 0)]
)
@pytest.mark.ranks(2)
def test_a_rank_that_leaves_too_early_is_named(start, scene, small):
    ended = start(scene, LAUNCHERS["torchrun"], small=small)

    for status, output in ended[:-1]:
        assert status == 0, output
        # Others that have been told may have left, too. Its close may wait for NCCL, and so for the others.
        left = re.search(rf"ranks? (\d+, )*{len(ended) - 1} left the group while rank", output)
        assert left or f"rank {len(ended) - 1} has closed its communicator after" in output


@pytest.mark.thin
@pytest.mark.parametrize(
    ("scene", "small", "collectives"),
    [("closes_early", 1 << 13, 1), ("closes_early", 0, 1), ("closes_before_the_first", 0, 0)],
)
def test_a_rank_that_closes_its_communicator_too_early_is_named(both, scene, small, collectives):
    output, _ = both(scene, small)

    assert f"rank 1 has closed its communicator after collective {collectives}\n" in output
    assert "closed [1, 1]" in output


@pytest.mark.thin
@pytest.mark.parametrize("small", [0, None])
@pytest.mark.emulator
def test_ranks_whose_operations_differ_are_told_them(both, small):
    printed = both("other_operations", small)

    assert any("rank 1 was given others: its last is all_reduce of 8 f32 by max" in output for output in printed)


@pytest.mark.thin
@pytest.mark.parametrize(("scene", "small"), [("other_orders", 0), ("other_sizes", 0), ("other_sizes", None)])
@pytest.mark.emulator
def test_ranks_that_do_not_agree_are_told_in_words(both, scene, small):
    printed = both(scene, small)

    assert all("told" in output for output in printed), printed
    assert any("rank 0 was given others" in output or "rank 1 was given others" in output for output in printed)


@pytest.mark.thin
@WAYS
def test_graphs_are_replayed_many_times(start, gpus, small):
    for status, output in start("graphs", LAUNCHERS["torchrun"], min(gpus, 2), small=small):
        assert status == 0, output
        assert "graphs hold, and then the communicator is closed" in output


@pytest.mark.thin
@WAYS
@pytest.mark.ranks(2)
def test_a_rank_that_is_killed_in_a_replay_is_named_to_the_others(start, small):
    ended = start("killed_in_a_replay", LAUNCHERS["torchrun"], small=small)

    for status, output in ended[:-1]:
        assert status == 0, output
        assert f"told rank {len(ended) - 1} of {len(ended)} ranks is gone" in output
        assert "refused from then on" in output
        assert "closed [1, 1]" in output
    assert ended[-1][0] == -9


@pytest.mark.thin
@pytest.mark.ranks(2)
def test_a_rank_that_is_gone_before_the_first_replay_is_named(start):
    ended = start("killed_before_a_replay", LAUNCHERS["torchrun"], 2)

    status, output = ended[0]
    assert status == 0, output
    assert "told rank 1 of 2 ranks is gone: rank 0 " in output


@pytest.mark.thin
@pytest.mark.parametrize("scene", ["first_killed_in_a_group", "first_killed_behind"])
@pytest.mark.ranks(2)
def test_rank_0_that_is_killed_is_named_to_all_others(start, scene):
    ended = start(scene, LAUNCHERS["torchrun"])

    assert ended[0][0] == -9
    for status, output in ended[1:]:
        assert status == 0, output
        told = [line for line in output.splitlines() if line.startswith("told")]
        assert told, output
        assert all(line.startswith(f"told rank 0 of {len(ended)} ranks is gone") for line in told), output


@pytest.mark.thin
@pytest.mark.ranks(2)
def test_where_rank_0_is_stopped_every_wait_of_the_others_ends_at_its_limit(start, gpus):
    ended = start("first_stopped", LAUNCHERS["torchrun"], min(gpus, 3), stopped=0)

    for status, output in ended[1:]:
        assert status == 0, output
        replay, collective, join = (line for line in output.splitlines() if line.startswith("told"))
        no_answer = "rank 0, where they meet, does not answer"
        assert no_answer in replay
        assert "to replay a graph with collectives" in replay
        assert "has not ended after" in collective
        assert "rank 0, which knows what the others have been given, does not answer" in collective
        assert no_answer in join


@pytest.mark.thin
def test_ranks_killed_while_they_record_are_named_at_the_replay(start, gpus):
    if gpus < 4:
        return
    ended = start("two_killed_in_recordings", LAUNCHERS["torchrun"], 4)

    for status, output in ended[1:3]:
        assert status == 0, output
        assert re.search("told (rank [03] of 4 ranks is|ranks 0, 3 of 4 ranks are) gone", output), output


@pytest.mark.thin
@pytest.mark.emulator
def test_forks_of_a_rank_are_no_ranks(start):
    ended = start("forked", LAUNCHERS["torchrun"], 2)

    assert ended[1][0] == -9
    for rank, (_, output) in enumerate(ended):
        assert f"child this process is a fork of the one that is rank {rank}, and cannot be a rank" in output
    status, output = ended[0]
    assert status == 0, output
    assert "told rank 1 of 2 ranks is gone" in output


@pytest.mark.thin
@pytest.mark.parametrize(
    ("scene", "small", "words"),
    [
        ("interrupted", None, "interrupted True [1, 1]"),
        ("interrupted", 0, "interrupted True [1, 1]"),
        ("late_replay", None, "to replay a graph with collectives, and rank 1 of 2 did not come"),
    ],
)
def test_a_wait_for_a_rank_ends_by_ctrl_c_and_at_the_limit(both, scene, small, words):
    first, _ = both(scene, small)

    assert words in first


@pytest.mark.thin
@WAYS
@pytest.mark.parametrize("scene", ["gone_before_a_close", "gone_in_a_close"])
@pytest.mark.ranks(2)
def test_a_close_does_not_wait_for_a_rank_that_is_gone(start, gpus, scene, small, monkeypatch):
    monkeypatch.setenv("FAKE_NCCL_WAITS_FOR_GONE", "1")
    ended = start(scene, LAUNCHERS["torchrun"], min(gpus, 3), small=small)

    assert ended[-1][0] == -9
    for status, output in ended[:-1]:
        assert status == 0, output
        assert "closed [1, 1]" in output


@pytest.mark.thin
def test_ctrl_c_ends_a_call_in_which_nccl_waits_for_another_rank(both):
    first, _ = both("interrupted_in_the_first")

    assert first.splitlines() == ["interrupted alone True [1, 1]", "interrupted grouped True [1, 1]"]


@pytest.mark.thin
@pytest.mark.emulator
def test_ctrl_c_and_handlers_of_signals_run_in_a_first_replay_in_which_nccl_waits(both):
    first, _ = both("interrupted_in_a_first_replay")

    handled, interrupted = first.splitlines()
    assert handled.startswith("handled this thread is inside a call of the communicator, which NCCL keeps")
    assert interrupted == "interrupted True [1, 1]"


@pytest.mark.thin
@pytest.mark.emulator
def test_a_close_ends_a_first_replay_in_which_nccl_waits(both):
    first, _ = both("closed_in_a_first_replay")

    assert "told the communicator is closed" in first
    assert "usable [1, 1]" in first


@pytest.mark.thin
def test_handlers_of_signals_run_in_a_call_in_which_nccl_waits(both):
    first, _ = both("signalled_in_the_first")

    handled, result = first.splitlines()
    assert handled.startswith("handled this thread is inside a call of the communicator, which NCCL keeps")
    assert result == "sum [2.0, 2.0, 2.0, 2.0]"


@pytest.mark.emulator
def test_a_handler_cannot_close_the_communicator_whose_call_it_is_in_and_the_call_goes_on(both):
    first, _ = both("closed_by_a_handler")

    *handled, usable = first.splitlines()
    assert [line.split(" this")[0] for line in handled] == ["alone False", "grouped False", "replayed False"]
    for line in handled:
        assert "is inside a call of the communicator, which NCCL keeps until other ranks make theirs" in line
        assert line.endswith("close it when that has returned, or raise an exception to end the call")
    assert usable == "usable [1, 1]"


@pytest.mark.thin
@pytest.mark.ranks(2)
def test_a_rank_that_is_killed_before_all_are_connected_is_named(start):
    ended = start("killed_before_the_first", LAUNCHERS["torchrun"])

    assert ended[-1][0] == -9
    for status, output in ended[:-1]:
        assert status == 0, output
        assert f"told rank {len(ended) - 1} of {len(ended)} ranks is gone" in output


@pytest.mark.thin
def test_a_call_in_which_nccl_waits_ends_at_the_limit_with_what_each_has_given(both):
    output, _ = both("never_in_the_first")

    alone, grouped = (line for line in output.splitlines() if line.startswith("told"))
    for line, what in ((alone, "the all_reduce of 4 f32 by add, collective 1,"), (grouped, "collective 2,")):
        assert f"{what} of rank 0 has not ended after" in line
        assert "rank 1 was given none" in line
    assert "usable [1, 1]" in output


@pytest.mark.thin
def test_a_rank_leaves_although_another_one_stays(both):
    first, _ = both("left_alone")

    assert "left True [1, 1]" in first


@pytest.mark.thin
def test_processes_end_with_work_in_flight(both):
    for output in both("ending_with_work_in_flight"):
        assert "ends" in output


@pytest.mark.thin
def test_a_process_ends_behind_the_end_of_its_communicator(both):
    for output in both("ending_before_another"):
        assert "ends" in output


@pytest.mark.emulator
@pytest.mark.thin
def test_a_process_ends_although_another_rank_stays_in_the_group_that_it_has_left(both):
    for output in both("ended_before_another"):
        assert output == "ends\n"


@pytest.mark.thin
def test_ranks_that_recorded_other_steps_are_told_at_the_first_replay(both):
    for output in both("other_steps"):
        assert "collective 2 of rank 0 is none, and of rank 1 all_reduce of 8 i32 by max" in output
        assert "usable" in output


@pytest.mark.thin
@pytest.mark.ranks(2)
def test_a_rank_that_never_comes_is_named(start, tmp_path):
    meeting = {"MEET_IN": str(tmp_path), "MEETING": "2"}
    ended = start("never_coming", lambda *place: LAUNCHERS["torchrun"](*place) | meeting, 3, started=2)

    for status, output in ended:
        assert status == 0, output
        assert re.search("ranks? ([01], )?2 of 3 did not come", output), output  # the other may be late, too


@pytest.mark.thin
def test_rank_0_that_never_comes_is_named(start, tmp_path):
    others = {"LOCAL_RANK": "0", "MEET_IN": str(tmp_path), "MEETING": "1"}
    ((status, output),) = start(
        "never_coming", lambda rank, size, port: LAUNCHERS["torchrun"](1, 2, port) | others, 2, started=1
    )

    assert status == 0, output
    assert "for rank 0 at 127.0.0.1:" in output
    assert "did not come" in output


# ---- small all-reduces over shared memory ----------------------------------------------------------------------------


@pytest.mark.thin
@pytest.mark.parametrize("size", [pytest.param(size, marks=pytest.mark.ranks(size)) for size in (2, 4)])
def test_small_all_reduces_need_no_nccl_between_processes(start, size):
    for status, output in start("small_ones", LAUNCHERS["torchrun"], size):
        assert status == 0, output
        assert "small 8192 \n" in output
        assert "left over []" in output or "left over" not in output
        assert "small ones hold" in output


@pytest.mark.thin
@pytest.mark.emulator
def test_more_ranks_than_small_all_reduces_can_have_use_nccl(start):
    """Nine, of which some share a device."""

    def place(rank: int, size: int, port: int) -> dict[str, str]:
        return LAUNCHERS["torchrun"](rank, size, port) | {"LOCAL_RANK": str(rank % 2)}

    for status, output in start("one_too_many", place, 9):
        assert status == 0, output
        assert output == "sum [36, 36, 36, 36] 0 rank 0: the group has 9 ranks, and at most 8 are possible\n"


@pytest.mark.thin
@pytest.mark.emulator
def test_where_a_rank_cannot_share_memory_all_know_why_and_use_nccl(both):
    for output in both("cannot_share"):
        for words in (
            "cuIpcGetMemHandle 0 rank 1: device 1 cannot share memory with other processes (cuIpcGetMemHandle gave "
            "CUDA_ERROR_NOT_SUPPORTED)",
            "cuIpcOpenMemHandle 0 rank 1: device 1 cannot open the memory of rank 0 (cuIpcOpenMemHandle gave "
            "CUDA_ERROR_NOT_SUPPORTED)",
            "sizes 0 rank 1 was given small=65, and rank 0 small=64",
            "then 64 \n",
        ):
            assert words in output, output
