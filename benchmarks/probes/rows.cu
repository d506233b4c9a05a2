/* How a block of one launch can find the step that it is of: 1,024 steps of z = a * x + b on arrays of their own, as one
 * launch, beside one kernel on all of the bytes.
 *
 *   nvcc -O3 -arch=native -o rows benchmarks/probes/rows.cu && ./rows [steps] [elements of each] [apart]
 *
 * With a third word each array is an allocation of its own, else a part of one, not in the order of the steps.
 *
 * One line of JSON for each form: the median and the best of graph launch and wait, in us; the forms take turns. The
 * results of each form are compared first. `each_N` has N elements a thread. */
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CU(call)                                                                    \
  do {                                                                              \
    cudaError_t error_ = (call);                                                    \
    if (error_ != cudaSuccess) {                                                    \
      fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_));               \
      exit(1);                                                                      \
    }                                                                               \
  } while (0)

enum { BLOCK = 256, TURNS = 2000, MOST_CONSTANT = 2000 };

struct Row { /* as csrc/launch/row_table.c writes it */
  uint32_t first, nx, ny, nz;
  const float *x;
  float *z;
  float a;
  uint32_t n, more[2];
};

struct Pair { /* what the launch cannot compute */
  const float *x;
  float *z;
};

struct Constants {
  Pair rows[MOST_CONSTANT];
};

__device__ __forceinline__ void work(const float *x, float *z, float a, uint32_t n, uint32_t i) {
  if (i < n) z[i] = x[i] * a + 1.0f;
}

template <int N>
__device__ __forceinline__ void several(const float *x, float *z, float a, uint32_t n, uint32_t block) {
  const uint32_t first = block * BLOCK * N + threadIdx.x;
  if (first + (N - 1) * BLOCK < n) {
    float values[N];
#pragma unroll
    for (int k = 0; k < N; k++) values[k] = x[first + k * BLOCK];
#pragma unroll
    for (int k = 0; k < N; k++) z[first + k * BLOCK] = values[k] * a + 1.0f;
  } else {
    for (int k = 0; k < N; k++) work(x, z, a, n, first + k * BLOCK);
  }
}

__global__ void whole_1(const float *x, float *z, float a, uint32_t n) {
  work(x, z, a, n, blockIdx.x * BLOCK + threadIdx.x);
}

__global__ void whole_4(const float *x, float *z, float a, uint32_t n) { several<4>(x, z, a, n, blockIdx.x); }

__global__ void empty() {}

/* The header decides where the block is, and is waited for before the parameters are loaded. */
template <int N> __global__ void header(const Row *table, uint32_t each) {
  const uint32_t place = blockIdx.x / each;
  const volatile Row *row = &table[place];
  uint32_t block = blockIdx.x - row->first;
  if (row->ny * row->nz != 1) block %= row->nx;
  several<N>(row->x, row->z, row->a, row->n, block);
}

template <int N> __global__ void divided(const Row *__restrict__ table, uint32_t each) {
  const uint32_t place = blockIdx.x / each, block = blockIdx.x - place * each;
  const Row *row = &table[place];
  several<N>(row->x, row->z, row->a, row->n, block);
}

template <int N> __global__ void shifted(const Row *__restrict__ table, uint32_t shift) {
  const uint32_t place = blockIdx.x >> shift, block = blockIdx.x - (place << shift);
  const Row *row = &table[place];
  several<N>(row->x, row->z, row->a, row->n, block);
}

/* One block for each row, of as many threads as there are, for its row from end to end. */
template <int N> __global__ void looped(const Row *__restrict__ table) {
  const Row *row = &table[blockIdx.x];
  const float *x = row->x;
  float *z = row->z;
  const float a = row->a;
  const uint32_t n = row->n;
  for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) z[i] = x[i] * a + 1.0f;
}

template <int N> __global__ void constant(const __grid_constant__ Constants rows, float a, uint32_t n, uint32_t shift) {
  const uint32_t place = blockIdx.x >> shift, block = blockIdx.x - (place << shift);
  several<N>(rows.rows[place].x, rows.rows[place].z, a, n, block);
}

static std::vector<Row> rows;
static std::vector<float> wanted;
static float *all_x, *all_z;
static Row *table;
static uint32_t steps, size;
static cudaStream_t stream;
static Constants constants;

struct Form {
  const char *name;
  cudaGraphExec_t exec;
  std::vector<double> times;
};

static std::vector<Form> forms;

template <typename F> static void add(const char *name, bool checked, F launch) {
  cudaGraph_t graph;
  Form form = {name, nullptr, {}};
  CU(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  launch();
  CU(cudaGetLastError());
  CU(cudaStreamEndCapture(stream, &graph));
  CU(cudaGraphInstantiate(&form.exec, graph, 0));
  CU(cudaMemset(all_z, 0, (size_t)steps * size * 4));
  for (const Row &row : rows) CU(cudaMemset(row.z, 0, size * 4));
  CU(cudaDeviceSynchronize());
  CU(cudaGraphLaunch(form.exec, stream));
  CU(cudaStreamSynchronize(stream));
  std::vector<float> found(size);
  for (uint32_t r = 0; checked && r < steps; r++) {
    const float *at = checked && name[0] == 'w' ? all_z + (size_t)r * size : rows[r].z;
    CU(cudaMemcpy(found.data(), at, size * 4, cudaMemcpyDeviceToHost));
    if (found != wanted) {
      fprintf(stderr, "%s: wrong results in step %u\n", name, r);
      exit(1);
    }
  }
  forms.push_back(form);
}

static void measure(bool apart) {
  for (int turn = 0; turn < TURNS; turn++)
    for (Form &form : forms) {
      const auto begin = std::chrono::steady_clock::now();
      CU(cudaGraphLaunch(form.exec, stream));
      CU(cudaStreamSynchronize(stream));
      form.times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
    }
  for (Form &form : forms) {
    std::sort(form.times.begin(), form.times.end());
    printf("{\"form\": \"%s\", \"steps\": %u, \"elements\": %u, \"apart\": %s, \"median_us\": %.2f, \"best_us\": %.2f}\n",
           form.name, steps, size, apart ? "true" : "false", form.times[form.times.size() / 2], form.times[0]);
  }
}

int main(int count, char **words) {
  steps = count > 1 ? (uint32_t)atoi(words[1]) : 1024;
  size = count > 2 ? (uint32_t)atoi(words[2]) : 1024;
  const bool apart = count > 3;
  const float a = 0.5f;
  std::vector<float> start(size);
  for (uint32_t i = 0; i < size; i++) {
    start[i] = (float)(i % 1000);
    wanted.push_back(start[i] * a + 1.0f);
  }
  CU(cudaSetDeviceFlags(cudaDeviceScheduleSpin));
  CU(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const size_t bytes = (size_t)steps * size * 4;
  float *piece_x, *piece_z;
  CU(cudaMalloc(&all_x, bytes));
  CU(cudaMalloc(&all_z, bytes));
  CU(cudaMalloc(&piece_x, bytes));
  CU(cudaMalloc(&piece_z, bytes));
  for (uint32_t r = 0; r < steps; r++) {
    const uint32_t at = r * 7 % steps; /* of odd factors of powers of two a permutation */
    float *x = piece_x + (size_t)at * size, *z = piece_z + (size_t)at * size;
    if (apart) {
      CU(cudaMalloc(&x, size * 4));
      CU(cudaMalloc(&z, size * 4));
    }
    CU(cudaMemcpy(all_x + (size_t)r * size, start.data(), size * 4, cudaMemcpyHostToDevice));
    CU(cudaMemcpy(x, start.data(), size * 4, cudaMemcpyHostToDevice));
    rows.push_back({0, 1, 1, 1, x, z, a, size, {0, 0}});
    if (r < MOST_CONSTANT) constants.rows[r] = {rows[r].x, rows[r].z};
  }
  const uint32_t blocks = (size - 1) / BLOCK + 1, fours = (size - 1) / (4 * BLOCK) + 1;
  uint32_t shift = 0, shift_of_fours = 0;
  while (1u << shift < blocks) shift++;
  while (1u << shift_of_fours < fours) shift_of_fours++;
  CU(cudaMalloc(&table, steps * sizeof(Row)));
  Row *table_of_fours;
  CU(cudaMalloc(&table_of_fours, steps * sizeof(Row)));
  for (uint32_t r = 0; r < steps; r++) rows[r].first = r * blocks, rows[r].nx = blocks;
  CU(cudaMemcpy(table, rows.data(), steps * sizeof(Row), cudaMemcpyHostToDevice));
  for (uint32_t r = 0; r < steps; r++) rows[r].first = r * fours, rows[r].nx = fours;
  CU(cudaMemcpy(table_of_fours, rows.data(), steps * sizeof(Row), cudaMemcpyHostToDevice));
  const uint32_t n = steps * size, whole_blocks = (n - 1) / BLOCK + 1, whole_fours = (n - 1) / (4 * BLOCK) + 1;
  add("empty", false, [&] { empty<<<1, 32, 0, stream>>>(); });
  add("whole_1", true, [&] { whole_1<<<whole_blocks, BLOCK, 0, stream>>>(all_x, all_z, a, n); });
  add("whole_4", true, [&] { whole_4<<<whole_fours, BLOCK, 0, stream>>>(all_x, all_z, a, n); });
  add("header_1", true, [&] { header<1><<<steps * blocks, BLOCK, 0, stream>>>(table, blocks); });
  add("header_4", true, [&] { header<4><<<steps * fours, BLOCK, 0, stream>>>(table_of_fours, fours); });
  add("divided_1", true, [&] { divided<1><<<steps * blocks, BLOCK, 0, stream>>>(table, blocks); });
  add("divided_4", true, [&] { divided<4><<<steps * fours, BLOCK, 0, stream>>>(table_of_fours, fours); });
  add("looped_256", true, [&] { looped<1><<<steps, BLOCK, 0, stream>>>(table); });
  add("looped_1024", true, [&] { looped<1><<<steps, 1024, 0, stream>>>(table); });
  if (1u << shift == blocks && 1u << shift_of_fours == fours) {
    add("shifted_1", true, [&] { shifted<1><<<steps * blocks, BLOCK, 0, stream>>>(table, shift); });
    add("shifted_4", true, [&] { shifted<4><<<steps * fours, BLOCK, 0, stream>>>(table_of_fours, shift_of_fours); });
    if (steps <= MOST_CONSTANT) {
      add("constant_1", true,
          [&] { constant<1><<<steps * blocks, BLOCK, 0, stream>>>(constants, a, size, shift); });
      add("constant_4", true,
          [&] { constant<4><<<steps * fours, BLOCK, 0, stream>>>(constants, a, size, shift_of_fours); });
    }
  }
  measure(apart);
  return 0;
}
