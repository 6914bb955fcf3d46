// The keys of a recipe that say what becomes of images: [data], [normalise], [augment].
#include "data/pairs/pair_options.h"
#include "data/pictures/image_source.h"
#include "data/pictures/picture_options.h"
#include "data/sounds/sound_options.h"
#include "data/table/table_options.h"
#include "data/text/text_options.h"
#include "train/recipe/recipe_key_lists.h"

namespace podium {

// Of pictures in files.
std::vector<RecipeKey> data_keys() {
  std::vector<RecipeKey> keys = {
      {.table = "data",
       .name = "path",
       .field = PODIUM_RECIPE_FIELD(pictures.path),
       .fits = {kFolderData, kTarData, kTfrecordData, kTextData, kTableData, kSentenceData,
                kPairData, kSoundData},
       .decides_result = false,
       .meaning = "`folder`: folder that contains one folder of JPEG or PNG pictures per class, or "
                  "the folders `train` and `val` (or `valid`, `validation`, `test`) with such "
                  "folders in them. `tar`, `tfrecord`: a shard, a folder of shards, or a pattern "
                  "with `*`, `?`, `[abc]`, `{000..146}`; the words `train` and `val` in the names "
                  "of shards divide them. A relative path is looked up in `--data-dir`, in the "
                  "current folder, then in the other folders of datasets. `text`, `table`, "
                  "`sentences`, `pairs`: the file. `sounds`: the folder or archive"},
      {.table = "data",
       .name = "size",
       .field = PODIUM_RECIPE_FIELD(pictures.size),
       .range = between(1, 4096),
       .unit = "pixels",
       .meaning = "height and width of an example"},
      {.table = "data",
       .name = "resize",
       .field = PODIUM_RECIPE_FIELD(pictures.resize),
       .range = between(0, 8192),
       .unit = "pixels",
       .meaning = "in evaluation, and in training without `augment.crop`, the shorter side of a "
                  "picture is resized to this length, and `size` x `size` pixels are cut from the "
                  "centre; 0: size * 8 / 7, which is 256 for 224"},
      {.table = "data",
       .name = "held_out",
       .field = PODIUM_RECIPE_FIELD(pictures.held_out),
       .range = {.least = 0, .most = 1, .least_open = true, .most_open = true},
       .fits = {kFolderData, kTarData, kTfrecordData, kTextData, kTableData, kSentenceData,
                kPairData, kSoundData},
       .unit = "of a class",
       .meaning = "if there are no parts `train` and `val`: the share of each class, chosen by "
                  "names, that is evaluated instead of trained on. `text`: the share at the end "
                  "of the file. `table`, `sentences`, `pairs`, `sounds`: the share of the rows, "
                  "drawn by `split_seed`"},
      {.table = "data",
       .name = "on_error",
       .field = PODIUM_RECIPE_FIELD(pictures.on_error),
       .choices = {"stop", "skip"},
       .meaning = "what happens in training if a picture cannot be decoded. `stop`: the run ends. "
                  "`skip`: the next picture takes its place, with its own label"},
      {.table = "data",
       .name = "skip_limit",
       .field = PODIUM_RECIPE_FIELD(pictures.skip_limit),
       .range = between(0, 1e9),
       .unit = "pictures",
       .meaning = "with `skip`, the largest number of different pictures that may be replaced; one "
                  "more ends the run"},
      {.table = "data",
       .name = "label_base",
       .field = PODIUM_RECIPE_FIELD(pictures.label_base),
       .range = between(0, kMostClasses - 1),
       .fits = {kTarData, kTfrecordData},
       .meaning = "label of the first class in the shards: 1 if they count from 1, as ImageNet's "
                  "TFRecords do"},
      {.table = "data",
       .name = "classes",
       .field = PODIUM_RECIPE_FIELD(pictures.classes),
       .range = between(0, kMostClasses),
       .meaning = "number of classes. If stated, a run fails if a folder has another number, or if "
                  "a label in shards is beyond; 0: as many as there are"},
      {.table = "data",
       .name = "tokenizer",
       .field = PODIUM_RECIPE_FIELD(text.tokenizer),
       .fits = {kTextData, kSentenceData, kPairData},
       .meaning =
           "what a token is. `bytes`: a byte, of any file. `chars`: a character of the file, "
           "which must be UTF-8; the vocabulary is all that it has. `words`: what blanks separate; "
           "of sentences, one that those to train on have not is `<unk>`. "
           "Or the path of a tokenizer: a `tokenizer.json`, a folder with GPT-2's "
           "`encoder.json` and `vocab.bpe`, or a `.model` of SentencePiece"},
      {.table = "data",
       .name = "vocabulary",
       .field = PODIUM_RECIPE_FIELD(text.vocabulary),
       .range = between(0, 1 << 22),
       .fits = {kTextData, kSentenceData, kPairData},
       .unit = "tokens",
       .meaning = "number of tokens of the network, if it is more than the tokenizer has, or if no "
                  "tokenizer is known; 0: as many as the tokenizer has"},
      {.table = "data",
       .name = "context",
       .field = PODIUM_RECIPE_FIELD(text.context),
       .range = between(1, 1 << 20),
       .fits = {kTextData, kSentenceData, kPairData, kSoundData},
       .unit = "tokens, frames",
       .meaning = "length of an example: a window of the text. In training, the windows of an "
                  "epoch follow each other from a place in the first that is drawn anew, "
                  "unless `order` is `streams`. `sentences`, `pairs`, `sounds`: the most that one "
                  "may have; a "
                  "shorter one ends in separators or line ends, or in silence"},
      {.table = "data",
       .name = "too_long",
       .field = PODIUM_RECIPE_FIELD(text.too_long),
       .choices = {kStopIfTooLong, kCutIfTooLong},
       .fits = {kSentenceData, kPairData, kSoundData},
       .meaning =
           "what happens to sentences, pairs and sounds that are longer than `context`. `stop`: "
           "the run ends before its first step. `cut`: their ends are left out"},
      {.table = "data",
       .name = "buckets",
       .field = PODIUM_RECIPE_FIELD(pairs.buckets),
       .range = between(2, 1 << 20),
       .fits = {kPairData},
       .unit = "tokens",
       .meaning = "lengths below `context`, ascending. In training the examples of a batch are "
                  "filled up to the least of these, or to `context`, that holds them all: a batch "
                  "has examples of one such length alone, so little is computed that does not "
                  "count. Evaluation fills up to `context`"},
      {.table = "data",
       .name = "order",
       .field = PODIUM_RECIPE_FIELD(text.order),
       .choices = {kShuffledWindows, kStreamedWindows},
       .fits = {kTextData},
       .meaning = "in which order training visits the windows. `shuffled`: another one in every "
                  "epoch. `streams`: the text is cut into as many parts as a batch has examples, "
                  "and each example goes on in its part where it ended in the step before, as an "
                  "lstm needs it; windows then begin at the same places in every epoch"},
      {.table = "data",
       .name = "held_out_path",
       .field = PODIUM_RECIPE_FIELD(text.held_out_path),
       .fits = {kTextData, kSentenceData, kPairData, kSoundData},
       .decides_result = false,
       .fallback = "the share `held_out`",
       .meaning = "another file or folder that is evaluated, instead of a share of `path`; looked "
                  "up as that"},
      {.table = "data",
       .name = "held_out_files",
       .field = PODIUM_RECIPE_FIELD(sounds.held_out_files),
       .fits = {kSoundData},
       .fallback = "the share `held_out`",
       .meaning = "the files that are evaluated, by a pattern with `*`, `?` and `[abc]` of their "
                  "names in the folder or archive, as in `*_[0-4].wav` or `*/george/*`"},
      {.table = "data",
       .name = "rate",
       .field = PODIUM_RECIPE_FIELD(sounds.mel.rate),
       .range = between(1000, 192000),
       .fits = {kSoundData},
       .unit = "Hz",
       .meaning = "samples a second; recordings that have another number are resampled"},
      {.table = "data",
       .name = "mels",
       .field = PODIUM_RECIPE_FIELD(sounds.mel.mels),
       .range = between(1, 512),
       .fits = {kSoundData},
       .unit = "bands",
       .meaning = "bands of frequencies in which the loudness of each frame is measured, evenly "
                  "spaced by pitch (mel)"},
      {.table = "data",
       .name = "target_path",
       .field = PODIUM_RECIPE_FIELD(pairs.target_path),
       .fits = {kPairData},
       .decides_result = false,
       .fallback = "`path` is a table with both",
       .meaning = "the file with the translations of the sentences in `path`, line by line; looked "
                  "up as that"},
      {.table = "data",
       .name = "held_out_target_path",
       .field = PODIUM_RECIPE_FIELD(pairs.held_out_target_path),
       .fits = {kPairData},
       .decides_result = false,
       .fallback = "`held_out_path` is a table with both",
       .meaning = "likewise of the sentences in `held_out_path`"},
      {.table = "data",
       .name = "text_column",
       .field = PODIUM_RECIPE_FIELD(text.text_column),
       .fits = {kSentenceData, kPairData},
       .meaning = "name of the column that has the sentences; of pairs, those that are read"},
      {.table = "data",
       .name = "target",
       .field = PODIUM_RECIPE_FIELD(table.target),
       .fits = {kTableData, kSentenceData, kPairData},
       .fallback = "the last column",
       .meaning = "name of the column that is predicted; of pairs, that of the translations"},
      {.table = "data",
       .name = "task",
       .field = PODIUM_RECIPE_FIELD(table.task),
       .choices = {kAutoTask, kRegression, kClassification},
       .fits = {kTableData},
       .meaning = "what is predicted: a number, or a class. `auto`: a class if the first row's "
                  "target is no number or its column is one of `class_columns`"},
      {.table = "data",
       .name = "ignore",
       .field = PODIUM_RECIPE_FIELD(table.ignore),
       .fits = {kTableData},
       .meaning = "columns that are not read"},
      {.table = "data",
       .name = "class_columns",
       .field = PODIUM_RECIPE_FIELD(table.class_columns),
       .fits = {kTableData},
       .meaning = "columns whose numbers are names of classes. A column whose first row is no "
                  "number has classes, too"},
      {.table = "data",
       .name = "split_seed",
       .field = PODIUM_RECIPE_FIELD(table.split_seed),
       .fits = {kTableData, kSentenceData, kPairData, kSoundData},
       .meaning = "draws the rows that are held out; apart from `seed`, so that runs with other "
                  "seeds are evaluated on the same rows"},
  };
  for (RecipeKey& key : keys)
    if (key.fits.empty()) key.fits = {kFolderData, kTarData, kTfrecordData};
  return keys;
}

std::vector<RecipeKey> normalise_keys() {
  const std::vector<std::string> per_channel = {"per-channel"};
  return {
      {.table = "normalise",
       .name = "name",
       .field = PODIUM_RECIPE_FIELD(normalise.name),
       .choices = {"none", "per-channel", "per-image"},
       .meaning = "input of the network. `none`: pixel / 255. `per-channel`: (pixel / 255 - mean) "
                  "/ deviation, before augmentation, so that pixels that augmentation sets to 0 "
                  "have the mean value. `per-image`: after augmentation, (value - mean) / "
                  "deviation with the image's own mean and deviation; the divisor is at least 1 / "
                  "sqrt(values)"},
      {.table = "normalise",
       .name = "mean",
       .field = PODIUM_RECIPE_FIELD(normalise.mean),
       .range = between(0, 1),
       .fits = per_channel,
       .unit = "pixel / 255",
       .meaning = "one number per channel"},
      {.table = "normalise",
       .name = "deviation",
       .field = PODIUM_RECIPE_FIELD(normalise.deviation),
       .range = {.least = 0, .most = 1, .least_open = true},
       .fits = per_channel,
       .unit = "pixel / 255",
       .meaning = "one number per channel"},
  };
}

std::vector<RecipeKey> augment_keys() {
  return {
      {.table = "augment",
       .name = "shift",
       .field = PODIUM_RECIPE_FIELD(augment.shift),
       .range = between(0, 4096),
       .unit = "pixels",
       .meaning = "whole pixels down and right, each drawn from -shift to shift. With `padding`, "
                  "this is a random crop of the padded image"},
      {.table = "augment",
       .name = "padding",
       .field = PODIUM_RECIPE_FIELD(augment.padding),
       .choices = {"zero", "reflect"},
       .meaning = "what fills the pixels that a shift uncovers. `zero`: zeros. `reflect`: the "
                  "image, mirrored at the centres of its edge pixels; not allowed with a key "
                  "below that warps the image"},
      {.table = "augment",
       .name = "rotate_degrees",
       .field = PODIUM_RECIPE_FIELD(augment.rotate_degrees),
       .range = between(0, 180),
       .unit = "degrees",
       .meaning = "largest rotation about the centre, in either direction"},
      {.table = "augment",
       .name = "scale",
       .field = PODIUM_RECIPE_FIELD(augment.scale),
       .range = between(0, 0.9),
       .unit = "relative",
       .meaning = "largest change in size: 0.1 draws a factor from 0.9 to 1.1"},
      {.table = "augment",
       .name = "shear",
       .field = PODIUM_RECIPE_FIELD(augment.shear),
       .range = between(0, 2),
       .unit = "pixels per pixel",
       .meaning = "largest shear: shift to the right per pixel down, in either direction"},
      {.table = "augment",
       .name = "elastic",
       .field = PODIUM_RECIPE_FIELD(augment.elastic),
       .range = between(0, 4096),
       .unit = "pixels",
       .meaning = "elastic distortion: how far the points of a coarse lattice move, with a smooth "
                  "spline between them"},
      {.table = "augment",
       .name = "elastic_cell",
       .field = PODIUM_RECIPE_FIELD(augment.elastic_cell),
       .range = between(1, 4096),
       .unit = "pixels",
       .meaning = "distance between the lattice points"},
      {.table = "augment",
       .name = "cutout",
       .field = PODIUM_RECIPE_FIELD(augment.cutout),
       .range = between(0, 4096),
       .unit = "pixels",
       .meaning = "side length of a square, anywhere in the image, that is set to 0"},
      {.table = "augment",
       .name = "flip",
       .field = PODIUM_RECIPE_FIELD(augment.flip),
       .choices = {"none", "random", "alternating"},
       .meaning = "horizontal mirroring, before all other augmentation. `random`: half of the "
                  "images, chosen anew in each epoch. `alternating`: half of the images in the "
                  "first epoch; after that, each image is flipped relative to the previous epoch"},
      {.table = "augment",
       .name = "brightness",
       .field = PODIUM_RECIPE_FIELD(augment.brightness),
       .range = between(0, 1),
       .unit = "relative",
       .meaning = "colour jitter, before normalisation: 0.4 draws a factor of 0.6 to 1.4"},
      {.table = "augment",
       .name = "contrast",
       .field = PODIUM_RECIPE_FIELD(augment.contrast),
       .range = between(0, 1),
       .unit = "relative",
       .meaning = "the same, for the distance to the image's mean luminance"},
      {.table = "augment",
       .name = "saturation",
       .field = PODIUM_RECIPE_FIELD(augment.saturation),
       .range = between(0, 1),
       .unit = "relative",
       .meaning = "the same, for the distance to the pixel's luminance"},
      {.table = "augment",
       .name = "hue",
       .field = PODIUM_RECIPE_FIELD(augment.hue),
       .range = between(0, 0.5),
       .unit = "of the circle",
       .meaning = "largest rotation of the colour circle, in either direction"},
      {.table = "augment",
       .name = "crop",
       .field = PODIUM_RECIPE_FIELD(augment.crop),
       .choices = {"none", "random-resized"},
       .meaning =
           "for pictures in files. `random-resized`: a random part of the picture, drawn by area "
           "and aspect ratio, resized to `data.size`. `none`: the centre crop, as in evaluation"},
      {.table = "augment",
       .name = "crop_area",
       .field = PODIUM_RECIPE_FIELD(augment.crop_area),
       .range = {.least = 0, .most = 1, .least_open = true},
       .unit = "of the picture",
       .meaning = "smallest and largest area of a random-resized crop"},
      {.table = "augment",
       .name = "crop_ratio",
       .field = PODIUM_RECIPE_FIELD(augment.crop_ratio),
       .range = {.least = 0, .most = 100, .least_open = true},
       .unit = "width / height",
       .meaning = "smallest and largest aspect ratio of a random-resized crop"},
  };
}

}  // namespace podium
