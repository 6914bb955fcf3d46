// Expected values are sacrebleu's (2.6.0).
#include "data/text/bleu.h"

#include <gtest/gtest.h>

namespace podium {
namespace {

using Words = std::vector<std::string>;

TEST(Bleu, tokens_are_those_of_mteval) {
  EXPECT_EQ(bleu_tokens("Hello, world! It's 3.5% of 1,000-2,000 (all)."),
            (Words{"Hello", ",", "world", "!", "It's", "3.5", "%", "of", "1,000", "-", "2,000", "(",
                   "all", ")", "."}));
  EXPECT_EQ(
      bleu_tokens("a... b,,c &quot;x&amp;y&quot; well-known\n"),
      (Words{"a", ".", ".", ".", "b", ",", ",", "c", "\"", "x", "&", "y", "\"", "well-known"}));
  EXPECT_EQ(bleu_tokens("  "), Words());
}

TEST(Bleu, is_that_of_sacrebleu) {
  const Words references = {"Ein Hund rennt durch den tiefen Schnee.",
                            "Zwei Männer, die 1,5 Meter groß sind, spielen Fußball im Park."};
  EXPECT_DOUBLE_EQ(bleu(references, references), 100);
  EXPECT_NEAR(
      bleu({"Ein Hund läuft durch den tiefen Schnee.", "Zwei Männer spielen Fußball im Park."},
           references),
      40.50387831476676, 1e-9);
  // No four in a row: they count as a half.
  EXPECT_NEAR(bleu({"Ein Hund rennt schnell durch den Schnee.", "Männer spielen im Park Fußball."},
                   references),
              12.522837575141846, 1e-9);
  EXPECT_EQ(bleu({"x", "y"}, references), 0);
  EXPECT_EQ(bleu({}, {}), 0);
}

}  // namespace
}  // namespace podium
