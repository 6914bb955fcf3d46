#include "plan/device_spec.h"

#include <algorithm>

#include "base/error.h"
#include "base/words.h"
#include "files/file_io.h"
#include "files/toml_records.h"

namespace podium {
namespace {

constexpr std::uint64_t kMostBytes = 1 << 20;
const std::vector<std::string>& families() {
  static const std::vector<std::string> all = {"gpu", "matrix"};
  return all;
}
const std::vector<std::string>& precisions() {
  static const std::vector<std::string> all = {"fp32", "tf32", "fp16", "bf16"};
  return all;
}

}  // namespace

double DeviceSpec::peak(const std::string& precision) const {
  const auto found = flops.find(precision);
  if (found != flops.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [name_of, value] : flops) known.push_back(name_of);
  throw UserError(cat("device ", name, " states no peak in ", precision, "; it has ",
                      join_words(known), "; name one of these with --precision"));
}

std::vector<DeviceSpec> parse_devices(std::string_view text, const std::string& source) {
  std::vector<DeviceSpec> devices;
  std::vector<std::string> problems;
  for (const TomlRecord& record : parse_records(text, source, {"device"})) {
    RecordReader reader(record, source, problems);
    DeviceSpec device;
    device.name = reader.text("name");
    if (device.name.find_first_of(" \t/:@x") == 0 ||
        device.name.find_first_of(" \t/:@") != std::string::npos)
      reader.problem("name", cat("`name` is \"", device.name,
                                 "\", and a name has no blank, `/`, `:` or `@`; write - instead"));
    device.description = reader.text("description");
    const std::string family = reader.text("family");
    const auto place = std::ranges::find(families(), family);
    if (place == families().end()) {
      if (!family.empty())
        reader.problem("family",
                       cat("`family` is \"", family, "\"; the nearest is \"",
                           nearest_word(family, families()), "\" of ", join_words(families())));
    } else {
      device.family = static_cast<Family>(place - families().begin());
    }
    for (const auto& [precision, value] :
         reader.numbers("teraflops", 1e-3, 1e5, "write the dense peak of one device in TFLOP/s")) {
      if (std::ranges::find(precisions(), precision) == precisions().end())
        reader.problem(
            "teraflops." + precision,
            cat("unknown precision \"", precision, "\"; the nearest is \"",
                nearest_word(precision, precisions()), "\" of ", join_words(precisions())));
      device.flops[precision] = 1e12 * value;
    }
    if (device.flops.empty())
      reader.problem("teraflops", "this device has no `teraflops.PRECISION`; add teraflops.fp32");
    device.memory_bytes =
        reader.number("memory_gib", 0.1, 1e5, "write the memory of one device in GiB") * (1 << 30);
    device.bandwidth = 1e9 * reader.number("bandwidth_gb_s", 0.1, 1e5,
                                           "write the bandwidth of its memory in GB/s");
    device.per_node =
        reader.whole("devices_per_node", 0, 1'000'000,
                     "write the number of devices that the fast links join; 0 for all");
    device.node_link =
        1e9 * reader.number("node_link_gb_s", 0.001, 1e5,
                            "write the bandwidth from one device to its node, in GB/s");
    device.network_link = 1e9 * reader.number("network_link_gb_s", 0.001, 1e5,
                                              "write its share of the network, in GB/s");
    device.latency = 1e-6 * reader.number("latency_us", 0.01, 1e5,
                                          "write the latency of a message in microseconds");
    device.host_cores =
        reader.optional_number("host_cores", 0, 1e4, "write the host's cores for each device", 0);
    device.source = reader.text("source");
    reader.finish();
    for (const DeviceSpec& other : devices)
      if (other.name == device.name)
        reader.problem("name", cat("there are two devices \"", device.name, "\"; rename one"));
    devices.push_back(std::move(device));
  }
  raise_problems(problems);
  return devices;
}

std::vector<DeviceSpec> known_devices() {
  std::vector<DeviceSpec> all;
  for (const auto& file : toml_files(shared_folders("devices", "PODIUM_DEVICES"))) {
    const auto text = read_text(file, kMostBytes);
    if (!text) continue;
    for (DeviceSpec& device : parse_devices(*text, file.string())) all.push_back(std::move(device));
  }
  return all;
}

const DeviceSpec& find_device(const std::string& name, const std::vector<DeviceSpec>& devices) {
  std::vector<std::string> names;
  for (const DeviceSpec& device : devices) {
    if (device.name == name) return device;
    names.push_back(device.name);
  }
  PODIUM_REQUIRE(!names.empty(), ExitCode::kUsage,
                 "no devices were found here or beside the program; set $PODIUM_DEVICES to a "
                 "folder (docs/planning.md)");
  std::ranges::sort(names);
  throw UserError(cat("unknown device \"", name, "\"; the nearest is \"", nearest_word(name, names),
                      "\"; known: ", join_words(names)));
}

}  // namespace podium
