"""The entry of a worker: a kernel that stays on the device and runs the blocks of others as calls arrive in memory.

A call is a slot of a ring in page-locked memory: 32 words of 8 bytes, each with four bytes of the call and, above them,
the call's number. The first warp loads the first half of them at once, each lane one, and the second half where the
slot says that the call uses it. A word is written and read whole, so a slot
counts as soon as the words that the call uses have its number, in whatever order they arrive (PTX ISA 8.10.2: a
relaxed or acquiring access of 8 aligned bytes is single-copy atomic). Each load acquires, and the barrier after it
passes that on to the block: what the host or other kernels wrote before the call was submitted is seen by plain loads.

The words of a call: how many there are (8 bits) and the number of the kernel; the grid along x; along y and z, 16 bits
each; of a call that is spread over several rings, the part that this slot has, and above 16 bits how many others there
are; then the parameter block, unless it is larger than a slot: then it is in a row of memory beside the ring.
Of n parts, each is every n-th block of the grid. The host waits for the answers to all parts, so blocks of the device
need not know of each other, nor be there at the same time.
A call that waits for other work has a number half a ring lower in its first word until a stream writes the right one;
a launch that has come to such a call ends when it has been busy for long enough, as it does between two calls.
It also ends then, without a call, while another block of the worker is being launched: somebody who waits for the whole
device may hold up that launch, and all callers with it.
When all threads are done, one of them writes the call's number to its place among the answers, releasing everything.
The C layer is the other side (`csrc/worker`).
"""

from __future__ import annotations

from vyre_cuda.codegen.core.lowered import KernelParameter

ENTRY = "vyre_worker_2"  # another number with each change of what the C layer writes to slots: bundles have it
WARP = 32
SLOT_WORDS = 32
HEADER_BYTES = 16  # of a call, before its parameter block
SLOT_PARAMETER_BYTES = SLOT_WORDS * 4 - HEADER_BYTES
MORE_BYTES = 4096  # of the row of a slot, for larger parameter blocks
ANSWER_BYTES = 64  # from one answer to the next: a cache line of the host
STOP = 0xFFFF  # in place of a kernel's number: end after this call
_END = 0xFFFE  # the same, decided here, so that others have their turn
_END_IDLE = 0xFFFD  # because no call came
_POLLS = 64  # between two looks at the clock
WITHHELD = 32  # half of the ring: the number in the first word of a call that is not to begin yet is so much lower
# (name, word) of the entry's parameters: the ring, the answers, the rows of larger calls, where the end is noted; the
# number of a call that this launch must have answered before it ends, unless it is idle; the number of slots less 1,
# the number of this launch; how many bytes the end is noted behind that of the first ring, beside which is a word that
# is not 0 while a block is being launched; nanoseconds without a call and nanoseconds in all after which it ends. The
# first call is the one that the launch before this one has noted: so a launch can be queued before that has ended.
PARAMETERS = (
    ("worker_slots", "u64"),
    ("worker_answers", "u64"),
    ("worker_more", "u64"),
    ("worker_ended", "u64"),
    ("worker_until", "u32"),
    ("worker_mask", "u32"),
    ("worker_launch", "u32"),
    ("worker_behind", "u32"),
    ("worker_idle", "u64"),
    ("worker_busy", "u64"),
)
_FULL = "0xffffffff"
LAUNCHING = 64  # bytes from the place where the first ring notes its end to the word about launches


class Resident:
    """How one kernel of a worker finds its block number, grid and parameters, and what ends and orders its threads.

    `number` is that of the kernel, `threads` those of the worker's block, of which the kernel uses the first.
    """

    def __init__(self, number: int, block: tuple[int, int, int], threads: int) -> None:
        self.number = number
        self._block = block
        self._own = block[0] * block[1] * block[2]
        self._all = threads
        self.leave = f"bra $W{number}_left;"
        self.barrier = "bar.sync 0;" if self._own == threads else f"bar.sync 1, {self._own};"
        self.names = {
            **{f"%ctaid.{axis}": f"%w_{axis}" for axis in "xyz"},
            **{f"%nctaid.{axis}": f"%w_n{axis}" for axis in "xyz"},
        }
        if block[1] > 1 or block[2] > 1:
            self.names.update({f"%tid.{axis}": f"%w_t{axis}" for axis in "xyz"})

    def load(self, parameter: KernelParameter, word: str) -> str:
        """The instruction that loads a parameter, with %s in place of its destination."""
        return f"ld.shared.{word} %s, [worker_call+{HEADER_BYTES + parameter.offset}];"

    def lines(self, body: list[str], parameter_bytes: int, *, shares: bool) -> list[str]:
        """The kernel: `body` for each block of the grid. `shares`: blocks use the same shared memory."""
        k = self.number
        lines = [f"$W{k}:"]
        if parameter_bytes > SLOT_PARAMETER_BYTES:
            lines += self._parameters(parameter_bytes)
        if self._own < self._all:
            lines += [f"  setp.ge.u32 %w_p, %w_tid, {self._own};", "  @%w_p bra $W_done;"]
        lines += [*self._thread(), "  mov.u32 %w_x, %w_part;", "  mov.u32 %w_y, 0;", "  mov.u32 %w_z, 0;"]
        return [
            *lines,
            f"$W{k}_at:",  # %w_x is where the row before has ended, or beyond
            "  setp.lt.u32 %w_p, %w_x, %w_nx;",
            f"  @%w_p bra $W{k}_block;",
            "  sub.u32 %w_x, %w_x, %w_nx;",
            "  add.u32 %w_y, %w_y, 1;",
            "  setp.lt.u32 %w_p, %w_y, %w_ny;",
            f"  @%w_p bra $W{k}_at;",
            "  mov.u32 %w_y, 0;",
            "  add.u32 %w_z, %w_z, 1;",
            "  setp.lt.u32 %w_p, %w_z, %w_nz;",
            f"  @%w_p bra $W{k}_at;",
            "  bra $W_done;",
            f"$W{k}_block:",
            *body,
            f"$W{k}_left:",
            *([f"  {self.barrier}"] if shares else []),
            "  add.u32 %w_x, %w_x, %w_parts;",
            f"  bra $W{k}_at;",
        ]

    def _thread(self) -> list[str]:
        """The thread's number along each axis of the kernel's block."""
        if "%tid.x" not in self.names:
            return []
        x, y, _ = self._block
        return [
            f"  rem.u32 %w_tx, %w_tid, {x};",
            f"  div.u32 %w_ty, %w_tid, {x};",
            f"  div.u32 %w_tz, %w_ty, {y};",
            f"  rem.u32 %w_ty, %w_ty, {y};",
        ]

    def _parameters(self, parameter_bytes: int) -> list[str]:
        """All threads copy a parameter block that is larger than a slot."""
        k = self.number
        return [
            "  and.b32 %w_i, %w_call, %w_mask;",
            f"  mad.wide.u32 %w_at, %w_i, {MORE_BYTES}, %w_more;",
            "  mov.u32 %w_i, %w_tid;",
            f"$W{k}_copy:",
            f"  setp.ge.u32 %w_p, %w_i, {-(-parameter_bytes // 4)};",
            f"  @%w_p bra $W{k}_copied;",
            "  mad.wide.u32 %w_word, %w_i, 4, %w_at;",
            "  ld.global.u32 %w_low, [%w_word];",
            "  mad.lo.u32 %w_high, %w_i, 4, %w_shared;",
            f"  st.shared.u32 [%w_high+{HEADER_BYTES}], %w_low;",
            f"  add.u32 %w_i, %w_i, {self._all};",
            f"  bra $W{k}_copy;",
            f"$W{k}_copied:",
            "  bar.sync 0;",
        ]


def entry_lines(kernels: list[list[str]], threads: int, call_bytes: int) -> list[str]:
    """The entry around its kernels; `call_bytes` are those of the largest parameter block."""
    declared = ",\n".join(f"  .param .{word} {name}" for name, word in PARAMETERS)
    return [
        f".visible .entry {ENTRY}(\n{declared}\n)",
        f".reqntid {threads}, 1, 1",
        "{",
        "  .reg .pred %w_p, %w_q, %w_idle, %w_rest, %w_near, %w_late;",
        "  .reg .b32 %w_tid, %w_call, %w_until, %w_mask, %w_launch, %w_i, %w_low, %w_high, %w_polls, %w_shared;",
        "  .reg .b32 %w_part, %w_parts;",
        "  .reg .b32 %w_kernel, %w_x, %w_y, %w_z, %w_nx, %w_ny, %w_nz, %w_tx, %w_ty, %w_tz;",
        "  .reg .b64 %w_slots, %w_answers, %w_more, %w_ended, %w_first, %w_limit, %w_busy;",
        "  .reg .b64 %w_at, %w_word, %w_began, %w_since, %w_now;",
        f"  .shared .align 16 .b8 worker_call[{max(SLOT_WORDS * 4, HEADER_BYTES + call_bytes + 15 & ~15)}];",
        *_begin(),
        *_wait_for_call(),
        *_dispatch(len(kernels)),
        *(line for kernel in kernels for line in kernel),
        *_answer(),
        "}",
    ]


def _begin() -> list[str]:
    lines = ["  mov.u32 %w_tid, %tid.x;", "  mov.u32 %w_shared, worker_call;"]
    for name in ("slots", "answers", "more", "ended"):
        lines += [f"  ld.param.u64 %w_{name}, [worker_{name}];", f"  cvta.to.global.u64 %w_{name}, %w_{name};"]
    return [
        *lines,
        "  ld.param.u64 %w_limit, [worker_idle];",
        "  ld.param.u64 %w_busy, [worker_busy];",
        "  ld.param.u32 %w_until, [worker_until];",
        "  ld.acquire.sys.global.u64 %w_word, [%w_ended];",
        "  cvt.u32.u64 %w_call, %w_word;",
        "  ld.param.u32 %w_mask, [worker_mask];",
        "  ld.param.u32 %w_launch, [worker_launch];",
        "  ld.param.u32 %w_i, [worker_behind];",
        "  cvt.u64.u32 %w_first, %w_i;",
        "  sub.u64 %w_first, %w_ended, %w_first;",
        f"  setp.ge.u32 %w_rest, %w_tid, {WARP};",
        "  mov.u64 %w_began, %globaltimer;",
    ]


def _wait_for_call() -> list[str]:
    """The first warp polls the slot of the next call; the others wait for it."""
    return [
        "$W_next:",
        "  @%w_rest bra $W_wait;",
        "  mov.u64 %w_since, %globaltimer;",
        "  sub.u64 %w_now, %w_since, %w_began;",
        "  sub.s32 %w_i, %w_call, %w_until;",
        "  setp.gt.s32 %w_q, %w_i, 0;",
        "  setp.gt.and.s64 %w_q, %w_now, %w_busy, %w_q;",
        f"  vote.sync.any.pred %w_p, %w_q, {_FULL};",
        "  @%w_p bra $W_end;",
        "  and.b32 %w_i, %w_call, %w_mask;",
        f"  mad.wide.u32 %w_at, %w_i, {SLOT_WORDS * 8}, %w_slots;",
        "  mad.wide.u32 %w_at, %w_tid, 8, %w_at;",
        "  mov.u32 %w_polls, 0;",
        "  not.b32 %w_high, %w_call;",
        "  mov.b64 %w_word, {%w_high, %w_high};",  # of lanes that load nothing: another number
        f"  setp.lt.u32 %w_near, %w_tid, {SLOT_WORDS // 2};",
        "$W_poll:",
        "  @%w_near ld.acquire.sys.global.u64 %w_word, [%w_at];",
        "  mov.b64 {%w_low, %w_high}, %w_word;",
        f"  shfl.sync.idx.b32 %w_i, %w_low, 0, 31, {_FULL};",
        "  and.b32 %w_i, %w_i, 255;",
        "  max.u32 %w_i, %w_i, 1;",  # so that the first word, from which this is, counts too
        "  setp.ge.u32 %w_p, %w_tid, %w_i;",
        "  setp.eq.u32 %w_q, %w_high, %w_call;",
        "  or.pred %w_q, %w_q, %w_p;",
        f"  vote.sync.all.pred %w_p, %w_q, {_FULL};",
        "  @%w_p bra $W_taken;",
        # If this was the header of an earlier call, more is loaded than is needed.
        f"  max.u32 %w_i, %w_i, {SLOT_WORDS // 2};",
        "  setp.lt.u32 %w_near, %w_tid, %w_i;",
        "  add.u32 %w_polls, %w_polls, 1;",
        f"  and.b32 %w_i, %w_polls, {_POLLS - 1};",
        "  setp.ne.u32 %w_p, %w_i, 0;",
        "  @%w_p bra $W_poll;",
        "  mov.u64 %w_word, %globaltimer;",
        "  sub.u64 %w_now, %w_word, %w_began;",
        "  sub.s32 %w_i, %w_call, %w_until;",
        "  setp.gt.s32 %w_late, %w_i, 0;",
        "  setp.gt.and.s64 %w_late, %w_now, %w_busy, %w_late;",
        f"  sub.u32 %w_i, %w_call, {WITHHELD};",
        "  setp.eq.and.u32 %w_p, %w_high, %w_i, %w_late;",
        "  mov.u32 %w_i, 0;",
        f"  @%w_late ld.relaxed.sys.global.u32 %w_i, [%w_first+{LAUNCHING}];",
        "  setp.ne.u32 %w_q, %w_i, 0;",
        "  or.pred %w_late, %w_p, %w_q;",
        f"  vote.sync.any.pred %w_late, %w_late, {_FULL};",
        "  @%w_late bra $W_end;",
        "  sub.u64 %w_now, %w_word, %w_since;",
        "  setp.gt.s64 %w_q, %w_now, %w_limit;",  # signed: the clocks of two reads may differ
        f"  vote.sync.any.pred %w_idle, %w_q, {_FULL};",
        "  not.b32 %w_high, %w_call;",
        "  mov.b64 %w_word, {%w_high, %w_high};",
        "  @!%w_idle bra $W_poll;",
        f"  mov.u32 %w_low, {_END_IDLE << 8};",
        "  bra $W_taken;",
        "$W_end:",
        f"  mov.u32 %w_low, {_END << 8};",
        "$W_taken:",
        "  mad.lo.u32 %w_i, %w_tid, 4, %w_shared;",
        "  st.shared.u32 [%w_i], %w_low;",
        "$W_wait:",
        "  bar.sync 0;",
    ]


def _dispatch(count: int) -> list[str]:
    lines = [
        "  ld.shared.v4.u32 {%w_kernel, %w_nx, %w_ny, %w_i}, [worker_call];",
        "  shr.u32 %w_kernel, %w_kernel, 8;",
        "  shr.u32 %w_nz, %w_ny, 16;",
        "  and.b32 %w_ny, %w_ny, 65535;",
        "  and.b32 %w_part, %w_i, 65535;",
        "  shr.u32 %w_parts, %w_i, 16;",
        "  add.u32 %w_parts, %w_parts, 1;",
    ]
    for number in range(count):
        lines += [f"  setp.eq.u32 %w_p, %w_kernel, {number};", f"  @%w_p bra $W{number};"]
    return [
        *lines,
        "  setp.ne.u32 %w_p, %w_tid, 0;",
        "  @%w_p ret;",
        f"  setp.ne.u32 %w_p, %w_kernel, {STOP};",
        "  @%w_p bra $W_note;",
        *_answer_line(),
        "  st.release.sys.global.u32 [%w_at], %w_call;",
        "  add.u32 %w_call, %w_call, 1;",
        "$W_note:",  # why it ends, and the call with which the next launch begins
        "  cvt.u64.u32 %w_word, %w_kernel;",
        "  st.global.u64 [%w_ended+8], %w_word;",
        "  mov.b64 %w_word, {%w_call, %w_launch};",
        "  st.release.sys.global.u64 [%w_ended], %w_word;",
        "  ret;",
    ]


def _answer() -> list[str]:
    return [
        "$W_done:",
        "  bar.sync 0;",
        *_answer_line(),
        "  setp.eq.u32 %w_p, %w_tid, 0;",
        "  @%w_p st.release.sys.global.u32 [%w_at], %w_call;",
        "  add.u32 %w_call, %w_call, 1;",
        "  bra $W_next;",
    ]


def _answer_line() -> list[str]:
    """Where the call is answered."""
    return [
        "  and.b32 %w_i, %w_call, %w_mask;",
        f"  mad.wide.u32 %w_at, %w_i, {ANSWER_BYTES}, %w_answers;",
    ]
