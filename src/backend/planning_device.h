// A device that computes nothing and has no memory: it plans what it is asked to compile, and
// counts what it is asked to allocate. What is made on it shows what the same would need on the
// device that it stands for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/device.h"

namespace podium {

class PlanningDevice : public Device {
 public:
  // Plans as `device` does, whose options it has.
  explicit PlanningDevice(std::unique_ptr<Device> device);
  ~PlanningDevice() override;

  std::string name() const override { return device_->name(); }
  std::string description() const override { return device_->description(); }
  Traits traits() const override { return device_->traits(); }
  Bf16Support bf16() override { return device_->bf16(); }

  // Buffers are address space that nobody may read or write. Throws std::bad_alloc where there is
  // no more of that.
  std::unique_ptr<Buffer> allocate(std::int64_t bytes) override;
  Plan plan(const Graph& graph, const CompileOptions& options) override;
  // An executable that has a plan and throws InternalError if it is run.
  std::unique_ptr<Executable> compile(const Graph& graph, const CompileOptions& options) override;

  void upload(View, const void*) override {}
  // InternalError: there is nothing to download, copy or add.
  void download(void*, View) override;
  void copy(View, View) override;
  void accumulate(View, View, int) override;
  void synchronise() override {}

  // What was allocated and compiled until now needs, arenas included.
  std::int64_t bytes() const { return bytes_; }

 private:
  const std::unique_ptr<Device> device_;
  const bool host_memory_;  // the host can reach the device's
  std::int64_t bytes_ = 0;
};

}  // namespace podium
