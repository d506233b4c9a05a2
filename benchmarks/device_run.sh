#!/usr/bin/env bash
# Everything that needs a GPU, in one go and without network: install, test, measure.
#
#   OUT=folder benchmarks/device_run.sh [--commit NAME] [--peers all|none|LIST] [PART ...]
#
# Parts: install tests demo silicon bench; "install tests bench" when none is named. Runs from the repository root.
# A part that fails does not stop the others; the table at the end says so, and the exit status is then 1.
set -u -o pipefail

: "${OUT:?set OUT to a folder for the results}"
cd "$(dirname "$0")/.." || exit 1
mkdir -p "$OUT" || exit 1
OUT=$(cd "$OUT" && pwd)
python=${PYTHON:-python3}
device=${VYRE_BENCH_DEVICE:-cuda}
commit=
peers=all
quick=()
parts=()

while [ $# -gt 0 ]; do
  case $1 in
    --commit) commit=${2:?--commit needs a name}; shift ;;
    --peers) peers=${2:?--peers needs names}; shift ;;
    --quick) quick=(--quick) ;;
    install | tests | demo | silicon | bench) parts+=("$1") ;;
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

part_tests() {
  timeout 500 "$python" -m pytest tests/device "--device=$device" -q -p no:cacheprovider \
    "--junitxml=$OUT/tests.xml"
}

part_demo() {
  timeout 60 "$python" -m vyre_cuda demo --device "$device"
}

part_silicon() {
  timeout 300 "$python" tests/silicon/record.py "${VYRE_CUDA_DRIVER:-libcuda.so.1}" "$OUT/answers.npz"
}

# Compiled with warnings as errors, so that a failure here is seen before anything is measured.
part_bench() {
  timeout 550 "$python" benchmarks/bench_dispatch.py --device "$device" --commit "$commit" \
    --peers "$peers" --output "$OUT/results" ${quick[@]+"${quick[@]}"}
}

describe_machine() {
  echo "commit $commit"
  uname -sm
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || echo "no nvidia-smi"
  "$python" --version
}

describe_machine >"$OUT/machine.txt" 2>&1
rows=()
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
  rows+=("$(printf '%-10s %-14s %5d s' "$part" "$state" $((SECONDS - begin)))")
done

for part in tests demo bench; do
  [ -s "$OUT/$part.log" ] || continue
  echo "==== $part"
  case $part in
    tests) tail -n 3 "$OUT/tests.log" ;;
    demo) tail -n 30 "$OUT/demo.log" ;;
    bench) cat "$OUT/bench.log" ;;
  esac
done
echo "==== parts"
cat "$OUT/machine.txt"
printf '%s\n' "${rows[@]}"
exit $failed
