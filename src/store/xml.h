// The answers of S3 in XML (expat).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/object_store.h"

namespace podium {

// A page of a list of objects.
struct ObjectPage {
  std::vector<ObjectInfo> objects;
  std::string next;  // the token of the page that follows; empty: it is the last
};

// Of ListBucketResult, with keys that are percent-encoded where EncodingType says so. Throws
// UserError(kData), which begins with `what`, if it is none.
ObjectPage parse_object_page(std::string_view xml, const std::string& what);

// The text of the first element of this name, at any depth; empty: there is none, or no XML.
std::string element_in(std::string_view xml, std::string_view name);

// A text with &, < and > as XML writes them.
std::string xml_text(std::string_view text);

}  // namespace podium
