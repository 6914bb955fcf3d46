#include <cuda_runtime.h>

#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "backend/cuda/runtime.h"
#include "base/error.h"

namespace podium::cuda {
namespace {

// What to do about an error, where more can be said than CUDA says.
const char* remedy(cudaError_t error) {
  switch (error) {
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorInvalidDeviceFunction:
      return "; this program has no code for this GPU: build it with PODIUM_CUDA_ARCHITECTURES set "
             "to the GPU's compute capability, which \"podium devices\" shows, or choose --backend "
             "cpu";
    case cudaErrorDevicesUnavailable:
      return "; another process may have the GPU for itself: nvidia-smi shows its processes and "
             "its "
             "compute mode";
    case cudaErrorECCUncorrectable:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorUnknown: return "; the kernel log (dmesg, lines with Xid) says more";
    default: return "";
  }
}

// The device in use, and what all are called.
thread_local int t_device = 0;
std::vector<std::string>& device_names() {
  static std::vector<std::string> names;
  return names;
}

void require(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();  // else the next call reports it again, if it can be forgotten
  throw UserError(cat(runtime::gpu_text(t_device, device_names()), " failed in ", call, ": ",
                      cudaGetErrorString(error), " (", cudaGetErrorName(error), ")", remedy(error)),
                  error == cudaErrorMemoryAllocation ? ExitCode::kMemory : ExitCode::kUsage);
}

// Page-locked memory of the host, from which copies go on while the host does something else.
class Staging {
 public:
  ~Staging() {
    if (memory_ != nullptr) (void)cudaFreeHost(memory_);
    if (copied_ != nullptr) (void)cudaEventDestroy(copied_);
  }
  Staging() = default;
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  void upload(cudaStream_t stream, void* to, const void* from, std::size_t bytes) {
    if (copied_ == nullptr)
      require(cudaEventCreateWithFlags(&copied_, cudaEventDisableTiming), "cudaEventCreate");
    require(cudaEventSynchronize(copied_), "cudaEventSynchronize");
    if (bytes > size_) {
      if (memory_ != nullptr)
        require(cudaFreeHost(std::exchange(memory_, nullptr)), "cudaFreeHost");
      size_ = 0;
      require(cudaMallocHost(&memory_, bytes), "cudaMallocHost");
      size_ = bytes;
    }
    std::memcpy(memory_, from, bytes);
    require(cudaMemcpyAsync(to, memory_, bytes, cudaMemcpyHostToDevice, stream),
            "cudaMemcpyAsync to the device");
    require(cudaEventRecord(copied_, stream), "cudaEventRecord");
  }

 private:
  void* memory_ = nullptr;
  std::size_t size_ = 0;
  cudaEvent_t copied_ = nullptr;
};

// A stream with the memory from which it uploads: pieces take turns, so that the host fills one
// while another is being copied.
struct OwnStream {
  cudaStream_t stream = nullptr;
  int device = 0;
  static constexpr std::size_t kPieces = 4;
  Staging staging[kPieces];
  std::size_t next = 0;
};

class CudaRecording : public runtime::Recording {
 public:
  explicit CudaRecording(cudaGraphExec_t graph) : graph_(graph) {}
  ~CudaRecording() override {
    if (played_ != nullptr) (void)cudaStreamSynchronize(played_);  // it may be under way
    (void)cudaGraphExecDestroy(graph_);
  }
  CudaRecording(const CudaRecording&) = delete;
  CudaRecording& operator=(const CudaRecording&) = delete;
  void play(Stream stream) override;

 private:
  cudaGraphExec_t graph_;
  cudaStream_t played_ = nullptr;
};

class CudaEvent : public runtime::Event {
 public:
  CudaEvent() {
    require(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate");
  }
  ~CudaEvent() override { (void)cudaEventDestroy(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  void set(Stream stream) override;
  bool is_done() override {
    const cudaError_t error = cudaEventQuery(event_);
    if (error == cudaErrorNotReady) {
      (void)cudaGetLastError();  // which is no error, but is reported as one by the next call
      return false;
    }
    require(error, "cudaEventQuery");
    return true;
  }
  void wait() override { require(cudaEventSynchronize(event_), "cudaEventSynchronize"); }
  void hold(Stream stream) override;

 private:
  cudaEvent_t event_ = nullptr;
};

class CudaMarks : public runtime::Marks {
 public:
  CudaMarks() = default;
  ~CudaMarks() override {
    for (const cudaEvent_t event : events_) (void)cudaEventDestroy(event);
  }
  CudaMarks(const CudaMarks&) = delete;
  CudaMarks& operator=(const CudaMarks&) = delete;
  void add(Stream stream) override;
  double seconds_between(std::size_t first, std::size_t second) override {
    require(cudaEventSynchronize(events_[second]), "cudaEventSynchronize");
    float milliseconds = 0;
    require(cudaEventElapsedTime(&milliseconds, events_[first], events_[second]),
            "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  std::vector<cudaEvent_t> events_;
};

OwnStream& own(Stream stream) { return *static_cast<OwnStream*>(stream); }

void CudaRecording::play(Stream stream) {
  played_ = own(stream).stream;
  require(cudaGraphLaunch(graph_, played_), "cudaGraphLaunch");
}
void CudaMarks::add(Stream stream) {
  cudaEvent_t event = nullptr;
  require(cudaEventCreate(&event), "cudaEventCreate");
  events_.push_back(event);
  require(cudaEventRecord(event, own(stream).stream), "cudaEventRecord");
}

void CudaEvent::set(Stream stream) {
  require(cudaEventRecord(event_, own(stream).stream), "cudaEventRecord");
}
void CudaEvent::hold(Stream stream) {
  require(cudaStreamWaitEvent(own(stream).stream, event_, 0), "cudaStreamWaitEvent");
}

std::string version_text(int version) { return cat(version / 1000, ".", version % 1000 / 10); }

}  // namespace

// simt.h: what a launch needs of its stream.
void* simt_stream(Stream stream) { return own(stream).stream; }
void simt_require(int error, const char* call) { require(static_cast<cudaError_t>(error), call); }
namespace simt {
std::size_t most_shared_bytes() {
  int device = 0, bytes = 0;
  require(cudaGetDevice(&device), "cudaGetDevice");
  require(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
          "cudaDeviceGetAttribute");
  return static_cast<std::size_t>(bytes);
}
}  // namespace simt

namespace runtime {

Found find_devices() {
  Found found;
  int driver = 0, library = 0, count = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&library);
  found.versions =
      driver == 0 ? cat("CUDA ", version_text(library), ", no driver")
                  : cat("CUDA ", version_text(library), ", driver for CUDA ", version_text(driver));
  const cudaError_t error = cudaGetDeviceCount(&count);
  (void)cudaGetLastError();
  if (driver == 0) {
    found.missing =
        "no NVIDIA driver is installed (libcuda.so.1 is not found); install the driver of your "
        "distribution, or choose --backend cpu";
    return found;
  }
  if (error == cudaErrorInsufficientDriver) {
    found.missing = cat("the NVIDIA driver is too old: it supports CUDA ", version_text(driver),
                        ", and this program needs ", version_text(library),
                        "; install a newer driver, or choose --backend cpu");
    return found;
  }
  if (error != cudaSuccess || count == 0) {
    found.missing = cat("there is no NVIDIA GPU that can be used",
                        error == cudaSuccess || error == cudaErrorNoDevice
                            ? std::string(" (is CUDA_VISIBLE_DEVICES empty?)")
                            : cat(" (", cudaGetErrorString(error), ")"),
                        "; nvidia-smi lists what the driver sees");
    return found;
  }
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    require(cudaGetDeviceProperties(&properties, i), "cudaGetDeviceProperties");
    int kilohertz = 0;
    require(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, i), "cudaDeviceGetAttribute");
    found.devices.push_back({.name = properties.name,
                             .id = {properties.uuid.bytes, sizeof properties.uuid.bytes},
                             .major = properties.major,
                             .minor = properties.minor,
                             .memory = static_cast<std::int64_t>(properties.totalGlobalMem),
                             .multiprocessors = properties.multiProcessorCount,
                             .clock = 1e3 * kilohertz,
                             .cache = properties.l2CacheSize});
    names.push_back(found.devices.back().name);
  }
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  if (device_names().empty()) device_names() = std::move(names);
  return found;
}

std::int64_t free_memory() {
  std::size_t free = 0, total = 0;
  require(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<std::int64_t>(free);
}

void use(int device) {
  t_device = device;
  require(cudaSetDevice(device), "cudaSetDevice");
}

Stream make_stream() {
  auto stream = std::make_unique<OwnStream>();
  stream->device = t_device;
  require(cudaStreamCreateWithFlags(&stream->stream, cudaStreamNonBlocking), "cudaStreamCreate");
  return stream.release();
}
void destroy_stream(Stream stream) {
  const std::unique_ptr<OwnStream> owned(&own(stream));
  (void)cudaStreamSynchronize(owned->stream);
  (void)cudaStreamDestroy(owned->stream);
}

void* allocate_scratch(std::int64_t bytes) {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, static_cast<std::size_t>(bytes == 0 ? 1 : bytes));
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    throw std::bad_alloc();
  }
  require(error, "cudaMalloc");
  return memory;
}
void* allocate(std::int64_t bytes) {
  void* const memory = allocate_scratch(bytes);
  try {
    require(cudaMemset(memory, 0, static_cast<std::size_t>(bytes)), "cudaMemset");
    require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // other streams do not wait for it
  } catch (...) {
    deallocate(memory);
    throw;
  }
  return memory;
}
void deallocate(void* memory) noexcept { (void)cudaFree(memory); }

void upload(Stream stream, void* to, const void* from, std::int64_t bytes) {
  OwnStream& o = own(stream);
  Staging& piece = o.staging[o.next++ % OwnStream::kPieces];
  piece.upload(o.stream, to, from, static_cast<std::size_t>(bytes));
}
void download(Stream stream, void* to, const void* from, std::int64_t bytes) {
  require(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost,
                          own(stream).stream),
          "cudaMemcpyAsync to the host");
  synchronise(stream);
}
void copy(Stream stream, void* to, const void* from, std::int64_t bytes) {
  require(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice,
                          own(stream).stream),
          "cudaMemcpyAsync on the device");
}
void copy_between(Stream stream, void* to, int to_device, const void* from, int from_device,
                  std::int64_t bytes) {
  require(cudaMemcpyPeerAsync(to, to_device, from, from_device, static_cast<std::size_t>(bytes),
                              own(stream).stream),
          "cudaMemcpyPeerAsync");
}
void connect(int device, int other) {
  int possible = 0;
  require(cudaDeviceCanAccessPeer(&possible, device, other), "cudaDeviceCanAccessPeer");
  if (possible == 0) return;  // copies then go through memory of the host
  use(device);
  const cudaError_t error = cudaDeviceEnablePeerAccess(other, 0);
  if (error == cudaErrorPeerAccessAlreadyEnabled)
    (void)cudaGetLastError();
  else
    require(error, "cudaDeviceEnablePeerAccess");
}
void synchronise(Stream stream) {
  require(cudaStreamSynchronize(own(stream).stream), "cudaStreamSynchronize");
}

void follow(Stream stream, Stream other) {
  // An event belongs to the device of the stream that it is recorded in, and may be recorded again
  // as soon as the wait is enqueued.
  const bool crosses = own(stream).device != own(other).device;
  if (crosses) use(own(other).device);
  CudaEvent event;
  event.set(other);
  if (crosses) use(own(stream).device);
  event.hold(stream);
}
void* native(Stream stream) { return own(stream).stream; }
std::unique_ptr<Event> make_event() { return std::make_unique<CudaEvent>(); }

std::unique_ptr<Recording> record(Stream stream, const std::function<void()>& launches) {
  const cudaStream_t on = own(stream).stream;
  require(cudaStreamBeginCapture(on, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    launches();
  } catch (...) {
    (void)cudaStreamEndCapture(on, &graph);
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    throw;
  }
  require(cudaStreamEndCapture(on, &graph), "cudaStreamEndCapture");
  cudaGraphExec_t ready = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&ready, graph, 0);
  (void)cudaGraphDestroy(graph);
  require(error, "cudaGraphInstantiate");
  return std::make_unique<CudaRecording>(ready);
}

std::unique_ptr<Marks> make_marks() { return std::make_unique<CudaMarks>(); }

}  // namespace runtime
}  // namespace podium::cuda
