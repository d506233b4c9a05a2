// The PTX machine by itself: what it refuses and where, how launches end, who waits for whom.
// Links the machine's own sources, not the emulator's library.
#include <cfenv>
#include <thread>

#include "../../csrc/emulator/control.h"
#include "../../csrc/emulator/ptx/ptx.h"
#include "emulator_test.h"

namespace {

using emulator::Kernel;
using emulator::Launch;
using emulator::Module;
using emulator::Outcome;
using emulator::Report;

constexpr uint64_t kBase = 0x700000000000;

// One allocation of words at kBase.
class Words : public emulator::Memory {
 public:
  explicit Words(size_t count) : words(count, 0) {}
  void *resolve(uint64_t address, uint64_t size, uint64_t *begin, uint64_t *end) override {
    const uint64_t inside = address - kBase, bytes = words.size() * sizeof(uint32_t);
    if (inside >= bytes || size > bytes - inside) return nullptr;
    *begin = kBase;
    *end = kBase + bytes;
    return reinterpret_cast<uint8_t *>(words.data()) + inside;
  }
  std::vector<uint32_t> words;
};

// A kernel `k` of one parameter, the address of Words, in %rd.
std::string kernel_text(const std::string &body) {
  return ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 data)\n{\n"
         ".reg .pred %p<4>; .reg .b32 %r<9>; .reg .f32 %f<4>; .reg .b64 %rd, %rd<4>;"
         ".reg .b16 %h<4>; .reg .f16 %q<4>;\n"
         "ld.param.u64 %rd, [data];\n" +
         body + "\nret;\n}\n";
}

std::unique_ptr<Module> parse_text(const std::string &text) {
  std::string log;
  bool too_new = false;
  auto module = emulator::parse(text, 88, &log, &too_new);
  if (!module) fail(__FILE__, __LINE__, log);
  return module;
}

std::string refusal(const std::string &text, bool *too_new) {
  std::string log;
  if (emulator::parse(text, 88, &log, too_new)) fail(__FILE__, __LINE__, "accepted: " + text);
  return log;
}

Report launch(const std::string &body, Words &memory, uint32_t blocks, uint32_t threads,
              bool cooperative = false) {
  const auto module = parse_text(kernel_text(body));
  Launch launch;
  launch.grid = {blocks, 1, 1};
  launch.block = {threads, 1, 1};
  launch.cooperative = cooperative;
  launch.parameters = reinterpret_cast<const uint8_t *>(&kBase);
  return emulator::execute(module->kernels[0], launch, memory);
}

void expect(Outcome expected, const Report &report) {
  if (report.outcome != expected) fail(__FILE__, __LINE__, "other outcome: " + report.message);
}

void refuses(const std::string &body, const std::string &what) {
  bool too_new = true;
  const std::string log = refusal(kernel_text(body), &too_new);
  CHECK(!too_new);
  if (log.find("line 8;") == std::string::npos || log.find(what) == std::string::npos)
    fail(__FILE__, __LINE__, body + " gives: " + log);
}

void test_refusals_name_line_and_cause() {
  refuses("add.u99 %r1, %r2, %r3;", "'add' has no form 'add.u99'");
  refuses("frobnicate.u32 %r1;", "unknown instruction");
  refuses("sin.approx.f32 %f1, %f2;", "approximate");
  refuses("add.u32 %r1, %r2;", "takes 3 operands");
  refuses("add.u32 %r1, %r2, %r9;", "unknown register '%r9'");
  refuses("add.u32 %r1, %r2, %f1;", "%f1");
  refuses("bra NOWHERE;", "unknown label");
  refuses("ld.global.u32 %r1, [%rd-16];", "expected ']', met '-'");
  refuses("add.f16 %h1, %h2, 0x3c00;", "takes .f16");
  refuses("add.f16 %r1, %r2, %r3;", "takes .f16, '%r1' is .b32");
  refuses("fma.rn.bf16 %q1, %q2, %q3, %q3;", "takes .bf16, '%q1' is .f16");
  refuses("cvt.f32.bf16 %f1, %h1;", "requires .target sm_90");
  refuses("ld.relaxed.global.u32 %r1, [%rd];", "requires a scope");
  refuses("ld.param.u64 %rd1, [data+8];", "outside parameter");
  refuses(".callprototype stack[16];", "unknown directive '.callprototype'");
}

void test_newer_version_is_told_apart() {
  bool too_new = false;
  refusal(".version 8.9\n.target sm_90\n.address_size 64\n", &too_new);
  CHECK(too_new);
}

void test_deep_nesting_is_an_error() {
  bool too_new = false;
  CHECK(!refusal(kernel_text(std::string(100000, '{')), &too_new).empty());
}

void test_malformed_request_for_a_check_is_an_error_and_other_pragmas_are_none() {
  const auto with = [](const std::string &pragma) {
    const std::string text = kernel_text("st.global.u32 [%rd], 1;");
    const size_t at = text.find(".visible");
    return text.substr(0, at) + ".pragma \"" + pragma + "\";\n" + text.substr(at);
  };
  bool too_new = false;
  for (const char *words : {"vyre_races", "vyre_races 0", "vyre_races -1 0", "vyre_races 0 x",
                            "vyre_races 0 0 -8", "vyre_races 1048576 0"})
    CHECK(refusal(with(words), &too_new).find("line 4; error   : vyre_races") != std::string::npos);
  for (const char *words :
       {"vyre_initialized", "vyre_initialized 0", "vyre_initialized -1 0", "vyre_initialized 0 x",
        "vyre_initialized 0 -8", "vyre_initialized 1048576 0"})
    CHECK(refusal(with(words), &too_new).find("line 4; error   : vyre_initialized") !=
          std::string::npos);
  for (const char *words : {"vyre_races 0 8", "vyre_initialized 0 8"})
    CHECK(refusal(with(words), &too_new).find("that k lacks") != std::string::npos);
  CHECK(parse_text(with("vyre_initialized 0 0")) != nullptr);
  CHECK(parse_text(with("vyre_races 0 0")) != nullptr);
  CHECK(parse_text(with("nounroll")) != nullptr);
}

// The parameter is the report here, whose first half the checked program must leave alone.
void test_race_is_left_in_the_report_once() {
  std::string text = kernel_text("mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd1, %r1, 4;\n"
                                 "add.u64 %rd1, %rd, %rd1; st.global.u32 [%rd+32], %r1;");
  text.insert(text.find(".visible"), ".pragma \"vyre_races 5 0\";\n");
  const auto module = parse_text(text);
  Launch launch;
  launch.grid = {3, 1, 1};
  launch.parameters = reinterpret_cast<const uint8_t *>(&kBase);
  Words memory(12);
  memory.words[0] = memory.words[1] = ~0u;
  expect(Outcome::ok, emulator::execute(module->kernels[0], launch, memory));
  EQUAL(1u << 20 | 5u, memory.words[0]);
  EQUAL(0u, memory.words[1]);
  const uint32_t number = memory.words[2];
  vyre_emulator_race_info info;
  uint64_t parameter = 0;
  EQUAL(0, vyre_emulator_race(number, &info, reinterpret_cast<uint8_t *>(&parameter), 8));
  EQUAL(kBase + 32, info.address);
  EQUAL(4u, info.bytes);
  EQUAL(0u, info.shared);
  EQUAL(0u, info.block[0][0]);
  EQUAL(1u, info.block[1][0]);
  EQUAL(kBase, parameter);
  EQUAL(-1, vyre_emulator_race(number + 1, &info, nullptr, 0));

  expect(Outcome::ok, emulator::execute(module->kernels[0], launch, memory));
  EQUAL(number, memory.words[2]);
}

void test_faults_name_address_and_line() {
  Words memory(4);
  Report report = launch("ld.global.u32 %r1, [%rd+16];", memory, 1, 1);
  expect(Outcome::illegal_address, report);
  EQUAL(kBase + 16, report.address);
  EQUAL(8, report.line);
  CHECK(report.message.find("ld.global.u32 %r1, [%rd+16];") != std::string::npos);
  report = launch("st.global.u32 [%rd+2], 1;", memory, 1, 1);
  expect(Outcome::misaligned_address, report);
  EQUAL(kBase + 2, report.address);
  expect(Outcome::illegal_address,
         launch(".shared .b32 s[4]; mov.u32 %r1, s; st.shared.u32 [%r1+16], 1;", memory, 1, 1));
  expect(Outcome::trap, launch("trap;", memory, 1, 1));
}

void test_barrier_waits_for_all_that_have_not_exited() {
  Words memory(1);
  expect(Outcome::ok, launch("mov.u32 %r1, %tid.x; setp.gt.u32 %p1, %r1, 70; @%p1 exit;\n"
                             "atom.global.add.u32 %r2, [%rd], 1; bar.sync 0;\n"
                             "ld.global.u32 %r3, [%rd]; setp.ne.u32 %p2, %r3, 71; @%p2 trap;",
                             memory, 1, 100));
  EQUAL(71u, memory.words[0]);
}

void test_barriers_that_cannot_open_end_the_launch() {
  Words memory(1);
  const std::string split = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32;\n";
  Report report = launch(split + "@%p1 bar.sync 1; bar.sync 0;", memory, 1, 64);
  expect(Outcome::barrier_mismatch, report);
  CHECK(report.message.find("no thread can go on") != std::string::npos);
  const std::string lanes = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 16;\n";
  expect(Outcome::barrier_mismatch,
         launch(lanes + "@%p1 bra A; bar.sync 0; bra B; A: bar.sync 0; B:", memory, 1, 32));
  expect(Outcome::barrier_mismatch,
         launch(lanes + "@%p1 bar.warp.sync -1; @!%p1 bar.sync 0;", memory, 1, 32));
}

void test_spinning_thread_sees_the_store_of_another() {
  Words memory(2);
  expect(Outcome::ok,
         launch("mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 63; @%p1 st.global.u32 [%rd], 7;\n"
                "W: ld.acquire.gpu.global.u32 %r2, [%rd]; setp.ne.u32 %p2, %r2, 7; @%p2 bra W;\n"
                "red.global.add.u32 [%rd+4], 1;",
                memory, 1, 64));
  EQUAL(64u, memory.words[1]);
}

void test_blocks_of_a_cooperative_launch_meet() {
  Words memory(2);
  expect(Outcome::ok,
         launch("mov.u32 %r1, %nctaid.x; red.release.gpu.global.add.u32 [%rd], 1;\n"
                "W: ld.acquire.gpu.global.u32 %r2, [%rd]; setp.lt.u32 %p2, %r2, %r1; @%p2 bra W;\n"
                "red.global.add.u32 [%rd+4], %r2;",
                memory, 20, 1, true));
  EQUAL(400u, memory.words[1]);
}

void test_active_mask_is_that_of_the_lanes_that_come_together() {
  Words memory(32);
  const std::string address =
      "mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %rd, %rd1;\n";
  const std::string store = "st.global.u32 [%rd1], %r2;";
  expect(Outcome::ok, launch(address + "activemask.b32 %r2;" + store, memory, 1, 20));
  for (size_t lane = 0; lane < 20; ++lane) EQUAL(0xfffffu, memory.words[lane]);
  // Lane 7 has exited, the lower lanes go another way.
  expect(Outcome::ok, launch(address +
                                 "setp.eq.u32 %p1, %r1, 7; @%p1 exit; setp.lt.u32 %p2, %r1, 8;\n"
                                 "@%p2 bra LOW; activemask.b32 %r2; bra GO;\n"
                                 "LOW: activemask.b32 %r2; GO:" +
                                 store,
                             memory, 1, 32));
  EQUAL(0x7fu, memory.words[0]);
  EQUAL(0xffffff00u, memory.words[31]);
}

void test_lane_at_activemask_lets_the_others_spin() {
  Words memory(1);
  expect(Outcome::ok, launch("mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0;\n"
                             "@!%p1 bra W; activemask.b32 %r2; st.global.u32 [%rd], %r2; ret;\n"
                             "W: ld.volatile.global.u32 %r3, [%rd]; setp.eq.u32 %p2, %r3, 0;\n"
                             "@%p2 bra W;",
                             memory, 1, 32));
  EQUAL(1u, memory.words[0]);
}

void test_bounded_forms_give_the_correctly_rounded_result() {
  Words memory(3);
  expect(Outcome::ok, launch("mov.f32 %f1, 0f3f800000; mov.f32 %f2, 0f40400000;\n"
                             "div.full.ftz.f32 %f3, %f1, %f2; st.global.f32 [%rd], %f3;\n"
                             "sqrt.approx.ftz.f32 %f3, %f2; st.global.f32 [%rd+4], %f3;\n"
                             "mov.f32 %f2, 0f807fffff;\n"
                             "rcp.approx.ftz.f32 %f3, %f2; st.global.f32 [%rd+8], %f3;",
                             memory, 1, 1));
  EQUAL(0x3eaaaaabu, memory.words[0]);  // 1 / 3
  EQUAL(0x3fddb3d7u, memory.words[1]);  // sqrt(3)
  EQUAL(0xff800000u, memory.words[2]);  // 1 / -0
}

void test_endless_launch_can_be_cancelled() {
  const auto module = parse_text(kernel_text("W: bra W;"));
  Words memory(1);
  std::atomic<bool> cancel{false};
  Launch endless;
  endless.parameters = reinterpret_cast<const uint8_t *>(&kBase);
  endless.cancel = &cancel;
  Report report;
  std::thread runner([&] { report = emulator::execute(module->kernels[0], endless, memory); });
  cancel = true;
  runner.join();
  expect(Outcome::cancelled, report);
}

void test_float_environment_of_the_caller_does_not_leak() {
  Words memory(1);
  std::fesetround(FE_UPWARD);
  const Report report = launch("mov.f32 %f1, 0f3f800000; mov.f32 %f2, 0f00000001;\n"
                               "add.rn.f32 %f3, %f1, %f2; st.global.f32 [%rd], %f3;",
                               memory, 1, 1);
  const int mode = std::fegetround();
  std::fesetround(FE_TONEAREST);
  expect(Outcome::ok, report);
  EQUAL(0x3f800000u, memory.words[0]);
  EQUAL(FE_UPWARD, mode);
}

void test_registers_keep_their_values_around_loops_and_guards() {
  Words memory(1);
  // %r5 is set before the loop and only sometimes in it; %r6 comes from the trip before.
  expect(Outcome::ok, launch("mov.u32 %r1, 0; mov.u32 %r5, 100; mov.u32 %r6, 0; mov.u32 %r7, 0;\n"
                             "L: setp.eq.u32 %p1, %r1, 3; @%p1 mov.u32 %r5, 1000;\n"
                             "add.u32 %r7, %r7, %r5; add.u32 %r7, %r7, %r6; mov.u32 %r6, %r1;\n"
                             "add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 5; @%p2 bra L;\n"
                             "st.global.u32 [%rd], %r7;",
                             memory, 1, 1));
  EQUAL(3u * 100 + 2 * 1000 + (0 + 0 + 1 + 2 + 3), memory.words[0]);
}

}  // namespace

int main() {
  test_refusals_name_line_and_cause();
  test_newer_version_is_told_apart();
  test_deep_nesting_is_an_error();
  test_malformed_request_for_a_check_is_an_error_and_other_pragmas_are_none();
  test_race_is_left_in_the_report_once();
  test_faults_name_address_and_line();
  test_barrier_waits_for_all_that_have_not_exited();
  test_barriers_that_cannot_open_end_the_launch();
  test_spinning_thread_sees_the_store_of_another();
  test_blocks_of_a_cooperative_launch_meet();
  test_active_mask_is_that_of_the_lanes_that_come_together();
  test_lane_at_activemask_lets_the_others_spin();
  test_bounded_forms_give_the_correctly_rounded_result();
  test_endless_launch_can_be_cancelled();
  test_float_environment_of_the_caller_does_not_leak();
  test_registers_keep_their_values_around_loops_and_guards();
  return 0;
}
