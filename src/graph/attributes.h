// Typed attributes of an operation. An attribute struct lists its fields once, in `visit`;
// equality and printing derive from that list.
//
//   struct PoolAttributes {
//     std::int64_t window = 2;
//     template <typename Visitor> void visit(Visitor&& v) const { v("window", window); }
//   };
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <ios>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "base/error.h"

namespace podium {

// For operations without attributes.
struct NoAttributes {
  template <typename Visitor>
  void visit(Visitor&&) const {}
};

// Holds one attribute struct of any type.
class Attributes {
 public:
  Attributes() : Attributes(NoAttributes{}) {}
  // Any copyable struct with a visit() that names its fields.
  template <typename T>
  requires(!std::is_same_v<std::decay_t<T>, Attributes>)
      Attributes(T value)  // NOLINT(google-explicit-constructor): any attribute struct is one
      : type_(&typeid(T)),
        value_(std::make_shared<const T>(std::move(value))),
        text_(print(*static_cast<const T*>(value_.get()))) {}

  template <typename T>
  const T& as() const {
    PODIUM_CHECK(*type_ == typeid(T), type_->name());
    return *static_cast<const T*>(value_.get());
  }
  // "stride_h=2, stride_w=2": equal texts of one type mean equal attributes (floats print exactly).
  const std::string& text() const { return text_; }
  bool operator==(const Attributes& other) const {
    return *type_ == *other.type_ && text_ == other.text_;
  }

 private:
  struct Printer {
    std::ostringstream out;
    const char* separator = "";
    template <typename V>
    void operator()(std::string_view name, const V& value) {
      out << separator << name << '=';
      separator = ", ";
      put(value);
    }
    void put(bool value) { out << (value ? "true" : "false"); }
    void put(float value) { out << std::hexfloat << value << std::defaultfloat; }
    void put(double value) { out << std::hexfloat << value << std::defaultfloat; }
    void put(const std::string& value) { out << '"' << value << '"'; }
    template <typename V>
    void put(const V& value) {
      if constexpr (std::is_enum_v<V>) {
        out << static_cast<std::int64_t>(value);
      } else {
        out << value;
      }
    }
    template <typename V>
    void put(const std::vector<V>& values) {
      out << '[';
      for (std::size_t i = 0; i < values.size(); ++i) out << (i == 0 ? "" : ", ") << values[i];
      out << ']';
    }
  };
  template <typename T>
  static std::string print(const T& value) {
    Printer printer;
    value.visit(printer);
    return printer.out.str();
  }

  const std::type_info* type_;
  std::shared_ptr<const void> value_;
  std::string text_;
};

}  // namespace podium
