// Memory that both the host and a device use: the device's own where the host can reach it,
// otherwise a copy on the host as well. Staging is for what goes to and fro in every step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/device.h"
#include "tensor/tensor.h"

namespace podium {

// The bytes of a view on the host: where they lie if it can reach them, otherwise a copy.
class HostCopy {
 public:
  // Waits for the device.
  HostCopy(Device& device, View view) {
    if (view.host() != nullptr) {
      device.synchronise();
      memory_ = AlignedBytes::borrowed(view.host(), static_cast<std::size_t>(view.bytes));
    } else {
      memory_ = AlignedBytes(static_cast<std::size_t>(view.bytes));
      device.download(memory_.data(), view);
    }
  }
  // From a byte on, which is aligned to T.
  template <typename T>
  const T* at(std::int64_t offset = 0) const {
    return reinterpret_cast<const T*>(memory_.data() + offset);
  }

 private:
  AlignedBytes memory_;
};

// send() and receive() bring the bytes over where the two are apart.
class Staging {
 public:
  Staging() = default;  // of nothing: only to be assigned to
  Staging(Device& device, std::int64_t bytes) : device_(&device), buffer_(device.allocate(bytes)) {
    if (buffer_->host() == nullptr) copy_ = AlignedBytes(static_cast<std::size_t>(bytes));
  }

  // What a program binds.
  View view() const { return *buffer_; }
  // What the host reads and writes.
  template <typename T>
  T* host() const {
    return reinterpret_cast<T*>(buffer_->host() != nullptr ? buffer_->host() : copy_.data());
  }
  // After the host wrote; before a program reads.
  void send() const {
    if (buffer_->host() == nullptr) device_->upload(*buffer_, copy_.data());
  }
  // After a program wrote; before the host reads. Waits for the device.
  void receive() const {
    if (buffer_->host() == nullptr) {
      device_->download(copy_.data(), *buffer_);
    } else {
      device_->synchronise();
    }
  }
  std::int64_t bytes() const { return buffer_ == nullptr ? 0 : buffer_->bytes(); }

 private:
  Device* device_ = nullptr;
  std::unique_ptr<Buffer> buffer_;
  AlignedBytes copy_;
};

}  // namespace podium
