#include "cli/placement_runs.h"

#include <charconv>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "backend/device.h"
#include "base/error.h"
#include "base/words.h"
#include "cli/talk.h"
#include "files/program.h"

namespace podium {
namespace {

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, by);) {
    const std::size_t begin = part.find_first_not_of(" \t\n");
    if (begin == std::string::npos) continue;
    parts.push_back(part.substr(begin, part.find_last_not_of(" \t\n") - begin + 1));
  }
  return parts;
}

}  // namespace

std::vector<NamedPlacement> parse_placements(const std::string& text) {
  static const std::vector<std::string> kKeys = {"workers", "threads", "input-threads", "backend",
                                                 "ranks"};
  std::vector<NamedPlacement> placements;
  for (const std::string& part : split(text, ';')) {
    NamedPlacement placement;
    for (const std::string& setting : split(part, ',')) {
      const std::size_t equals = setting.find('=');
      const std::string key = setting.substr(0, equals);
      const std::string value = equals == std::string::npos ? "" : setting.substr(equals + 1);
      bool known = false;
      for (const std::string& one : kKeys) known = known || one == key;
      PODIUM_REQUIRE(known, ExitCode::kUsage, "--placements: \"", setting,
                     "\" is not a setting of a placement; the nearest is \"",
                     nearest_word(key, kKeys), "\" of ", join_words(kKeys),
                     "; separate placements by ;, as in \"workers=1;workers=2,threads=2;ranks=2\"");
      if (key != "backend") {
        int number = 0;
        const auto [rest, error] =
            std::from_chars(value.data(), value.data() + value.size(), number);
        const int least = key == "input-threads" ? 0 : 1;
        PODIUM_REQUIRE(error == std::errc() && rest == value.data() + value.size() &&
                           number >= least && number <= 65536,
                       ExitCode::kUsage, "--placements: `", key, "` must be a whole number from ",
                       least, " to 65536, got \"", value, "\"");
        if (key == "ranks") placement.ranks = number;
      } else {
        const std::vector<std::string> names = backend_names();
        bool is_backend = false;
        for (const std::string& one : names) is_backend = is_backend || one == value;
        PODIUM_REQUIRE(is_backend, ExitCode::kUsage, "--placements: there is no backend \"", value,
                       "\"; known: ", join_words(names));
      }
      if (key != "ranks") {
        placement.flags.push_back("--" + key);
        placement.flags.push_back(value);
      }
      placement.name += cat(placement.name.empty() ? "" : "-", key, "-", value);
    }
    for (const NamedPlacement& other : placements)
      PODIUM_REQUIRE(other.name != placement.name, ExitCode::kUsage, "--placements: \"", part,
                     "\" appears twice; to repeat a run, use another seed or --out");
    if (!placement.name.empty()) placements.push_back(std::move(placement));
  }
  PODIUM_REQUIRE(!placements.empty(), ExitCode::kUsage,
                 "--placements is empty; write placements as in \"workers=1;workers=2;ranks=2\"");
  return placements;
}

MadeRuns run_placements(const PlacementRuns& runs) {
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  MadeRuns made;
  for (const NamedPlacement& placement : runs.placements) {
    const std::string folder = cat(runs.out, "/", placement.name);
    std::vector<std::string> words;
    if (placement.ranks > 1) {
      words = split(runs.launcher, ' ');
      words.insert(words.end(), {"-n", cat(placement.ranks)});
    }
    words.insert(words.end(), {program, "train", runs.recipe});
    words.insert(words.end(), runs.overrides.begin(), runs.overrides.end());
    words.insert(words.end(), {"--out", folder});
    words.insert(words.end(), placement.flags.begin(), placement.flags.end());
    words.insert(words.end(), runs.train_flags.begin(), runs.train_flags.end());
    say(cat("placement     ", placement.name, ", in ", folder));
    // The comparison is what this command prints; the run saves, and this program ends by its code.
    const int code =
        run_program(words, {},
                    "; --launcher names the program that starts ranks, as in --launcher mpirun")
            .code;
    if (std::filesystem::exists(folder, error)) made.folders.push_back(folder);
    if (code == 0 || !made.failure.empty()) continue;
    made.failure =
        cat("the run with the placement ", placement.name, " ended with code ", code,
            "; what it saved is in ", folder, ", and the same command resumes from there");
    made.code = static_cast<ExitCode>(code);
    if (made.code == ExitCode::kStopped || code >= 128) break;
  }
  return made;
}

}  // namespace podium
