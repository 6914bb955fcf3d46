#include "backend/pjrt/memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "compile/stablehlo/stablehlo.h"

namespace podium::pjrt {
namespace {

using stablehlo::Builder;
using stablehlo::HloValue;

TensorType words_type(std::int64_t count) { return {DType::kU32, Shape{count}}; }

// Arguments: the vector that is written (donated); the one that is read, unless it is the same;
// i32[2], where the ranges begin in them. Result: the first vector anew.
std::string combine_module(std::int64_t to_words, std::int64_t from_words, std::int64_t count,
                           bool is_same, bool adds) {
  Builder b("HIGHEST");
  std::vector<std::string> arguments;
  std::vector<HloValue> values;
  const auto argument = [&](const TensorType& type, const char* attribute) {
    values.push_back(b.argument(values.size(), type));
    arguments.push_back(cat(values.back().name, ": ", values.back().type(), attribute));
  };
  argument(words_type(to_words), " {tf.aliasing_output = 0 : i32}");
  if (!is_same) argument(words_type(from_words), "");
  argument({DType::kI32, Shape{2}}, "");
  const HloValue &to = values[0], &from = values[is_same ? 0 : 1], &firsts = values.back();
  const auto first = [&](std::int64_t i) { return b.reshape(b.slice(firsts, 0, i, 1), Shape{}); };
  const auto part = [&](const HloValue& x, std::int64_t i) {
    return x.shape[0] == count ? x : b.dynamic_slice(x, first(i), count);
  };
  HloValue moved = part(from, 1);
  if (adds) {
    const HloValue sum = b.add(b.bitcast(part(to, 0), "f32"), b.bitcast(moved, "f32"));
    moved = b.bitcast(sum, "ui32");
  }
  const HloValue result = to_words == count ? moved : b.dynamic_update_slice(to, moved, first(0));
  return module_around(adds ? "accumulate" : "copy", arguments, b, {&result, 1});
}

std::int32_t word_of(std::int64_t offset) {
  PODIUM_CHECK(offset % 4 == 0, "a view begins within a word");
  return static_cast<std::int32_t>(offset / 4);
}

// Above, a copy on the host is not kept when the device has written.
constexpr std::size_t kKept = 1 << 16;

}  // namespace

std::shared_ptr<Program> Programs::get(const std::string& module, const std::string& what,
                                       std::span<const int> devices) {
  std::shared_ptr<Program>& program = programs_[module];
  if (!program) program = plugin_->compile(module, what, devices);
  return program;
}

int Memory::home(const WordBuffer& buffer) {
  return buffer.arrays.empty() ? 0 : buffer.arrays.begin()->first;
}

SharedArray Memory::array(WordBuffer& buffer, int device) {
  if (const auto found = buffer.arrays.find(device); found != buffer.arrays.end())
    return found->second;
  if (!buffer.on_host && !buffer.arrays.empty())
    return buffer.arrays[device] = plugin_->copy_to(*buffer.arrays.begin()->second, device);
  bring_to_host(buffer);
  return buffer.arrays[device] =
             plugin_->upload(device, buffer.host.data(), buffer.words(), DType::kU32);
}

void Memory::use_up(WordBuffer& buffer) {
  buffer.arrays.clear();
  buffer.parts.clear();
  buffer.on_host = false;
}

SharedArray Memory::take(WordBuffer& buffer, int device) {
  SharedArray taken = array(buffer, device);
  use_up(buffer);
  return taken;
}

void Memory::replace(WordBuffer& buffer, int device, SharedArray array) {
  use_up(buffer);
  buffer.arrays[device] = std::move(array);
  if (buffer.host.size() > kKept) std::vector<std::uint32_t>().swap(buffer.host);
  ++buffer.version;
}

std::vector<SharedArray> Memory::parts(WordBuffer& buffer, const std::vector<Window>& windows) {
  if (buffer.parts.empty() || buffer.windows != windows) {
    bring_to_host(buffer);
    buffer.windows = windows;
    buffer.parts.clear();
    for (const Window& window : windows)
      buffer.parts.push_back(plugin_->upload(window.device, buffer.host.data() + window.first,
                                             window.words, DType::kU32));
  }
  return buffer.parts;
}

void Memory::replace_parts(WordBuffer& buffer, const std::vector<Window>& windows,
                           std::vector<SharedArray> parts) {
  buffer.windows = windows;
  buffer.parts = std::move(parts);
  ++buffer.version;
}

void Memory::bring_to_host(WordBuffer& buffer) {
  buffer.host.resize(static_cast<std::size_t>(buffer.words()));
  if (buffer.on_host) return;
  PODIUM_CHECK(!buffer.arrays.empty() || !buffer.parts.empty(),
               "a buffer that a failed program has used up is read");
  if (!buffer.arrays.empty())
    plugin_->download(*buffer.arrays.begin()->second, buffer.host.data(), buffer.words() * 4);
  for (std::size_t i = 0; i < buffer.parts.size() && buffer.arrays.empty(); ++i) {
    const Window& window = buffer.windows[i];
    if (window.begin == window.end) continue;
    std::vector<std::uint32_t> part(static_cast<std::size_t>(window.words));
    plugin_->download(*buffer.parts[i], part.data(), window.words * 4);
    std::copy(part.begin() + (window.begin - window.first),
              part.begin() + (window.end - window.first), buffer.host.begin() + window.begin);
  }
  buffer.on_host = true;
}

void Memory::upload(View to, const void* from) {
  WordBuffer& buffer = words_of(to);
  if (to.bytes == buffer.bytes()) {
    buffer.host.resize(static_cast<std::size_t>(buffer.words()));
  } else {
    bring_to_host(buffer);
  }
  std::memcpy(reinterpret_cast<std::byte*>(buffer.host.data()) + to.offset, from,
              static_cast<std::size_t>(to.bytes));
  buffer.on_host = true;
  ++buffer.version;
  // A batch of the next step goes to the device while that computes this one.
  const bool was_there = !buffer.arrays.empty() && to.bytes == buffer.bytes();
  const int device = home(buffer);
  buffer.arrays.clear();
  buffer.parts.clear();
  if (was_there) array(buffer, device);
}

void Memory::download(void* to, View from) {
  WordBuffer& buffer = words_of(from);
  SharedArray array;
  std::uint64_t version = 0;
  std::vector<std::uint32_t> words(static_cast<std::size_t>(buffer.words()));
  {
    const std::scoped_lock lock(mutex_);
    if (buffer.on_host || buffer.arrays.empty()) {
      bring_to_host(buffer);
      std::memcpy(to, reinterpret_cast<const std::byte*>(buffer.host.data()) + from.offset,
                  static_cast<std::size_t>(from.bytes));
      return;
    }
    array = buffer.arrays.begin()->second;
    version = buffer.version;
  }
  plugin_->download(*array, words.data(), buffer.words() * 4);
  std::memcpy(to, reinterpret_cast<const std::byte*>(words.data()) + from.offset,
              static_cast<std::size_t>(from.bytes));
  const std::scoped_lock lock(mutex_);
  if (buffer.version != version) return;
  buffer.host = std::move(words);
  buffer.on_host = true;
}

SharedArray Memory::integers(const std::vector<std::int32_t>& values, int device) {
  SharedArray& known = integers_[{device, values}];
  if (!known) known = plugin_->upload(device, values.data(), std::ssize(values), DType::kI32);
  return known;
}

void Memory::combine(View to, View from, bool adds) {
  if (to.bytes == 0) return;
  WordBuffer &target = words_of(to), &source = words_of(from);
  const bool is_same = &target == &source;
  if (!adds && target.on_host && source.on_host && target.arrays.empty()) {
    bring_to_host(target), bring_to_host(source);
    std::memcpy(reinterpret_cast<std::byte*>(target.host.data()) + to.offset,
                reinterpret_cast<const std::byte*>(source.host.data()) + from.offset,
                static_cast<std::size_t>(to.bytes));
    target.parts.clear();
    ++target.version;
    return;
  }
  const int device = home(target.arrays.empty() ? source : target);
  const std::int64_t count = (to.bytes + 3) / 4;
  const auto program =
      programs_.get(combine_module(target.words(), source.words(), count, is_same, adds),
                    adds ? "an addition of the tree" : "a copy");
  std::vector<SharedArray> arguments;
  if (!is_same) arguments.push_back(array(source, device));
  arguments.push_back(integers({word_of(to.offset), word_of(from.offset)}, device));
  arguments.insert(arguments.begin(), take(target, device));
  replace(target, device,
          plugin_->run(*program, device, arguments, 1, adds ? "an addition" : "a copy")[0]);
}

}  // namespace podium::pjrt
