// How near translations are to those of people: BLEU (Papineni et al., 2002), as sacrebleu computes
// it by default: of the whole set, in tokens of mteval-v13a, with case, up to four tokens in a row,
// and with a number of them that never occurs counted as a half, a quarter, ... ("exp").
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace podium {

// From 0 to 100; 0 of nothing. `references` has one for each of the `translations`.
double bleu(const std::vector<std::string>& translations,
            const std::vector<std::string>& references);

// The tokens that are counted: punctuation stands apart, but for points and commas in numbers.
std::vector<std::string> bleu_tokens(std::string_view text);

}  // namespace podium
