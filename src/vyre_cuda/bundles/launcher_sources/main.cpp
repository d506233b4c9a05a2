// Dispatches a kernel or a graph of the embedded bundle on given data, and prints results and
// timings.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <iostream>

#include "bundle.h"
#include "graph.h"
#include "options.h"

namespace {

using Names = std::vector<std::string>;

// ---- what is in the bundle ---------------------------------------------------------------------

// The kernels, without workers and what the bundle has for others alone.
Names kernels_of(vyc_bundle *bundle, std::uint32_t count) {
  Names names, clearing;
  for (std::uint32_t i = 0; i < count; i++) {
    vyc_bundle_kernel kernel{};
    kernel.struct_size = sizeof kernel;
    check(vyc_bundle_kernel_get(bundle, &kernel, i));
    if ((kernel.flags & VYC_KERNEL_WORKER) != 0) {
      vyc_bundle_parameter last{};
      last.struct_size = sizeof last;
      check(vyc_bundle_parameter_get(bundle, &last, i, kernel.parameter_count - 1));
      clearing.push_back(last.name);
    }
    const std::uint32_t others = VYC_KERNEL_WORKER | VYC_KERNEL_ROWS | VYC_KERNEL_CLEARS;
    if ((kernel.flags & others) == 0) names.push_back(kernel.name);
  }
  const auto is_clearing = [&](const std::string &name) {
    return std::find(clearing.begin(), clearing.end(), name) != clearing.end();
  };
  names.erase(std::remove_if(names.begin(), names.end(), is_clearing), names.end());
  return names;
}

// The name of each of `count` entries.
template <typename Entry>
Names names_of(vyc_bundle *bundle, std::uint32_t count,
               vyc_status (*get)(vyc_bundle *, Entry *, std::uint32_t)) {
  Names names;
  for (std::uint32_t i = 0; i < count; i++) {
    Entry entry{};
    entry.struct_size = sizeof entry;
    check(get(bundle, &entry, i));
    names.push_back(entry.name);
  }
  return names;
}

std::string listed(const Names &names) {
  std::string text;
  for (const std::string &name : names) text += " " + name;
  return text.empty() ? " none" : text;
}

std::string chosen(const char *kind, const Names &names, const std::string &wanted) {
  if (wanted.empty() && names.size() == 1) return names[0];
  if (std::find(names.begin(), names.end(), wanted) != names.end()) return wanted;
  const std::string what = std::string(kind) + (wanted.empty() ? "" : " " + wanted);
  throw Usage((wanted.empty() ? "--" + what + " is needed" : "no " + what) + "; there are" +
              listed(names));
}

// ---- arguments ---------------------------------------------------------------------------------

Array buffer_of(const std::string &text, std::uint32_t type) {
  const bool is_list = text.find_first_not_of("0123456789.,+-eEinfa") == std::string::npos &&
                       text.find(',') != std::string::npos;
  return is_list ? parse_array(text, type) : read_array(text, type);
}

// A written array may be a count: zeros.
Array symbol_of(const std::string &text, const Symbol &symbol) {
  if (!symbol.is_written || text.find_first_not_of("0123456789") != std::string::npos)
    return buffer_of(text, symbol.type);
  Array zeros{symbol.type, {}};
  zeros.bytes.resize(parse_count(text) * type_bytes(symbol.type));
  return zeros;
}

// Fills in what the command line has for each parameter.
void bind(Call &call, const std::vector<Parameter> &parameters, const Options &options) {
  std::map<std::string, std::string> named = options.named;
  std::size_t next = 0;
  for (const Parameter &p : parameters) {
    const bool is_unsized_out = p.role == VYC_ROLE_OUT && !p.is_sized;
    if (p.role == VYC_ROLE_OUT && p.is_sized) continue;
    std::string text;
    if (const auto found = named.find(p.name); found != named.end()) {
      text = found->second;
      named.erase(found);
    } else if (!is_unsized_out && next < options.arguments.size()) {
      text = options.arguments[next++];
    } else {
      throw Usage("no value for " + p.name + (is_unsized_out ? ", which is a count" : ""));
    }
    if (is_unsized_out)
      call.counts[p.slot] = parse_count(text);
    else if (p.is_scalar())
      call.scalars[p.slot] = parse_number(text, p.type);
    else
      call.inputs[p.slot] = buffer_of(text, p.type);
  }
  if (next < options.arguments.size()) throw Usage("too many values: " + options.arguments[next]);
  if (!named.empty()) throw Usage("no parameter " + named.begin()->first);
}

void bind(Graph &graph, const Options &options) {
  std::map<std::string, std::string> named = options.named;
  if (!options.arguments.empty()) throw Usage(options.arguments[0] + " has no name");
  for (const Symbol &symbol : graph.symbols()) {
    const auto found = named.find(symbol.name);
    if (found == named.end()) {
      if (!symbol.has_default) throw Usage("no value for " + symbol.name);
      continue;
    }
    if (symbol.is_array)
      graph.set(symbol, symbol_of(found->second, symbol));
    else
      graph.set(symbol, parse_number(found->second, symbol.type));
    named.erase(found);
  }
  if (!named.empty()) throw Usage("no symbol " + named.begin()->first);
  graph.apply();
}

// ---- results and timings -----------------------------------------------------------------------

// Prints results, and saves those that are to be.
class Results {
 public:
  explicit Results(const Options &options) : saved_(options.saved) {}

  void add(const std::string &name, const Array &result) {
    std::cout << name << ": " << type_name(result.type) << '[' << result.count()
              << "] = " << to_text(result, 8) << '\n';
    if (const auto path = saved_.find(name); path != saved_.end()) {
      write_array(path->second, result);
      saved_.erase(path);
    }
  }

  void end() const {
    if (!saved_.empty()) throw Usage("no result " + saved_.begin()->first);
  }

 private:
  std::map<std::string, std::string> saved_;
};

void print_timings(const std::function<void()> &call, unsigned repeats) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  for (unsigned i = 0; i < repeats + (repeats + 9) / 10; i++) { // the first tenth is the warm-up
    const auto begin = Clock::now();
    call();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  times.erase(times.begin(), times.end() - repeats);
  std::sort(times.begin(), times.end());
  const auto at = [&](unsigned percent) { return times[(times.size() - 1) * percent / 100]; };
  std::cout << "calls: " << repeats << '\n'
            << "least, median, 99th percentile: " << at(0) << ' ' << at(50) << ' ' << at(99)
            << " us\n";
}

// ---- the two ways ------------------------------------------------------------------------------

void run_kernel(const Device &device, vyc_bundle *bundle, const std::string &name,
                const Options &options) {
  const Kernel kernel(device.context.get(), bundle, name);
  Call call = kernel.call();
  bind(call, kernel.parameters(), options);
  call.grid = options.grid;
  if (kernel.needs_grid() && call.grid[0] == 0) throw Usage(name + " needs --grid");
  kernel.prepare(call);
  kernel.run(call, nullptr);
  Results results(options);
  for (const Parameter &p : kernel.parameters())
    if (p.is_out()) results.add(p.name, call.results[p.slot]);
  results.end();
  if (options.repeats == 0) return;
  print_timings([&] { kernel.run(call, nullptr); }, options.repeats);
  vyc_timing timing{};
  timing.struct_size = sizeof timing;
  kernel.run(call, &timing);
  const auto us = [](std::uint64_t ns) { return static_cast<double>(ns) / 1e3; };
  std::cout << "of one, enqueue, wait, on the device: " << us(timing.enqueue_ns) << ' '
            << us(timing.wait_ns) << ' ' << us(timing.device_ns) << " us\n";
}

// Timed launches work on what the ones before left in the arrays.
void run_graph(const Device &device, vyc_bundle *bundle, const std::string &name,
               const Options &options) {
  Graph graph(device, bundle, name);
  bind(graph, options);
  graph.run();
  Results results(options);
  for (const Symbol &symbol : graph.symbols())
    if (symbol.is_written) results.add(symbol.name, graph.get(symbol));
  results.end();
  if (options.repeats > 0) print_timings([&] { graph.run(); }, options.repeats);
}

int run(int count, char **words) {
  const Options options = parse_options(count, words);
  vyc_bundle *opened = nullptr;
  check(vyc_bundle_open(&opened, nullptr, bundle_data(), bundle_bytes()));
  const Owned<vyc_bundle> bundle(opened);
  vyc_bundle_info info{};
  info.struct_size = sizeof info;
  check(vyc_bundle_info_get(opened, &info));
  const Names kernels = kernels_of(opened, info.kernel_count);
  const Names graphs = names_of(opened, info.graph_count, vyc_bundle_graph_get);
  if (options.is_help) {
    std::cout << "usage: " << words[0] << " [options] ARGS\n\n"
              << HELP << "\nkernels:" << listed(kernels) << "\ngraphs:" << listed(graphs) << '\n';
    return 0;
  }
  const bool is_graph = !options.graph.empty();
  const std::string name =
      is_graph ? chosen("graph", graphs, options.graph) : chosen("kernel", kernels, options.kernel);
  const Device device(options.driver, options.device);
  std::cerr << "device: " << device.caps.name << '\n';
  (is_graph ? run_graph : run_kernel)(device, opened, name, options);
  return 0;
}

} // namespace

// 0: good, 1: the device or a file failed, 2: bad usage.
int main(int count, char **words) {
  try {
    return run(count, words);
  } catch (const Usage &error) {
    std::cerr << words[0] << ": " << error.what() << "; see --help\n";
    return 2;
  } catch (const std::exception &error) {
    std::cerr << words[0] << ": " << error.what() << '\n';
    return 1;
  }
}
