// Loads a trained network and asks it about images: no training program, no labels.
//
//   podium train glyphs epochs=1 --out runs/glyphs
//   predict runs/glyphs
#include <podium/podium.h>

#include <algorithm>
#include <cstdio>

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: predict RUN\n", stderr);
    return 2;
  }
  try {
    podium::Predictor predictor = podium::Predictor::load(argv[1]);
    // Any bytes [n, C, H, W]; here ten digits that the run never saw.
    const podium::ImageSet images = podium::part_of(
        podium::load_dataset("glyphs", podium::Split::kTest, {.test_examples = 10}), 0, 10);
    const podium::Tensor logits = predictor.logits(images);
    const auto classes = static_cast<std::size_t>(predictor.classes());
    int right = 0;
    for (std::size_t i = 0; i < 10; ++i) {
      const auto shares = podium::probabilities(logits.f32().subspan(i * classes, classes));
      const auto most = std::ranges::max_element(shares) - shares.begin();
      right += most == images.labels[i] ? 1 : 0;
      std::printf("%s %.1f%%\n", predictor.class_name(most).c_str(),
                  100 * shares[static_cast<std::size_t>(most)]);
    }
    std::printf("%d of 10 right\n", right);
    return 0;
  } catch (const podium::UserError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
