// Memory of a PJRT device: buffers, and what moves and adds ranges of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/device.h"
#include "backend/pjrt/plugin.h"

namespace podium::pjrt {

// What a device has of a buffer that lies in parts on several: `words` words from `first` on. Those
// in [begin, end) are the buffer's; the others may be old.
struct Window {
  int device = 0;
  std::int64_t first = 0, words = 0, begin = 0, end = 0;
  bool operator==(const Window&) const = default;
};

// A vector of ui32 words. It lies on the host, or on devices, or in parts on devices, or on several
// of these.
class WordBuffer : public Buffer {
 public:
  explicit WordBuffer(std::int64_t bytes) : Buffer(bytes, nullptr) {}

  std::int64_t words() const { return (bytes() + 3) / 4; }

  // Of Memory alone.
  bool on_host = true;                // `host` is what the buffer holds; empty: zeros
  std::vector<std::uint32_t> host;    // may be there although on_host is false
  std::map<int, SharedArray> arrays;  // that hold what the buffer holds, by device
  // That hold it together. What no window has up to date is in `host`.
  std::vector<Window> windows;
  std::vector<SharedArray> parts;
  std::uint64_t version = 0;
};

inline WordBuffer& words_of(const View& view) { return static_cast<WordBuffer&>(*view.buffer); }

// Compiles each module once.
class Programs {
 public:
  explicit Programs(Plugin* plugin) : plugin_(plugin) {}
  // `devices`: as Plugin::compile() has them.
  std::shared_ptr<Program> get(const std::string& module, const std::string& what,
                               std::span<const int> devices = {});

 private:
  Plugin* plugin_;
  std::map<std::string, std::shared_ptr<Program>> programs_;
};

// What all programs and buffers of a device share. Everything but the lock is used with the lock
// held.
class Memory {
 public:
  // Without a plugin, buffers lie on the host, and no program is compiled.
  explicit Memory(Plugin* plugin) : plugin_(plugin), programs_(plugin) {}

  std::mutex& mutex() { return mutex_; }
  Plugin& plugin() { return *plugin_; }
  Programs& programs() { return programs_; }

  // What the buffer holds, on this device.
  SharedArray array(WordBuffer& buffer, int device);
  // The same, for a program that uses it up: the buffer holds nothing until replace().
  SharedArray take(WordBuffer& buffer, int device);
  static void use_up(WordBuffer& buffer);
  static void replace(WordBuffer& buffer, int device, SharedArray array);
  std::vector<SharedArray> parts(WordBuffer& buffer, const std::vector<Window>& windows);
  // After use_up() of the parts in these windows.
  static void replace_parts(WordBuffer& buffer, const std::vector<Window>& windows,
                            std::vector<SharedArray> parts);
  // Where it is cheapest to compute on it.
  static int home(const WordBuffer& buffer);

  void upload(View to, const void* from);
  // Locks by itself, and waits without.
  void download(void* to, View from);
  void copy(View to, View from) { combine(to, from, false); }
  void accumulate(View sum, View addend) { combine(sum, addend, true); }

  // Scalars and other small operands that are the same again and again.
  SharedArray integers(const std::vector<std::int32_t>& values, int device);

 private:
  // to = from, or to + from
  void combine(View to, View from, bool adds);
  void bring_to_host(WordBuffer& buffer);

  std::mutex mutex_;
  Plugin* plugin_;
  Programs programs_;
  std::map<std::pair<int, std::vector<std::int32_t>>, SharedArray> integers_;
};

}  // namespace podium::pjrt
