#include "train/run/run_pictures.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/words.h"
#include "data/pictures/pictures.h"
#include "files/byte_text.h"
#include "train/machine/memory.h"

namespace podium {

void require_decodable(const RunData& data, bool begun, StopToken stop) {
  const auto* const pictures = dynamic_cast<const PictureSource*>(data.held_out.get());
  if (pictures == nullptr) return;
  const std::vector<std::string> problems =
      pictures->records().decoding_problems(pictures->crop(), stop);
  if (problems.empty()) return;
  constexpr std::size_t kShown = 10;
  const bool one = problems.size() == 1;
  std::string text = cat(pictures->source, ": ",
                         count_text(std::ssize(problems), "picture of the evaluation set",
                                    "pictures of the evaluation set"),
                         " cannot be decoded, and evaluation skips none:");
  for (std::size_t i = 0; i < std::min(problems.size(), kShown); ++i)
    text += cat("\n  ", problems[i]);
  if (problems.size() > kShown) text += cat("\n  and ", problems.size() - kShown, " more");
  throw UserError(
      cat(text, "\n",
          begun ? cat("Repair ", one ? "it" : "them", ", or put ",
                      one ? "another picture of its name in its" : "others of their names in their",
                      " place, and give the same command again: the run goes on and says so. "
                      "Without ",
                      one ? "it" : "them", " it is another run: --fresh or another --out")
                : cat("Repair or remove ", one ? "it" : "them", " and give the same command again"),
          "; `podium data verify` lists all such"),
      ExitCode::kData);
}

void require_outside(const std::filesystem::path& out, const Recipe& recipe,
                     const std::string& data_dir) {
  if (recipe.data != kFolderData) return;
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path root = fs::weakly_canonical(find_pictures(recipe.pictures.path, data_dir), error),
                 folder = fs::weakly_canonical(fs::absolute(out, error), error);
  const auto [end, unused] = std::ranges::mismatch(root, folder);
  PODIUM_REQUIRE(end != root.end(), ExitCode::kUsage, "--out ", out.string(),
                 " lies in the folder of the pictures, ", root.string(),
                 ", whose folders are classes; choose one outside of it");
}

void require_decoding_memory(const RunData& data, std::int64_t rest, std::int64_t threads,
                             std::int64_t limit) {
  std::int64_t bytes = 0;
  for (const Source* set : {data.train.get(), data.held_out.get()})
    if (const auto* const pictures = dynamic_cast<const PictureSource*>(set))
      bytes = std::max(bytes, pictures->records().decoding_bytes());
  PODIUM_REQUIRE(
      bytes == 0 || rest + threads * bytes <= limit, ExitCode::kMemory, "this run needs ",
      format_bytes(rest), " and, to decode its largest picture, ", format_bytes(bytes),
      " on each of ", count_text(threads, "thread"), ", together ",
      format_bytes(rest + threads * bytes), "; the limit is ", format_bytes(limit),
      "; raise the limit or make its largest pictures smaller",
      // One that trains and one that reads are the fewest.
      threads > 2 ? ", or use fewer cores: `--workers 1`, or `taskset -c 0 podium train`" : "");
}

}  // namespace podium
