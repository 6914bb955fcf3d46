#include "data/table/table.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/scratch_test_util.h"

namespace podium {
namespace {

using Texts = std::vector<std::string>;

std::string table_error(const std::function<void()>& act) {
  try {
    act();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
    return error.what();
  }
  return "";
}
std::string table_error(const std::string& text, const TableOptions& options = {},
                        double held_out = 0.25) {
  return table_error(
      [&] { static_cast<void>(parts_of(parse_csv(text, "t.csv"), options, held_out)); });
}

struct Row {
  std::vector<float> features;
  std::int32_t target = 0;
};
std::vector<Row> rows_of(const RowSource& source) {
  std::vector<Row> rows(static_cast<std::size_t>(source.examples()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].features.resize(static_cast<std::size_t>(source.fields()[0].shape.elements()));
    source.read(static_cast<std::int64_t>(i), nullptr, {rows[i].features.data(), &rows[i].target});
  }
  return rows;
}

TEST(Csv, has_quotes_separators_line_ends_and_marks_of_all_kinds) {
  const Cells plain = parse_csv("a,b\n1, two words \n", "t");
  EXPECT_EQ(plain.names, (Texts{"a", "b"}));
  EXPECT_EQ(plain.cells, (Texts{"1", "two words"}));
  EXPECT_EQ(parse_csv("a;b;c,d\r\n1;2,5;x\r\n\r\n", "t").cells, (Texts{"1", "2,5", "x"}));
  EXPECT_EQ(parse_csv("a\tb\n1\t\n", "t").cells, (Texts{"1", ""}));
  EXPECT_EQ(parse_csv("\xEF\xBB\xBF"
                      "a\n7",
                      "t")
                .names,
            (Texts{"a"}));
  const Cells quoted = parse_csv("\"a,1\",b\n\"x \"\"y\"\"\nz\", \"w\" \n3,4\n", "t");
  EXPECT_EQ(quoted.names, (Texts{"a,1", "b"}));
  EXPECT_EQ(quoted.cells, (Texts{"x \"y\"\nz", "w", "3", "4"}));
  EXPECT_EQ(quoted.lines, (std::vector<std::int64_t>{2, 4}));
}

TEST(Csv, that_is_damaged_is_refused_with_its_line) {
  const auto error = [](const std::string& text) {
    return table_error([&] { static_cast<void>(parse_csv(text, "t.csv")); });
  };
  EXPECT_EQ(error(""), "t.csv is empty; its first line must have the names of the columns");
  EXPECT_NE(error("a,b\n1,2\n3\n").find("t.csv: line 3 has 1 cells, and the first line has 2"),
            std::string::npos);
  EXPECT_NE(error("a,b\n1,\"2\n").find("line 2: the quote that begins a cell is never closed"),
            std::string::npos);
  EXPECT_NE(error("a,b\n1,\"2\"3\n").find("line 2: a cell goes on after its closing quote"),
            std::string::npos);
  EXPECT_NE(error("a,a\n").find("two columns are called \"a\""), std::string::npos);
  EXPECT_NE(error("a,,c\n").find("column 2 has no name"), std::string::npos);
}

std::vector<std::uint8_t> npy(const std::string& type, const std::string& shape,
                              const std::vector<std::uint8_t>& numbers,
                              const std::string& order = "False") {
  std::string header =
      cat("{'descr': '", type, "', 'fortran_order': ", order, ", 'shape': ", shape, ", }\n");
  std::string text = "\x93NUMPY\x01";
  text += '\0';
  text += static_cast<char>(header.size() % 256);
  text += static_cast<char>(header.size() / 256);
  text += header;
  std::vector<std::uint8_t> bytes(text.begin(), text.end());
  bytes.insert(bytes.end(), numbers.begin(), numbers.end());
  return bytes;
}

TEST(Npy, gives_its_numbers_in_either_byte_order) {
  const Cells floats =
      parse_npy(npy("<f4", "(2, 1)", {0, 0, 0xC0, 0x3F, 0, 0, 0x80, 0xBF}), "t.npy");
  EXPECT_EQ(floats.names, Texts{"c0"});
  EXPECT_EQ(floats.cells, (Texts{"1.5", "-1"}));
  EXPECT_EQ(parse_npy(npy(">i2", "(1, 2)", {1, 2, 0xFF, 0xFF}), "t.npy").cells,
            (Texts{"258", "-1"}));
  EXPECT_EQ(parse_npy(npy("|u1", "(1, 2)", {7, 200}), "t.npy").cells, (Texts{"7", "200"}));
}

TEST(Npy, that_is_no_table_is_refused) {
  const auto error = [](const std::vector<std::uint8_t>& bytes) {
    return table_error([&] { static_cast<void>(parse_npy(bytes, "t.npy")); });
  };
  EXPECT_NE(error({1, 2, 3}).find("does not begin as an .npy"), std::string::npos);
  EXPECT_NE(error(npy("<f4", "(2, 2)", {0, 0, 0, 0}))
                .find("has 4 bytes of numbers, and its shape "
                      "needs 16"),
            std::string::npos);
  EXPECT_NE(error(npy("<f4", "(1, 1)", {0, 0, 0, 0}, "True")).find("Fortran order"),
            std::string::npos);
  EXPECT_NE(error(npy("<c8", "(1, 1)", {})).find("not of a type that is read"), std::string::npos);
  EXPECT_NE(error(npy("<f4", "(4,)", {})).find("two dimensions"), std::string::npos);
  EXPECT_NE(error(npy("<f4", "(1000000000, 1000)", {})).find("at most"), std::string::npos);
  std::vector<std::uint8_t> cut = npy("<f4", "(1, 1)", {0, 0, 0, 0});
  cut.resize(20);
  EXPECT_NE(error(cut).find("is longer than the file"), std::string::npos);
}

TEST(Table, has_numbers_normalised_by_the_training_rows_and_a_feature_for_each_word) {
  std::string text = "size,colour,price\n";
  for (int i = 0; i < 40; ++i) text += cat(i, i % 3 == 0 ? ",red," : ",blue,", 10 * i + 5, "\n");
  const TableParts parts = parts_of(parse_csv(text, "t"), {}, 0.25);
  EXPECT_EQ(parts.train->examples(), 30);
  EXPECT_EQ(parts.held_out->examples(), 10);
  const std::vector<Field> fields = parts.train->fields();
  EXPECT_EQ(fields[0].words, (Texts{"size", "colour=blue", "colour=red"}));
  EXPECT_EQ(fields[1].name, "price");
  EXPECT_EQ(fields[1].dtype, DType::kF32);
  double sum = 0, squares = 0;
  for (const Row& row : rows_of(*parts.train)) {
    sum += static_cast<double>(row.features[0]);
    squares += static_cast<double>(row.features[0]) * static_cast<double>(row.features[0]);
    EXPECT_EQ(row.features[1] + row.features[2], 1);
    // The target is 10 size + 5, so both have the same normalised value.
    EXPECT_NEAR(std::bit_cast<float>(row.target), row.features[0], 1e-6);
    const double size = fields[0].mean[0] + fields[0].deviation[0] * row.features[0];
    EXPECT_EQ(std::lround(size) % 3 == 0, row.features[2] == 1);
  }
  EXPECT_NEAR(sum, 0, 1e-5);
  EXPECT_NEAR(squares, 30, 1e-4);
  // Held-out rows play no part in it.
  for (const Row& row : rows_of(*parts.held_out))
    EXPECT_NEAR(std::bit_cast<float>(row.target), row.features[0], 1e-6);
  // The same rows for any seed of a run, others for another split.
  EXPECT_EQ(parts_of(parse_csv(text, "t"), {}, 0.25).train->identity({}),
            parts.train->identity({}));
  EXPECT_NE(parts_of(parse_csv(text, "t"), {.split_seed = 1}, 0.25).train->identity({}),
            parts.train->identity({}));
}

TEST(Table, predicts_classes_where_the_target_has_words_or_the_recipe_says_so) {
  std::string text = "kind,code,x\n";
  for (int i = 0; i < 40; ++i) text += cat(i % 2 ? "a" : "b", ",", 2 + i % 3 * 4, ",", i, "\n");
  const Field words = parts_of(parse_csv(text, "t"), {.target = "kind"}, 0.25).train->fields()[1];
  EXPECT_EQ(words.words, (Texts{"a", "b"}));
  EXPECT_EQ(words.below, 2);
  const TableOptions codes{.target = "code", .task = kClassification, .ignore = {"x"}};
  const std::vector<Field> fields = parts_of(parse_csv(text, "t"), codes, 0.25).train->fields();
  EXPECT_EQ(fields[1].words, (Texts{"2", "6", "10"}));  // by value
  EXPECT_EQ(fields[0].words, (Texts{"kind=a", "kind=b"}));
  const TableOptions columns{.target = "kind", .class_columns = {"code"}};
  EXPECT_EQ(parts_of(parse_csv(text, "t"), columns, 0.25).train->fields()[0].words,
            (Texts{"code=2", "code=6", "code=10", "x"}));
}

TEST(Table, a_cell_or_column_that_does_not_fit_is_named_with_its_place) {
  const std::string good = "x,y\n1,2\n2,3\n3,4\n4,7\n";
  EXPECT_EQ(table_error(good), "");
  const auto expect = [](const std::string& error, const std::string& part) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  expect(table_error(good + "five,6\n"),
         "t.csv: line 6, column \"x\": \"five\" is no number, and the column has numbers");
  expect(table_error(good + ",6\n"), "t.csv: line 6, column \"x\": the value is missing (\"\")");
  expect(table_error(good + "NA,6\n"), "the value is missing (\"NA\")");
  expect(table_error(good + "1e999,6\n"), "line 6, column \"x\"");
  expect(table_error(good + "inf,6\n"), "\"inf\" is not a finite number");
  expect(table_error(good, {.target = "z"}),
         "`data.target` names the column \"z\", which it has not");
  expect(table_error(good, {.ignore = {"w"}}), "`data.ignore` names the column \"w\"");
  expect(table_error(good, {.ignore = {"x"}}), "has no column beside the target");
  expect(table_error(good, {.target = "y", .ignore = {"y"}}), "is one of `data.ignore`");
  expect(table_error("x,y\n1,5\n2,5\n3,5\n"), "the target \"y\" is \"5\" in every row");
  expect(table_error("x,y\n1,a\n2,a\n3,a\n"), "the target \"y\" is \"a\" in every row");
  expect(table_error("x,y\n1,2\n"), "has 1 row; at least one to train on");
  expect(table_error("x,y\n1,a\n2,b\n", {.task = kRegression}), "predicts one");
  expect(table_error(good, {}, 0.999999), "");
  expect(table_error("x,y\n1,a\n2,b\n"), "are held out, so that the network would never see one");
}

TEST(Table, rows_to_predict_have_the_features_of_the_training) {
  std::string text = "size,colour,price\n";
  for (int i = 0; i < 40; ++i) text += cat(i, i % 3 == 0 ? ",red," : ",blue,", 10 * i + 5, "\n");
  const Cells cells = parse_csv(text, "t");
  const TableParts parts = parts_of(cells, {}, 0.25);
  const std::vector<Field> fields = parts.train->fields();
  std::map<float, Row> known;
  for (const RowSource* part : {parts.train.get(), parts.held_out.get()})
    for (const Row& row : rows_of(*part)) known[row.features[0]] = row;
  for (const Row& row : rows_of(rows_to_predict(cells, fields)))
    EXPECT_EQ(row.features, known.at(row.features[0]).features);
  // In another order, and without the target.
  const RowSource other = rows_to_predict(parse_csv("extra,colour,size\n?,red,3\n", "u"), fields);
  EXPECT_EQ(rows_of(other)[0].features[2], 1);
  const auto error = [&](const std::string& rows) {
    return table_error([&] { static_cast<void>(rows_to_predict(parse_csv(rows, "u"), fields)); });
  };
  EXPECT_NE(error("size\n1\n").find("u: has no column for \"colour=blue\""), std::string::npos);
  EXPECT_NE(error("size,colour\n1,green\n")
                .find("u: line 2, column \"colour\": \"green\" is a word "
                      "that the training did not have"),
            std::string::npos);
}

TEST(Table, file_is_looked_up_and_read) {
  const TestFolder folder;
  put_text(folder / "t.csv", "x,y\n1,2\n2,3\n3,4\n");
  EXPECT_EQ(open_table("t.csv", {}, 0.3, folder.path().string()).train->examples(), 2);
  EXPECT_NE(table_error([&] {
              static_cast<void>(open_table("nowhere.csv", {}, 0.3, folder.path().string()));
            }).find("the table nowhere.csv was not found"),
            std::string::npos);
}

}  // namespace
}  // namespace podium
