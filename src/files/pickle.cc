#include "files/pickle.h"

#include <cstddef>
#include <deque>
#include <map>
#include <utility>

#include "base/error.h"

namespace podium {
namespace {

constexpr std::size_t kMostExtents = 16, kMostItems = 1 << 20;

enum class Kind : std::uint8_t {
  kMark,
  kOther,
  kInteger,
  kText,
  kList,
  kDict,
  kGlobal,
  kStorage,
  kTensor
};

// Parts of lists and dictionaries are values by their number; those of a dictionary keys and values
// in turn.
struct Item {
  Kind kind = Kind::kOther;
  std::int64_t integer = 0;
  std::string text = {};  // of a global, module and name
  std::vector<std::size_t> parts = {};
  PickledTensor tensor = {};  // of a storage and a tensor
};

class Machine {
 public:
  Machine(std::string_view pickle, const std::string& source) : pickle_(pickle), source_(source) {}

  std::vector<PickledTensor> run() {
    while (step()) {
    }
    require(stack_.size() == 1, "ends with other than one value");
    return tensors_of(stack_.back(), 0);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(cat(source_, ": byte ", at_, " of its pickle: ", what,
                        "; save the state dict alone: torch.save(model.state_dict(), FILE)"),
                    ExitCode::kData);
  }
  void require(bool holds, const char* what) const {
    if (!holds) fail(what);
  }

  std::string_view take(std::size_t bytes) {
    require(bytes <= pickle_.size() - at_, "the file is cut short");
    const std::string_view taken = pickle_.substr(at_, bytes);
    at_ += bytes;
    return taken;
  }
  // Little-endian, not negative.
  std::uint64_t number(std::size_t bytes) {
    std::uint64_t value = 0;
    const std::string_view text = take(bytes);
    for (std::size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(text[i]);
    return value;
  }
  std::string line() {
    const std::size_t end = pickle_.find('\n', at_);
    require(end != std::string_view::npos, "the file is cut short");
    std::string text(take(end - at_));
    ++at_;
    return text;
  }

  void push(Item item) {
    require(items_.size() < kMostItems, "more values than a state dict has");
    stack_.push_back(items_.size());
    items_.push_back(std::move(item));
  }
  std::size_t pop() {
    require(!stack_.empty(), "a value is missing");
    const std::size_t top = stack_.back();
    stack_.pop_back();
    return top;
  }
  Item& top() {
    require(!stack_.empty(), "a value is missing");
    return items_[stack_.back()];
  }
  // What lies above the last mark, which goes, too.
  std::vector<std::size_t> pop_to_mark() {
    std::size_t first = stack_.size();
    while (first > 0 && items_[stack_[first - 1]].kind != Kind::kMark) --first;
    require(first > 0, "a value is missing");
    const std::vector<std::size_t> parts(stack_.begin() + static_cast<std::ptrdiff_t>(first),
                                         stack_.end());
    stack_.resize(first - 1);
    return parts;
  }
  void tuple(std::size_t count) {
    Item item{.kind = Kind::kList};
    for (std::size_t i = 0; i < count; ++i) item.parts.insert(item.parts.begin(), pop());
    push(std::move(item));
  }
  void put(std::uint64_t number) {
    require(!stack_.empty(), "a value is missing");
    memo_[number] = stack_.back();
  }
  void get(std::uint64_t number) {
    const auto found = memo_.find(number);
    require(found != memo_.end(), "a value that was not kept");
    stack_.push_back(found->second);
  }
  void add_parts(Kind kind, const std::vector<std::size_t>& parts) {
    Item& to = top();
    require(to.kind == kind, "parts of what is no list or dictionary");
    require(kind != Kind::kDict || parts.size() % 2 == 0, "a key without a value");
    to.parts.insert(to.parts.end(), parts.begin(), parts.end());
  }

  const Item& part(const Item& list, std::size_t i, Kind kind) const {
    require(list.kind == Kind::kList && i < list.parts.size() && items_[list.parts[i]].kind == kind,
            "a storage or a tensor of another form");
    return items_[list.parts[i]];
  }

  // ("storage", torch.FloatStorage, "0", "cpu", 12)
  void storage() {
    const Item& asked = items_[pop()];
    Item item{.kind = Kind::kStorage};
    const std::string& type = part(asked, 1, Kind::kGlobal).text;
    require(part(asked, 0, Kind::kText).text == "storage" && type.starts_with("torch "),
            "a reference to what is no storage");
    item.tensor.kind = type.substr(6);
    item.tensor.storage = part(asked, 2, Kind::kText).text;
    item.tensor.count = part(asked, 4, Kind::kInteger).integer;
    require(item.tensor.count >= 0, "a storage of a negative length");
    push(std::move(item));
  }

  std::vector<std::int64_t> integers(const Item& list) const {
    require(list.parts.size() <= kMostExtents, "a tensor of too many extents");
    std::vector<std::int64_t> values;
    for (std::size_t i = 0; i < list.parts.size(); ++i) {
      values.push_back(part(list, i, Kind::kInteger).integer);
      require(values.back() >= 0, "a negative extent or stride");
    }
    return values;
  }

  void call() {
    const Item& arguments = items_[pop()];
    const Item& called = items_[pop()];
    require(called.kind == Kind::kGlobal && arguments.kind == Kind::kList, "a call of no function");
    if (called.text == "collections OrderedDict") {
      require(arguments.parts.empty(), "an ordered dictionary of a list");
      push({.kind = Kind::kDict});
    } else if (called.text == "torch._utils _rebuild_tensor_v2") {
      Item item = part(arguments, 0, Kind::kStorage);
      item.kind = Kind::kTensor;
      item.tensor.offset = part(arguments, 1, Kind::kInteger).integer;
      require(item.tensor.offset >= 0, "a negative place in a storage");
      item.tensor.extents = integers(part(arguments, 2, Kind::kList));
      item.tensor.strides = integers(part(arguments, 3, Kind::kList));
      require(item.tensor.extents.size() == item.tensor.strides.size(),
              "other numbers of extents and strides");
      push(std::move(item));
    } else if (called.text == "torch._utils _rebuild_parameter") {
      push(Item(part(arguments, 0, Kind::kTensor)));
    } else {
      fail(cat("it would call ", called.text, ", which makes no tensor, and Podium runs no code ",
               "of a file"));
    }
  }

  // One instruction; false: the last one.
  bool step() {
    const auto code = static_cast<unsigned char>(take(1)[0]);
    switch (code) {
      case 0x80: number(1); break;  // protocol
      case 0x95: number(8); break;  // frame
      case '.': return false;       // stop
      case '(': push({.kind = Kind::kMark}); break;
      case '}': push({.kind = Kind::kDict}); break;
      case ']':
      case ')': push({.kind = Kind::kList}); break;
      case 'N':
      case 0x88:
      case 0x89: push({}); break;            // none, true, false
      case 'G': number(8), push({}); break;  // a float
      case 'K': integer(static_cast<std::int64_t>(number(1))); break;
      case 'M': integer(static_cast<std::int64_t>(number(2))); break;
      case 'J': integer(static_cast<std::int32_t>(number(4))); break;
      case 0x8a: long_integer(); break;
      case 'X': text(number(4)); break;
      case 0x8c: text(number(1)); break;
      case 't': push({.kind = Kind::kList, .parts = pop_to_mark()}); break;
      case 0x85: tuple(1); break;
      case 0x86: tuple(2); break;
      case 0x87: tuple(3); break;
      case 'q': put(number(1)); break;
      case 'r': put(number(4)); break;
      case 0x94: put(memo_.size()); break;
      case 'h': get(number(1)); break;
      case 'j': get(number(4)); break;
      case 'c': global(); break;
      case 0x93: stack_global(); break;
      case 'Q': storage(); break;
      case 'R': call(); break;
      case 'b':  // state of an object
        pop();
        require(top().kind == Kind::kDict, "an object with a state");
        break;
      case 's': {
        const std::size_t value = pop(), key = pop();
        add_parts(Kind::kDict, {key, value});
        break;
      }
      case 'u': add_parts(Kind::kDict, pop_to_mark()); break;
      case 'a': add_parts(Kind::kList, {pop()}); break;
      case 'e': add_parts(Kind::kList, pop_to_mark()); break;
      default: fail(cat("the instruction ", static_cast<int>(code), " is none of a state dict"));
    }
    return true;
  }
  void integer(std::int64_t value) { push({.kind = Kind::kInteger, .integer = value}); }
  void long_integer() {
    const std::uint64_t bytes = number(1);
    require(bytes <= 8, "an integer of more than 64 bits");
    std::uint64_t value = number(bytes);
    if (bytes > 0 && bytes < 8 && (value >> (8 * bytes - 1) & 1) != 0)
      value |= ~std::uint64_t{0} << 8 * bytes;
    integer(static_cast<std::int64_t>(value));
  }
  void text(std::uint64_t bytes) { push({.kind = Kind::kText, .text = std::string(take(bytes))}); }
  void global() {
    const std::string module = line();
    push({.kind = Kind::kGlobal, .text = module + " " + line()});
  }
  void stack_global() {
    const Item &name = items_[pop()], &module = items_[pop()];
    require(name.kind == Kind::kText && module.kind == Kind::kText, "a function without a name");
    push({.kind = Kind::kGlobal, .text = module.text + " " + name.text});
  }

  std::vector<PickledTensor> tensors_of(std::size_t number, int depth) const {
    const Item& dict = items_[number];
    if (dict.kind != Kind::kDict) fail("the value is no dictionary of tensors");
    std::vector<PickledTensor> tensors;
    for (std::size_t i = 0; i < dict.parts.size(); i += 2) {
      const Item &key = items_[dict.parts[i]], &value = items_[dict.parts[i + 1]];
      if (key.kind != Kind::kText) continue;
      if (value.kind == Kind::kDict && depth == 0)
        for (const char* name : {"state_dict", "model_state_dict", "model"})
          if (key.text == name) return tensors_of(dict.parts[i + 1], 1);
      if (value.kind != Kind::kTensor) continue;
      tensors.push_back(value.tensor);
      tensors.back().name = key.text;
    }
    if (tensors.empty()) fail("the dictionary has no tensors");
    return tensors;
  }

  const std::string_view pickle_;
  const std::string& source_;
  std::size_t at_ = 0;
  std::deque<Item> items_;  // references to them stay
  std::vector<std::size_t> stack_;
  std::map<std::uint64_t, std::size_t> memo_;
};

}  // namespace

std::vector<PickledTensor> tensors_of_pickle(std::string_view pickle, const std::string& source) {
  return Machine(pickle, source).run();
}

}  // namespace podium
