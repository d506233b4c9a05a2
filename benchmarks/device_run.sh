#!/usr/bin/env bash
# Everything that needs a GPU, in one go and without network: install, test, measure.
#
#   OUT=folder benchmarks/device_run.sh [--commit NAME] [--peers all|none|LIST] [--rows LIST] [--quick] [PART ...]
#
# Parts, each under ten minutes:
#   install      the package, from this tree
#   tests        tests/device but the random programs, in six processes
#   hosts        programs in C and C++: contexts, streams and memory of their own, a minute without a stop, the examples
#   random       VYRE_RANDOM_PROGRAMS random programs (20000) against the interpreter, in $VYRE_RANDOM_JOBS processes
#   independent  tests/independent: random programs against an oracle of their own, in one process per core, for
#                VYRE_INDEPENDENT_SECONDS (300) or until VYRE_INDEPENDENT_PROGRAMS are done
#   grown        instances of each rewriting rule and type against the interpreter, VYRE_GROWN_FIRED (640) in which it
#                fires, in $VYRE_RANDOM_JOBS processes
#   recordings   VYRE_RECORDINGS random graphs (20000) with fusing and without, in $VYRE_RANDOM_JOBS processes, with how
#                often each kind of merge and each refusal came up
#   conformance  the op tests, with the number of cases of each op and type recorded
#   demo         the command line's demonstration
#   silicon      what this GPU answers to every instruction form
#   fold         tests/silicon/fold.py: instruction forms with operands that the compiler can fold
#   bench        benchmarks/bench_dispatch.py
#   curves       benchmarks/curves.py: calls over the number of arguments, streams, threads, bound calls, waiting blocks
#   many         benchmarks/bench_many.py: many small launches of one kernel as one
#   downloads    benchmarks/bench_downloads.py: scattered ranges by copies and by a kernel
#   gather       benchmarks/probes/gather.c: from how many ranges of how many bytes on a kernel reads them faster
#   shared       benchmarks/probes/shared_graphs.c: whether graphs with many branches end where VYRE_SHARED_PROCESSES (12)
#                share the GPU, with the driver alone; for a minute as graphs are launched here, and for another with an
#                upload before the first launch, which the driver does not wait for
#   transports   benchmarks/probes/transports.c: where host arguments cost least
#   enqueue      benchmarks/probes/enqueue.c: what stands around an enqueue
#   pageable     benchmarks/probes/pageable.c: how large pageable arrays get through a kernel fastest
#   places       benchmarks/probes/places.c: what the place of a graph in memory makes of its launch
#   awaiting     benchmarks/probes/awaiting.py: the distribution of an awaited call, by the way to wait for it
#   accuracy     benchmarks/math_exhaustive.py, which needs CuPy
#   throughput   benchmarks/bench_math.py, which needs CuPy
#   memory       benchmarks/bench_memory.py: large arrays beside CUDA C++, CuPy and PyTorch
#   algorithms   benchmarks/bench_algorithms.py: sums, scans, sorting and selection beside CuPy, PyTorch and CUB, whose
#                program is VYRE_CUB_PROGRAM or built where nvcc is
#   graphs       benchmarks/bench_graphs.py: graphs whose steps become one kernel, and as recorded
#   several      several GPUs: tests/device/distributed with NCCL, torchrun and mpiexec where they are, the example, and
#                benchmarks/bench_distributed.py; it fails where the machine has one
#   egraph       benchmarks/bench_egraph.py: closures of tables beside a hash-cons in C, and egglog where it is
# "install tests bench" when none is named. A part that fails, or that this tree lacks, does not stop the others; the
# table at the end says so, and the exit status is then 1. Everything goes under $OUT: results/, what parts record, and
# the logs, which are packed last, as few files come back from some machines.
set -u -o pipefail

: "${OUT:?set OUT to a folder for the results}"
cd "$(dirname "$0")/.." || exit 1
mkdir -p "$OUT" || exit 1
OUT=$(cd "$OUT" && pwd)
python=${PYTHON:-python3}
device=${VYRE_BENCH_DEVICE:-cuda}
programs=${VYRE_RANDOM_PROGRAMS:-20000}
jobs=${VYRE_RANDOM_JOBS:-$(nproc)}
commit=
peers=all
quick=()
rows=()
parts=()

while [ $# -gt 0 ]; do
  case $1 in
    --commit) commit=${2:?--commit needs a name}; shift ;;
    --peers) peers=${2:?--peers needs names}; shift ;;
    --rows) rows=(--rows "${2:?--rows needs names}"); shift ;;
    --quick) quick=(--quick) ;;
    install | tests | hosts | random | independent | grown | recordings | conformance | demo | silicon | fold | bench | curves | many | downloads | gather | shared | transports | enqueue | pageable | places | awaiting | accuracy | throughput | memory | algorithms | graphs | several | egraph) parts+=("$1") ;;
    *) echo "unknown: $1" >&2; exit 2 ;;
  esac
  shift
done
[ ${#parts[@]} -gt 0 ] || parts=(install tests bench)
[ -n "$commit" ] || commit=$(git rev-parse --short=12 HEAD 2>/dev/null) || commit=unknown
[ "$device" = cuda ] && export VYRE_CUDA_REQUIRE_GPU=1

part_install() {
  timeout 400 "$python" -m pip install --no-build-isolation --no-deps .
}

# In six processes, on as many GPUs as there are: one after the other they take thirteen minutes on an H200, together
# less than three. What none of the others has is the last one's.
part_tests() {
  local d=tests/device gpus pids=() state=0 pid i=0
  gpus=$(nvidia-smi -L 2>/dev/null | grep -c .)
  local grown=("$d"/numerics/test_{grown_programs,vectors,precision}.py)
  local parity=("$d"/numerics/test_{parity,several_elements,warp}.py)
  local calls=("$d"/{launches,memory,numerics,stats,threads,worker})
  local graphs=("$d"/{documents,faults,frontend,graphs,interop,launch_log})
  local rest=("$d" "${calls[@]/#/--ignore=}" "${graphs[@]/#/--ignore=}" "--ignore=$d/distributed")
  share grown "${grown[@]}"
  share graphs "${graphs[@]}"
  share parity "${parity[@]}"
  share distributed "$d/distributed"
  share calls "${calls[@]}" "${grown[@]/#/--ignore=}" "${parity[@]/#/--ignore=}"
  share others "${rest[@]}"
  for pid in "${pids[@]}"; do wait "$pid" || state=1; done
  return $state
}

# The next process of part_tests, on the next GPU.
share() {
  local gpu=$((i++ % (gpus > 0 ? gpus : 1)))
  CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-$gpu} some_tests "$@" &
  pids+=($!)
}

some_tests() {
  local name=$1 state=0
  shift
  timeout --signal=ABRT --kill-after=15 550 "$python" -m pytest "$@" "--device=$device" -q -p no:cacheprovider \
    -o timeout=120 --deselect tests/device/numerics/test_parity.py::test_random_programs_agree \
    "--junitxml=$OUT/tests-$name.xml" >"$OUT/tests-$name.txt" 2>&1 || state=$?
  tail -n 30 "$OUT/tests-$name.txt"
  return $state
}

# A wheel or a toolkit has cuda.h, which these are compiled with.
part_hosts() {
  timeout 550 "$python" -m pytest tests/native tests/downstream/test_host_examples.py tests/downstream/test_cpp_service.py \
    "--device=$device" --long -q -p no:cacheprovider
}

# Each process draws its own share with its own seed, which pytest prints when a program disagrees.
part_random() {
  local share=$(((programs + jobs - 1) / jobs)) seed=$RANDOM pids=() state=0 job
  echo "$((share * jobs)) programs: $jobs processes of $share, seeds from $seed on"
  for ((job = 0; job < jobs; job++)); do
    VYRE_CUDA_TEST_EXAMPLES=$share timeout 540 "$python" -m pytest "--device=$device" -q -p no:cacheprovider \
      -o timeout=530 "--hypothesis-seed=$((seed + job))" \
      tests/device/numerics/test_parity.py::test_random_programs_agree >"$OUT/random-$job.txt" 2>&1 &
    pids+=($!)
  done
  for ((job = 0; job < jobs; job++)); do
    if wait "${pids[$job]}"; then
      rm -f "$OUT/random-$job.txt"
    else
      state=1
      echo "---- process $job, seed $((seed + job)):"
      tail -n 60 "$OUT/random-$job.txt"
    fi
  done
  cat "$OUT"/random-*.txt >"$OUT/random-failures.txt" 2>/dev/null
  rm -f "$OUT"/random-[0-9]*.txt
  [ $state = 0 ] && rm -f "$OUT/random-failures.txt" && echo "$((share * jobs)) programs agree"
  return $state
}

# A folder of findings would be many files; the seeds of a run are in its summary.
# Processes of a GPU share it without taking turns, which makes 1.2 programs of one.
with_mps() {
  local folder state=0
  command -v nvidia-cuda-mps-control >/dev/null || { "$@"; return; }
  folder=$(mktemp -d)
  CUDA_MPS_PIPE_DIRECTORY=$folder CUDA_MPS_LOG_DIRECTORY=$folder nvidia-cuda-mps-control -d || { "$@"; return; }
  CUDA_MPS_PIPE_DIRECTORY=$folder "$@" || state=$?
  echo quit | CUDA_MPS_PIPE_DIRECTORY=$folder timeout 20 nvidia-cuda-mps-control
  rm -rf "$folder"
  return $state
}

part_independent() {
  local seconds=${VYRE_INDEPENDENT_SECONDS:-300} limit=() state=0
  [ -n "${VYRE_INDEPENDENT_PROGRAMS:-}" ] && seconds=540 && limit=(--programs "$VYRE_INDEPENDENT_PROGRAMS")
  [ -n "${VYRE_INDEPENDENT_SEED:-}" ] && limit+=(--seed "$VYRE_INDEPENDENT_SEED")
  VYRE_CUDA_COMMIT=$commit with_mps timeout 590 "$python" tests/independent/run.py --device "$device" --bundles \
    --seconds "$seconds" --processes "${VYRE_INDEPENDENT_JOBS:-$(nproc)}" --output "$OUT/independent" \
    ${limit[@]+"${limit[@]}"} || state=$?
  mkdir -p "$OUT/results"
  cp "$OUT/independent/summary.json" "$OUT/results/$(date -u +%Y-%m-%dT%H%M%SZ)-independent.json" || state=1
  tar -czf "$OUT/independent.tar.gz" -C "$OUT" independent && rm -rf "$OUT/independent"
  return $state
}

part_grown() {
  mkdir -p "$OUT/results"
  with_mps timeout 590 "$python" -m tests.device.numerics.grown_rules --device "${device/cuda/0}" --processes "$jobs" \
    --fired "${VYRE_GROWN_FIRED:-640}" --output "$OUT/results/$(date -u +%Y-%m-%dT%H%M%SZ)-grown.json"
}

part_recordings() {
  OUT="$OUT/results" with_mps timeout 590 "$python" -m tests.device.graphs.many_recordings --device "$device" \
    --processes "$jobs" --count "${VYRE_RECORDINGS:-20000}" --seconds 450
}

part_conformance() {
  VYRE_CUDA_COMMIT=$commit timeout 550 "$python" -m pytest -m conformance tests/device \
    "--device=$device" -q -p no:cacheprovider "--conformance=$OUT/cuda.json"
}

part_demo() {
  timeout 60 "$python" -m vyre_cuda demo --device "$device"
}

part_silicon() {
  timeout 300 "$python" tests/silicon/record.py "${VYRE_CUDA_DRIVER:-libcuda.so.1}" "$OUT/answers.npz"
}

part_fold() {
  CUDA_CACHE_DISABLE=1 timeout 590 "$python" tests/silicon/fold.py "${VYRE_CUDA_DRIVER:-libcuda.so.1}" \
    --jobs "$jobs" --output "$OUT/fold.jsonl" --limit 540
  local state=$?
  gzip -9 "$OUT/fold.jsonl"
  return $state
}

# Its own limit leaves time to write what there is.
part_bench() {
  timeout 580 "$python" benchmarks/bench_dispatch.py --device "$device" --commit "$commit" --peers "$peers" \
    --limit 450 --output "$OUT/results" ${quick[@]+"${quick[@]}"} ${rows[@]+"${rows[@]}"}
}

part_curves() {
  timeout 280 "$python" benchmarks/curves.py --device "$device" --commit "$commit" --output "$OUT/results" \
    ${quick[@]+"${quick[@]}"}
}

part_many() {
  timeout 280 "$python" benchmarks/bench_many.py --device "$device" --commit "$commit" --output "$OUT/results" \
    ${quick[@]+"${quick[@]}"}
}

part_downloads() {
  timeout 120 "$python" benchmarks/bench_downloads.py --device "$device" --commit "$commit" --output "$OUT/results" \
    ${quick[@]+"${quick[@]}"}
}

part_egraph() {
  timeout 280 "$python" benchmarks/bench_egraph.py --device "$device" --commit "$commit" --output "$OUT/results" \
    ${quick[@]+"${quick[@]}"}
}

# A program of benchmarks/probes with the header of the CUDA wheel or toolkit that the twins are built with.
run_probe() {
  local include
  include=$(cd benchmarks && "$python" -c 'from harness.twins import cuda_include; print(cuda_include())') &&
    "${CC:-cc}" -std=gnu11 -O2 -Icsrc -isystem "$include" "benchmarks/probes/$1.c" benchmarks/raw/support.c \
      -o "$OUT/$1" -ldl -lpthread && mkdir -p "$OUT/results" &&
    timeout 400 "$OUT/$1" "${VYRE_CUDA_DRIVER:-libcuda.so.1}" "${@:2}" \
      >"$OUT/results/$(date -u +%Y-%m-%dT%H%M%SZ)-$1.jsonl" && rm "$OUT/$1"
}

part_gather() {
  run_probe gather ${quick:+3}
}

part_shared() {
  local processes=${VYRE_SHARED_PROCESSES:-12} seconds=60 state=0
  [ -n "${quick:-}" ] && seconds=2
  run_probe shared_graphs "$processes" $seconds 3 32772 32 0 || state=1
  run_probe shared_graphs "$processes" $seconds 3 32772 32 1 || state=1
  return $state
}

part_transports() {
  run_probe transports
}

part_enqueue() {
  run_probe enqueue
}

part_pageable() {
  run_probe pageable
}

part_places() {
  run_probe places
}

part_awaiting() {
  mkdir -p "$OUT/results" && timeout 400 "$python" benchmarks/probes/awaiting.py "$device" |
    tee "$OUT/results/$(date -u +%Y-%m-%dT%H%M%SZ)-awaiting.jsonl"
}

part_accuracy() {
  timeout 580 "$python" benchmarks/math_exhaustive.py --output "$OUT/results"
}

part_throughput() {
  timeout 580 "$python" benchmarks/bench_math.py --output "$OUT/results"
}

part_memory() {
  timeout 180 "$python" benchmarks/bench_memory.py --output "$OUT/results" --device "${device/cuda/0}"
}

part_algorithms() {
  timeout 120 "$python" benchmarks/bench_algorithms.py --output "$OUT/results" --device "${device/cuda/0}" \
    ${VYRE_CUB_PROGRAM:+--cub "$VYRE_CUB_PROGRAM"}
}

part_graphs() {
  timeout 120 "$python" benchmarks/bench_graphs.py --output "$OUT/results" --device "${device/cuda/0}" \
    ${quick[@]+"${quick[@]}"}
}

# Commands that are not there are said to be missing, and their tests are left out by their marks.
part_several() {
  local gpus
  gpus=$("$python" -c "import vyre_cuda as vc; print(sum(info.kind == '$device' for info in vc.devices()))") || return 1
  nvidia-smi topo -m 2>/dev/null
  echo "$gpus devices; mpiexec: $(command -v mpiexec || echo missing); NCCL: $("$python" -c \
    'from vyre_cuda.distributed.library import open_nccl; from vyre_cuda._native.collective.collective import nccl_version; open_nccl(); print(nccl_version())' 2>&1 | tail -n 1)"
  [ "$gpus" -gt 1 ] || { echo "two GPUs are needed"; return 1; }
  local state=0
  timeout 280 "$python" -m pytest tests/device/distributed tests/device/threads/test_peers.py "--device=$device" -q -p no:cacheprovider --durations=5 \
    "--junitxml=$OUT/several.xml" || state=1
  timeout 60 "$python" examples/ranks.py --device "$device" --ranks "$gpus" || state=1
  timeout 180 "$python" benchmarks/bench_distributed.py --device "$device" --commit "$commit" --output "$OUT/results" \
    ${quick[@]+"${quick[@]}"} || state=1
  return $state
}

describe_machine() {
  echo "commit $commit"
  uname -sm
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || echo "no nvidia-smi"
  "$python" --version
}

describe_machine >"$OUT/machine.txt" 2>&1
table=()
failed=0
for part in "${parts[@]}"; do
  begin=$SECONDS
  if "part_$part" >"$OUT/$part.log" 2>&1; then
    state=good
  else
    state="FAILED ($?)"
    failed=1
    echo "==== $part failed; the end of $part.log:"
    tail -n 30 "$OUT/$part.log"
  fi
  table+=("$(printf '%-12s %-14s %5d s' "$part" "$state" $((SECONDS - begin)))")
done

for part in tests hosts random independent grown recordings conformance demo bench curves many downloads gather shared awaiting accuracy throughput memory algorithms graphs several; do
  [ -s "$OUT/$part.log" ] || continue
  echo "==== $part"
  case $part in
    tests) for share in "$OUT"/tests-*.txt; do tail -n 1 "$share"; done ;;
    hosts | conformance) tail -n 3 "$OUT/$part.log" ;;
    random) head -n 1 "$OUT/random.log"; tail -n 1 "$OUT/random.log" ;;
    grown) tail -n 12 "$OUT/grown.log" ;;
    recordings) tail -n 60 "$OUT/recordings.log" ;;
    independent) tail -n 20 "$OUT/independent.log" ;;
    demo) tail -n 30 "$OUT/demo.log" ;;
    bench | awaiting | curves | many | downloads | gather | shared | accuracy | throughput | memory | algorithms | graphs | several) cat "$OUT/$part.log" ;;
  esac
done
echo "==== parts"
cat "$OUT/machine.txt"
printf '%s\n' "${table[@]}"
cd "$OUT" && logs=(*.log *.txt *.xml) && tar -czf logs.tar.gz --ignore-failed-read "${logs[@]}" 2>/dev/null &&
  rm -f "${logs[@]}"
exit $failed
