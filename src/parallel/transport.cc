#include "parallel/transport.h"

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>

#include "base/words.h"
#include "parallel/rest_of_ranks.h"

namespace podium {
namespace {

// Long lines are cut in messages.
std::string in_quotes(const std::string& text) {
  constexpr std::size_t kMost = 120;
  return '"' + (text.size() > kMost ? text.substr(0, kMost) + "..." : text) + '"';
}

}  // namespace

std::string place(const std::string& name, std::int64_t step, const std::string& doing) {
  return cat(name, step > 0 ? cat(", step ", step) : ", before step 1",
             doing.empty() ? "" : cat(" (", doing, ")"));
}

std::string names_of_ranks(const std::vector<int>& ranks, const std::vector<std::string>& hosts) {
  std::string text;
  std::vector<std::string> known;  // hosts, in the order in which they first come
  for (const int first : ranks) {
    const std::string& host = hosts[static_cast<std::size_t>(first)];
    if (std::ranges::find(known, host) != known.end()) continue;
    known.push_back(host);
    std::vector<std::string> numbers;
    for (const int rank : ranks)
      if (hosts[static_cast<std::size_t>(rank)] == host) numbers.push_back(std::to_string(rank));
    if (!text.empty()) text += ", ";
    text += numbers.size() == 1 ? "rank " : "ranks ";
    const std::string last = numbers.back();
    numbers.pop_back();
    text += numbers.empty() ? last : cat(join_words(numbers), " and ", last);
    text += cat(" on host ", host);
  }
  return text;
}

std::string late_text(const std::string& late, const std::string& by, double timeout) {
  return cat(late, ": late; ", by, ", has waited for it for ", timeout, " s (--rank-timeout)");
}

std::string first_difference(const std::string& is, const std::string& should_be) {
  std::istringstream left(is), right(should_be);
  for (int number = 1;; ++number) {
    std::string a, b;
    const bool has_a = static_cast<bool>(std::getline(left, a)),
               has_b = static_cast<bool>(std::getline(right, b));
    if (!has_a && !has_b) return "white space at the end";
    if (has_a && has_b && a == b) continue;
    const bool several = is.find('\n') != std::string::npos;
    return cat(several ? cat("line ", number, ": ") : "", has_a ? in_quotes(a) : "nothing",
               ", not ", has_b ? in_quotes(b) : "nothing");
  }
}

void Transport::set_ranks(int rank, const std::vector<std::string>& hosts) {
  rank_ = rank;
  hosts_ = hosts;
  names_.clear();
  for (std::size_t r = 0; r < hosts.size(); ++r)
    names_.push_back(cat("rank ", r, " on host ", hosts[r]));
  local_rank_ = static_cast<int>(
      std::count(hosts.begin(), hosts.begin() + rank, hosts[static_cast<std::size_t>(rank)]));
  flags_.assign(hosts.size(), 0);
  flag_memory_.clear();
  for (std::uint64_t& flags : flags_) flag_memory_.emplace_back(&flags, sizeof flags);
  flags_out_.clear();
  flags_in_.clear();
  for (int r = 0; r < ranks(); ++r) {
    if (r == rank_) continue;
    flags_out_.push_back({r, flag_memory_[static_cast<std::size_t>(rank_)]});
    flags_in_.push_back({r, flag_memory_[static_cast<std::size_t>(r)]});
  }
}

void Transport::take_ranks(const Transport& of, const std::vector<int>& ranks) {
  std::vector<std::string> hosts, names;
  for (const int rank : ranks) hosts.push_back(of.host(rank)), names.push_back(of.name(rank));
  set_ranks(static_cast<int>(std::ranges::find(ranks, of.rank()) - ranks.begin()), hosts);
  names_ = std::move(names);
  local_rank_ = of.local_rank();
}

void Transport::all_gather(int channel, std::span<const View> all) {
  std::vector<Message> out, in;
  for (int r = 0; r < ranks(); ++r) {
    if (r == rank_) continue;
    out.push_back({r, all[static_cast<std::size_t>(rank_)]});
    in.push_back({r, all[static_cast<std::size_t>(r)]});
  }
  exchange(channel, out, in);
}

void Transport::broadcast(int channel, int root, View view) {
  std::vector<Message> out, in;
  if (rank_ != root) in.push_back({root, view});
  for (int r = 0; r < ranks() && rank_ == root; ++r) {
    if (r != root) out.push_back({r, view});
  }
  exchange(channel, out, in);
}

std::uint64_t Transport::agree(std::uint64_t flags) {
  flags_[static_cast<std::size_t>(rank_)] = flags;
  exchange(kControl, flags_out_, flags_in_);
  std::uint64_t all = 0;
  for (const std::uint64_t word : flags_) all |= word;
  return all;
}

std::vector<std::string> Transport::gather(const std::string& mine) {
  agree(mine.size());  // leaves the sizes of all
  std::vector<std::string> texts;
  for (const std::uint64_t size : flags_) texts.emplace_back(static_cast<std::size_t>(size), ' ');
  texts[static_cast<std::size_t>(rank_)] = mine;
  std::deque<HostMemory> memory;
  for (std::string& text : texts) memory.emplace_back(text.data(), std::ssize(text));
  const std::vector<View> views(memory.begin(), memory.end());
  all_gather(kControl, views);
  return texts;
}

std::unique_ptr<Transport> Transport::without(const std::vector<int>& left_out) {
  return std::make_unique<RestOfRanks>(*this, left_out);
}

void Transport::await_end() {
  std::uint64_t word = 0;
  HostMemory memory(&word, sizeof word);
  const Message in[] = {{0, memory}};
  start(kControl, {}, in);
  // A wait has an end, and this one may take as long as the run.
  while (!arrived(kControl)) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  wait(kControl);
}

void Transport::leave_before_refusal() {
  leave();
  // Some launchers end all at the first exit code that is not 0.
  if (rank() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
}

void Transport::agree_on(const std::string& what, const std::string& text) {
  const std::vector<std::string> texts = gather(text);
  const auto other =
      std::ranges::find_if(texts, [&](const std::string& one) { return one != texts[0]; });
  if (other != texts.end()) leave_before_refusal();
  PODIUM_REQUIRE(other == texts.end(), ExitCode::kUsage,
                 name(static_cast<int>(other - texts.begin())), " has a different ", what, " than ",
                 name(0), ": ", first_difference(*other, texts[0]),
                 "; all ranks of a run must have the same ", what);
}

}  // namespace podium
