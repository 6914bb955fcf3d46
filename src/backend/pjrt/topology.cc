#include "backend/pjrt/topology.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "backend/pjrt/api.h"
#include "backend/pjrt/hlo.pb.h"
#include "base/clock.h"
#include "base/error.h"

namespace podium::pjrt {
namespace {

const char* precision_name(std::int32_t precision) {
  return precision == 2 ? "highest" : precision == 1 ? "high" : "default";
}

// The type of a result, or of a tuple's first.
std::string type_name(const HloShape& shape) {
  const HloShape* one = &shape;
  while (!one->tuple_shapes().empty()) one = &one->tuple_shapes(0);
  switch (one->element_type()) {
    case 1: return "pred";
    case 4: return "s32";
    case 8: return "u32";
    case 11: return "f32";
    case 16: return "bf16";
    default: return cat("type ", one->element_type());
  }
}

bool is_float(const HloShape& shape) {
  const int type = shape.element_type();
  return type != 1 && type != 4 && type != 8;  // neither pred nor s32 nor u32
}

void count_instructions(const HloModule& module, CompiledFacts& facts) {
  for (const HloComputation& computation : module.computations()) {
    for (const HloInstruction& instruction : computation.instructions()) {
      const std::string& opcode = instruction.opcode();
      // A TPU's compiler also moves pixels by convolutions of their bits, as integers.
      if ((opcode == "convolution" || opcode == "dot") && is_float(instruction.shape())) {
        std::int32_t least = 2;
        for (const std::int32_t one : instruction.precision_config().operand_precision())
          least = std::min(least, one);
        if (instruction.precision_config().operand_precision().empty()) least = 0;
        ++facts.precisions[precision_name(least)];
      }
      for (const char* kind :
           {"all-reduce", "all-to-all", "all-gather", "reduce-scatter", "collective-permute"})
        if (opcode == kind || opcode == std::string(kind) + "-start")
          ++facts.collectives[cat(kind, " of ", type_name(instruction.shape()))];
    }
  }
}

// A topology and what was compiled for it, with the plugin's functions for both.
class Compilation {
 public:
  explicit Compilation(const std::string& path) : path_(path), api_(open_plugin(path)) {
    for (const auto& [name, offset] :
         {std::pair{"PJRT_TopologyDescription_Create",
                    offsetof(PJRT_Api, PJRT_TopologyDescription_Create)},
          {"PJRT_TopologyDescription_GetDeviceDescriptions",
           offsetof(PJRT_Api, PJRT_TopologyDescription_GetDeviceDescriptions)},
          {"PJRT_Compile", offsetof(PJRT_Api, PJRT_Compile)},
          {"PJRT_Executable_GetCostAnalysis", offsetof(PJRT_Api, PJRT_Executable_GetCostAnalysis)},
          {"PJRT_Executable_GetCompiledMemoryStats",
           offsetof(PJRT_Api, PJRT_Executable_GetCompiledMemoryStats)},
          {"PJRT_Executable_OptimizedProgram",
           offsetof(PJRT_Api, PJRT_Executable_OptimizedProgram)}})
      PODIUM_REQUIRE(has(api_, offset), ExitCode::kUsage, "PODIUM_PJRT_PLUGIN=", path,
                     ": it lacks ", name,
                     ", so it compiles only for devices that are present; libtpu has it");
    PODIUM_PJRT_ARGS(start, PJRT_Plugin_Initialize_Args);
    require(api_->PJRT_Plugin_Initialize(&start), "could not be initialised");
  }
  ~Compilation() {
    if (executable_ != nullptr) {
      PODIUM_PJRT_ARGS(args, PJRT_Executable_Destroy_Args);
      args.executable = executable_;
      destroy(api_, api_->PJRT_Executable_Destroy(&args));
    }
    if (topology_ != nullptr) {
      PODIUM_PJRT_ARGS(args, PJRT_TopologyDescription_Destroy_Args);
      args.topology = topology_;
      destroy(api_, api_->PJRT_TopologyDescription_Destroy(&args));
    }
  }
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;

  void open_topology(const std::string& name, CompiledFacts& facts) {
    PODIUM_PJRT_ARGS(create, PJRT_TopologyDescription_Create_Args);
    create.topology_name = name.data();
    create.topology_name_size = name.size();
    require(api_->PJRT_TopologyDescription_Create(&create),
            cat("does not know the topology \"", name, "\"; write one such as v5e:2x4"));
    topology_ = create.topology;
    PODIUM_PJRT_ARGS(list, PJRT_TopologyDescription_GetDeviceDescriptions_Args);
    list.topology = topology_;
    require(api_->PJRT_TopologyDescription_GetDeviceDescriptions(&list),
            "does not describe the devices of a topology");
    facts.devices = static_cast<int>(list.num_descriptions);
    if (list.num_descriptions > 0) facts.limit = memory_of(list.descriptions[0]);
    PODIUM_PJRT_ARGS(platform, PJRT_TopologyDescription_PlatformName_Args);
    platform.topology = topology_;
    require(api_->PJRT_TopologyDescription_PlatformName(&platform), "does not name its platform");
    facts.platform.assign(platform.platform_name, platform.platform_name_size);
  }

  void compile(ProgramOfDevices of_devices, CompiledFacts& facts) {
    const auto start = Clock::now();
    std::string& module = of_devices.module;
    PODIUM_PJRT_ARGS(program, PJRT_Program);
    program.code = module.data();
    program.code_size = module.size();
    program.format = "mlir";
    program.format_size = 4;
    const std::string options =
        compile_options({.devices = of_devices.devices, .ids = {}, .is_only_looked_at = true});
    PODIUM_PJRT_ARGS(args, PJRT_Compile_Args);
    args.topology = topology_;
    args.program = &program;
    args.compile_options = options.data();
    args.compile_options_size = options.size();
    require(api_->PJRT_Compile(&args), "cannot compile the program");
    executable_ = args.executable;
    facts.seconds = seconds_since(start);
  }

  void read_costs(CompiledFacts& facts) {
    PODIUM_PJRT_ARGS(args, PJRT_Executable_GetCostAnalysis_Args);
    args.executable = executable_;
    require(api_->PJRT_Executable_GetCostAnalysis(&args), "does not report costs");
    for (std::size_t i = 0; i < args.num_properties; ++i) {
      const PJRT_NamedValue& property = args.properties[i];
      const std::string name(property.name, property.name_size);
      if (property.type != PJRT_NamedValue_kFloat) continue;
      if (name == "flops") facts.flops = static_cast<double>(property.float_value);
      if (name == "bytes accessed")
        facts.bytes_accessed = static_cast<double>(property.float_value);
    }
  }

  void read_memory(CompiledFacts& facts) {
    PODIUM_PJRT_ARGS(args, PJRT_Executable_GetCompiledMemoryStats_Args);
    args.executable = executable_;
    require(api_->PJRT_Executable_GetCompiledMemoryStats(&args), "does not report memory");
    facts.arguments = args.argument_size_in_bytes;
    facts.results = args.output_size_in_bytes;
    facts.temporary = args.temp_size_in_bytes;
    facts.code = args.generated_code_size_in_bytes;
    facts.peak = args.peak_memory_in_bytes;
  }

  void read_instructions(CompiledFacts& facts) {
    PODIUM_PJRT_ARGS(program, PJRT_Program);
    PODIUM_PJRT_ARGS(args, PJRT_Executable_OptimizedProgram_Args);
    args.executable = executable_;
    args.program = &program;
    require(api_->PJRT_Executable_OptimizedProgram(&args), "does not return the optimised program");
    std::vector<char> code(program.code_size);
    program.code = code.data();
    require(api_->PJRT_Executable_OptimizedProgram(&args), "does not return the optimised program");
    const std::string format(program.format, program.format_size);
    const int size = static_cast<int>(code.size());
    if (format == "hlo_with_config") {
      HloModuleWithConfig both;
      if (both.ParseFromArray(code.data(), size)) count_instructions(both.hlo_module(), facts);
    } else if (format == "hlo") {
      HloModule only;
      if (only.ParseFromArray(code.data(), size)) count_instructions(only, facts);
    }
  }

 private:
  // 0 where the plugin does not say.
  std::int64_t memory_of(PJRT_DeviceDescription* device) const {
    if (!PODIUM_PJRT_HAS(api_, PJRT_DeviceDescription_Attributes)) return 0;
    PODIUM_PJRT_ARGS(args, PJRT_DeviceDescription_Attributes_Args);
    args.device_description = device;
    require(api_->PJRT_DeviceDescription_Attributes(&args), "does not describe a device");
    for (std::size_t i = 0; i < args.num_attributes; ++i) {
      const PJRT_NamedValue& attribute = args.attributes[i];
      if (std::string_view(attribute.name, attribute.name_size) == "device_memory_bytes_limit" &&
          attribute.type == PJRT_NamedValue_kInt64)
        return attribute.int64_value;
    }
    return 0;
  }

  void require(PJRT_Error* error, const std::string& what) const {
    require_none(api_, path_, error, what);
  }

  std::string path_;
  const PJRT_Api* api_;
  PJRT_TopologyDescription* topology_ = nullptr;
  PJRT_Executable* executable_ = nullptr;
};

}  // namespace

CompiledFacts compile_for(const std::string& plugin, const std::string& topology,
                          const std::function<ProgramOfDevices(int devices)>& program_for) {
  // libtpu otherwise asks, for minutes, a server that only machines of Google's cloud have.
  setenv("TPU_SKIP_MDS_QUERY", "1", 0);
  // Nor does it let two processes compile at once, as if each took the TPU.
  setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1", 0);
  CompiledFacts facts;
  Compilation compilation(plugin);
  compilation.open_topology(topology, facts);
  compilation.compile(program_for(facts.devices), facts);
  compilation.read_costs(facts);
  compilation.read_memory(facts);
  compilation.read_instructions(facts);
  return facts;
}

}  // namespace podium::pjrt
