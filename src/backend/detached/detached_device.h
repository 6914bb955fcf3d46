// A device for tests, as far from a CPU as one can be without hardware. The host cannot read its
// memory: that is mapped without access, but while the device itself uses it. Its queue runs on a
// thread of its own, with random delays. The arithmetic is the CPU backend's.
//
// With a fault it does something wrong, in calls that a seed chooses. A test that passes on it all
// the same proves nothing.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/device.h"

namespace podium {

enum class Fault : std::uint8_t {
  kNone,
  kUpload,       // left out: the device keeps what it had
  kDownload,     // left out: the host keeps what it had
  kSynchronise,  // left out: a download reads what is there before the queue has run
  kDonation,     // left out: a donated output is written elsewhere
  kBit,          // the last bit of one element of a result is another
  kOrder,        // matrix products are summed from the other end
};

struct DetachedOptions {
  Fault fault = Fault::kNone;
  std::uint64_t seed = 1;
  int period = 3;         // of so many calls that the fault concerns, one is wrong
  int microseconds = 20;  // the longest delay before a task of the queue
  Traits traits = {};     // that it claims to have
};

std::unique_ptr<Device> make_detached_device(const DeviceOptions& options,
                                             const DetachedOptions& detached);

// Registers the backend "detached", with the options that the last call gave.
void register_detached_backend(const DetachedOptions& detached = {});

}  // namespace podium
