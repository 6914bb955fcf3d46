// How long it takes to list the objects of a store.
//   list_bench s3://BUCKET/PREFIX
// scripts/bench-list.sh runs it beside a server that has a million objects.
#include <chrono>
#include <cstdio>

#include "store/object_store.h"

int main(int argc, char** argv) {
  using namespace podium;
  if (argc != 2) {
    std::fprintf(stderr, "usage: list_bench s3://BUCKET/PREFIX\n");
    return 2;
  }
  const ObjectAddress address = parse_address(argv[1]);
  const auto store = open_store(address, {});
  const auto start = std::chrono::steady_clock::now();
  const auto objects = store->list(address.key);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%zu objects in %.1f s\n", objects.size(), seconds);
}
