#include "store/xml.h"

#include <expat.h>

#include <charconv>
#include <functional>
#include <memory>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace podium {
namespace {

// Calls a function for the end of each element, with its own text.
class Reader {
 public:
  using Ended = std::function<void(const std::string& name, const std::string& text)>;
  explicit Reader(Ended ended) : ended_(std::move(ended)) {}

  // Whether it was XML.
  bool read(std::string_view xml) {
    const std::unique_ptr<XML_ParserStruct, decltype(&XML_ParserFree)> parser(
        XML_ParserCreate(nullptr), &XML_ParserFree);
    PODIUM_CHECK(parser != nullptr);
    XML_SetUserData(parser.get(), this);
    XML_SetElementHandler(parser.get(), &Reader::begin, &Reader::end);
    XML_SetCharacterDataHandler(parser.get(), &Reader::add);
    return XML_Parse(parser.get(), xml.data(), static_cast<int>(xml.size()), 1) == XML_STATUS_OK;
  }

 private:
  static void begin(void* self, const XML_Char*, const XML_Char**) {
    static_cast<Reader*>(self)->text_.clear();
  }
  static void add(void* self, const XML_Char* text, int size) {
    static_cast<Reader*>(self)->text_.append(text, static_cast<std::size_t>(size));
  }
  static void end(void* self, const XML_Char* name) {
    auto* const reader = static_cast<Reader*>(self);
    reader->ended_(name, reader->text_);
    reader->text_.clear();
  }

  Ended ended_;
  std::string text_;
};

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

std::string percent_decoded(const std::string& text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool two = text[i] == '%' && i + 2 < text.size() && digit_of(text[i + 1]) >= 0 &&
                     digit_of(text[i + 2]) >= 0;
    if (two) {
      decoded += static_cast<char>(16 * digit_of(text[i + 1]) + digit_of(text[i + 2]));
      i += 2;
    } else {
      decoded += text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

}  // namespace

ObjectPage parse_object_page(std::string_view xml, const std::string& what) {
  ObjectPage page;
  ObjectInfo object;
  bool sized = true, list = false, encoded = false, more = false;
  Reader reader([&](const std::string& name, const std::string& text) {
    if (name == "Key") object.key = text;
    if (name == "ETag") object.tag = text;
    if (name == "EncodingType") encoded = text == "url";
    if (name == "IsTruncated") more = text == "true";
    if (name == "NextContinuationToken") page.next = text;
    if (name == "ListBucketResult") list = true;
    if (name == "Size") {
      const auto read = std::from_chars(text.data(), text.data() + text.size(), object.size);
      sized = sized && read.ec == std::errc() && read.ptr == text.data() + text.size() &&
              object.size >= 0;
    }
    if (name == "Contents") page.objects.push_back(std::exchange(object, {}));
  });
  PODIUM_REQUIRE(reader.read(xml) && list && sized && (page.next.empty() != more), ExitCode::kData,
                 what, ": the answer is no list of objects; is this address a store of S3's kind?");
  if (encoded)
    for (ObjectInfo& one : page.objects) one.key = percent_decoded(one.key);
  return page;
}

std::string element_in(std::string_view xml, std::string_view name) {
  std::string found;
  bool known = false;
  Reader reader([&](const std::string& ended, const std::string& text) {
    if (ended == name && !known) found = text, known = true;
  });
  return reader.read(xml) ? found : "";
}

std::string xml_text(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else
      escaped += c;
  }
  return escaped;
}

}  // namespace podium
