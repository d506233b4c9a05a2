/* The nodes of one recorded graph, launched by the driver alone: what its replay costs at least.
 *
 * FOLDER/graph.txt says what there is, a word and numbers on each line:
 *   buffer BYTES FILE              memory that begins with a file; - for zeros
 *   at BUFFER OFFSET OTHER BYTE    there: the address of a byte of another buffer
 *   module FILE                    PTX
 *   node MODULE ENTRY GRID BLOCK SHARED BYTES HEX BEHIND   parameters as bytes; the node that it
 *                                  comes after, -1 for none
 *   point NODE OFFSET BUFFER BYTE  an address among the parameters of a node
 *   change NODE OFFSET             an f32 among the parameters of a node that is another one at
 * each replay that is measured expect BUFFER OFFSET FILE      what is there after one replay
 * Buffers, modules and nodes are numbered from 0. Prints one JSON line, if everything is as
 * expected. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum {
  MOST_BUFFERS = 4096,
  MOST_NODES = 4096,
  MOST_MODULES = 64,
  MOST_BYTES = 4096,
  MOST_WORD = 256,
  MOST_CHANGES = 64
};

typedef struct node {
  CUfunction function;
  uint32_t grid, block, shared;
  int32_t behind;
  size_t bytes;
  uint8_t *parameters;
} node;

typedef struct change {
  uint32_t node;
  size_t offset;
} change;

static struct {
  change changes[MOST_CHANGES];
  uint32_t change_count;
  CUgraphNode made[MOST_NODES];
  CUdeviceptr buffers[MOST_BUFFERS];
  CUmodule modules[MOST_MODULES];
  node nodes[MOST_NODES];
  uint32_t buffer_count, module_count, node_count;
  CUgraphExec exec;
  CUstream stream;
} s;

static void require(bool holds, const char *line) {
  if (!holds) raw_fail("not understood: %s", line);
}

static void add_buffer(const char *folder, const char *line) {
  size_t bytes = 0, given = 0;
  char file[MOST_WORD];
  require(sscanf(line, "buffer %zu %255s", &bytes, file) == 2 && s.buffer_count < MOST_BUFFERS,
          line);
  CUdeviceptr *to = &s.buffers[s.buffer_count++];
  char *content = raw_alloc(bytes + 1);
  memset(content, 0, bytes + 1);
  if (strcmp(file, "-") != 0) {
    char *read = raw_read(raw_path(folder, file, ""), &given);
    require(given == bytes, line);
    memcpy(content, read, bytes);
    free(read);
  }
  CU(cuMemAlloc(to, bytes));
  CU(cuMemcpyHtoD(*to, content, bytes));
  free(content);
}

static void add_module(const char *folder, const char *line) {
  char file[MOST_WORD];
  require(sscanf(line, "module %255s", file) == 1 && s.module_count < MOST_MODULES, line);
  char *ptx = raw_read(raw_path(folder, file, ""), NULL);
  CU(cuModuleLoadData(&s.modules[s.module_count++], ptx));
  free(ptx);
}

static void add_node(const char *line) {
  uint32_t module;
  char entry[MOST_WORD];
  int used = 0;
  node *made = &s.nodes[s.node_count];
  require(s.node_count++ < MOST_NODES, line);
  require(sscanf(line, "node %u %255s %u %u %u %zu %n", &module, entry, &made->grid, &made->block,
                 &made->shared, &made->bytes, &used) == 6 &&
              module < s.module_count && made->bytes <= MOST_BYTES,
          line);
  made->parameters = raw_alloc(made->bytes);
  for (size_t i = 0; i < made->bytes; i++) {
    unsigned byte;
    require(sscanf(line + used + 2 * i, "%2x", &byte) == 1, line);
    made->parameters[i] = (uint8_t)byte;
  }
  require(sscanf(line + used + 2 * made->bytes, "%d", &made->behind) == 1, line);
  CU(cuModuleGetFunction(&made->function, s.modules[module], entry));
}

static void add_address(const char *line) {
  uint32_t at, other;
  size_t offset, byte;
  require(sscanf(line, "at %u %zu %u %zu", &at, &offset, &other, &byte) == 4, line);
  require(at < s.buffer_count && other < s.buffer_count, line);
  const uint64_t address = s.buffers[other] + byte;
  CU(cuMemcpyHtoD(s.buffers[at] + offset, &address, sizeof address));
}

static void add_pointer(const char *line) {
  uint32_t at, buffer;
  size_t offset, byte;
  require(sscanf(line, "point %u %zu %u %zu", &at, &offset, &buffer, &byte) == 4, line);
  require(at < s.node_count && buffer < s.buffer_count, line);
  require(offset + sizeof(uint64_t) <= s.nodes[at].bytes, line);
  const uint64_t address = s.buffers[buffer] + byte;
  memcpy(s.nodes[at].parameters + offset, &address, sizeof address);
}

static void add_change(const char *line) {
  change *made = &s.changes[s.change_count];
  require(s.change_count++ < MOST_CHANGES, line);
  require(sscanf(line, "change %u %zu", &made->node, &made->offset) == 2, line);
  require(made->node < s.node_count && made->offset + sizeof(float) <= s.nodes[made->node].bytes,
          line);
}

static CUDA_KERNEL_NODE_PARAMS params_of(node *n, void *extra[5]) {
  extra[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
  extra[1] = n->parameters;
  extra[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
  extra[3] = &n->bytes;
  extra[4] = CU_LAUNCH_PARAM_END;
  return (CUDA_KERNEL_NODE_PARAMS){.func = n->function,
                                   .gridDimX = n->grid,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = n->block,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .sharedMemBytes = n->shared,
                                   .extra = extra};
}

static void build(void) {
  CUgraph graph;
  void *extra[5];
  CU(cuGraphCreate(&graph, 0));
  for (uint32_t i = 0; i < s.node_count; i++) {
    node *n = &s.nodes[i];
    const CUDA_KERNEL_NODE_PARAMS params = params_of(n, extra);
    const bool is_first = n->behind < 0;
    CU(cuGraphAddKernelNode(&s.made[i], graph, is_first ? NULL : &s.made[n->behind], !is_first,
                            &params));
  }
  s.exec = raw_instantiate(graph);
}

static void replay(void) {
  CU(cuGraphLaunch(s.exec, s.stream));
  CU(cuStreamSynchronize(s.stream));
}

/* Values near 1, none of which is the one before. */
static void change_values(uint32_t round) {
  const float value = 1.0f + (float)(round % 64) / 1024.0f;
  void *extra[5];
  for (uint32_t i = 0; i < s.change_count; i++) {
    node *n = &s.nodes[s.changes[i].node];
    memcpy(n->parameters + s.changes[i].offset, &value, sizeof value);
    const CUDA_KERNEL_NODE_PARAMS params = params_of(n, extra);
    CU(cuGraphExecKernelNodeSetParams(s.exec, s.made[s.changes[i].node], &params));
  }
}

static void compare(const char *folder, const char *line) {
  uint32_t buffer;
  size_t offset, bytes;
  char file[MOST_WORD];
  require(sscanf(line, "expect %u %zu %255s", &buffer, &offset, file) == 3, line);
  char *wanted = raw_read(raw_path(folder, file, ""), &bytes);
  char *found = raw_alloc(bytes);
  CU(cuMemcpyDtoH(found, s.buffers[buffer] + offset, bytes));
  if (memcmp(found, wanted, bytes) != 0) raw_fail("wrong result: %s", line);
  free(found);
  free(wanted);
}

static void measure(const char *id, uint32_t rounds) {
  uint64_t *samples = raw_alloc(rounds * sizeof *samples);
  for (uint32_t i = 0; i < rounds / 5; i++) replay();
  for (uint32_t i = 0; i < rounds; i++) {
    const uint64_t begin = raw_now_ns();
    change_values(i);
    replay();
    samples[i] = raw_now_ns() - begin;
  }
  raw_report(id, samples, rounds, 1);
  free(samples);
}

int main(int argc, char **argv) {
  CUcontext context;
  if (argc != 5) raw_fail("%s DRIVER FOLDER ID ROUNDS", argv[0]);
  const char *folder = argv[2];
  raw_open(argv[1]);
  raw_open_device(&context);
  CU(cuStreamCreate(&s.stream, CU_STREAM_NON_BLOCKING));
  char *text = raw_read(raw_path(folder, "graph", ".txt"), NULL);
  char *wanted[MOST_WORD];
  uint32_t wanted_count = 0;
  for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
    if (strncmp(line, "buffer ", 7) == 0) add_buffer(folder, line);
    if (strncmp(line, "at ", 3) == 0) add_address(line);
    if (strncmp(line, "module ", 7) == 0) add_module(folder, line);
    if (strncmp(line, "node ", 5) == 0) add_node(line);
    if (strncmp(line, "point ", 6) == 0) add_pointer(line);
    if (strncmp(line, "change ", 7) == 0) add_change(line);
    if (strncmp(line, "expect ", 7) == 0 && wanted_count < MOST_WORD) wanted[wanted_count++] = line;
  }
  build();
  replay();
  for (uint32_t i = 0; i < wanted_count; i++) compare(folder, wanted[i]);
  measure(argv[3], (uint32_t)atoi(argv[4]));
  free(text);
  return 0;
}
