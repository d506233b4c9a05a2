"""The kernels of a closure: rows meet in a hash table, and their classes in a forest.

`parent` has a tree for each class found so far, whose root is its least member. `slots` is a hash table with linear
probing: an entry is the upper half of a row's hash, and the number of the row. Rows are compared exactly, so a hash
that two rows share costs time alone.
"""

from __future__ import annotations

import vyre_cuda as vc

FREE = 2**64 - 1
# Rows with more children are read by a warp each.
FEW = 32
WARP, WARPS = 32, 8  # threads of a warp, warps of a block
# state: 0 if the last round merged something; rounds; and what ends the loop: the first, or that it was the last one.
STEADY, ROUNDS, STOP = 0, 1, 2
STATE = 3


@vc.func
def mixed(value):
    """A number of 64 bits all of whose bits depend on all bits of `value` (the finalizer of MurmurHash3)."""
    value = (value ^ (value >> 33)) * 0xFF51AFD7ED558CCD
    value = (value ^ (value >> 33)) * 0xC4CEB9FE1A85EC53
    return value ^ (value >> 33)


@vc.func
def placed(child, position):
    """What one child adds to the hash of a row."""
    return mixed((vc.u64(child) << 32 | vc.u64(position)) + 0x9E3779B97F4A7C15)


@vc.func
def root(parent, index):
    at = vc.u32(index)
    above = vc.atomic_load(parent, at)
    while above != at:
        at = above
        above = vc.atomic_load(parent, at)
    return at


@vc.func
def equal(children, here, there, length):
    """Whether two rows of one length have the same children."""
    k = vc.u32(0)
    while k < length and children[here + k] == children[there + k]:
        k += 1
    return k == length


@vc.func
def taken(slots, slot, entry):
    """What is in a slot; if it was free, `entry` is now."""
    found = vc.atomic_load(slots, slot)
    if found == FREE:
        found = vc.atomic_compare_exchange(slots, slot, FREE, entry)
    return found


@vc.func
def after(slots, slot):
    return slot + 1 if slot + 1 < vc.u64(slots.size) else vc.u64(0)


@vc.func
def merge(parent, left, right, state):
    """Make two classes one, and say so if they were two."""
    a, b = root(parent, left), root(parent, right)
    while a != b:
        high, low = vc.maximum(a, b), vc.minimum(a, b)
        above = vc.atomic_compare_exchange(parent, high, high, low)
        if above == high:
            if vc.atomic_load(state, STEADY) != 0:  # one address for all: most threads need not write it
                vc.atomic_store(state, STEADY, 0)
            break
        # Another thread has put `high` below something since.
        a, b = root(parent, above), root(parent, low)


@vc.kernel(block=256)
def start(parent: vc.Out[vc.u32], live: vc.Out[vc.u8], state: vc.Out[vc.u32]):
    i = vc.work(vc.maximum(parent.size, live.size))
    parent[i] = vc.u32(i)
    live[i] = 1
    if i < STATE:
        state[i] = 0


@vc.kernel(block=256)
def descend(parent: vc.In[vc.u32], children: vc.InOut[vc.u32], state: vc.InOut[vc.u32]):
    """The first kernel of a round: each child becomes the least member of its class."""
    i = vc.work(vc.maximum(children.size, 1))
    children[i] = parent[children[i]]
    if i == 0:
        state[STEADY] = 1
        state[ROUNDS] += 1


@vc.kernel(block=256)
def meet(
    ops: vc.In[vc.u32],
    offsets: vc.In[vc.u32],
    lengths: vc.In[vc.u32],
    row_class: vc.In[vc.u32],
    children: vc.In[vc.u32],
    live: vc.InOut[vc.u8],
    slots: vc.InOut[vc.u64],
    parent: vc.InOut[vc.u32],
    state: vc.InOut[vc.u32],
):
    """Each row with few children looks for one with the same operation and children, or becomes the one to be found."""
    i = vc.work(ops.size)
    if i >= ops.size or live[i] == 0 or lengths[i] > FEW:
        return
    length, offset = lengths[i], offsets[i]
    total = mixed(vc.u64(ops[i]) << 32 | vc.u64(length))
    for k in range(length):
        total += placed(children[offset + k], k)
    key = mixed(total)
    entry = (key >> 32) << 32 | vc.u64(i)
    slot = vc.multiply_high(key << 32, vc.u64(slots.size))
    while True:
        found = taken(slots, slot, entry)
        if found == FREE:
            break
        j = vc.u32(found)
        same = found >> 32 == entry >> 32 and ops[j] == ops[i] and lengths[j] == length
        if same and equal(children, offset, offsets[j], length):
            live[i] = 0
            merge(parent, row_class[i], row_class[j], state)
            break
        slot = after(slots, slot)


@vc.kernel(block=WARPS * WARP)
def meet_long(
    rows: vc.In[vc.u32],
    ops: vc.In[vc.u32],
    offsets: vc.In[vc.u32],
    lengths: vc.In[vc.u32],
    row_class: vc.In[vc.u32],
    children: vc.In[vc.u32],
    live: vc.InOut[vc.u8],
    slots: vc.InOut[vc.u64],
    parent: vc.InOut[vc.u32],
    state: vc.InOut[vc.u32],
):
    """The same for `rows`, those with many children, each of which a warp reads."""
    vc.work(rows.size * WARP)
    lane = vc.thread_id.x % WARP
    at = vc.block_id.x * WARPS + vc.thread_id.x // WARP
    i = rows[at]
    going = vc.any(at < rows.size and live[i] != 0)
    length, offset = lengths[i], offsets[i]
    part = vc.u64(0)
    for k in range(lane, vc.i32(length), WARP):
        part += placed(children[offset + vc.u32(k)], k)
    key = mixed(mixed(vc.u64(ops[i]) << 32 | vc.u64(length)) + vc.warp_reduce(part, "add"))
    entry = (key >> 32) << 32 | vc.u64(i)
    slot = vc.multiply_high(key << 32, vc.u64(slots.size))
    while going:
        found = vc.u64(0)
        if lane == 0:
            found = taken(slots, slot, entry)
        found = vc.broadcast(found, 0)
        j = vc.u32(found)
        if found == FREE:
            going = vc.bool_(False)
        elif found >> 32 == entry >> 32 and ops[j] == ops[i] and lengths[j] == length:
            other, first, same = offsets[j], vc.u32(0), vc.bool_(True)
            while same and first < length:
                here = first + vc.u32(lane)
                same = vc.all(here >= length or children[offset + here] == children[other + here])
                first += WARP
            if same:
                going = vc.bool_(False)
                if lane == 0:
                    live[i] = 0
                    merge(parent, row_class[i], row_class[j], state)
        slot = after(slots, slot)


@vc.kernel(block=256)
def flatten(parent: vc.InOut[vc.u32], limit: vc.u32, state: vc.InOut[vc.u32]):
    """The last kernel of a round: each class below its root."""
    i = vc.work(parent.size)
    if i < parent.size:
        above = root(parent, i)
        vc.atomic_store(parent, i, above)
    if i == 0:
        state[STOP] = vc.u32(state[STEADY] != 0 or state[ROUNDS] >= limit)


@vc.kernel(block=256)
def name(
    ids: vc.In[vc.u32],
    parent: vc.In[vc.u32],
    row_class: vc.In[vc.u32],
    state: vc.In[vc.u32],
    classes: vc.Out[vc.u32],
    report: vc.Out[vc.u32],
):
    i = vc.work(vc.maximum(classes.size, report.size))
    classes[i] = ids[parent[row_class[i]]]
    report[i] = state[i]
