// What a request does to an object: for people, and as stores call the permission that it takes.
#pragma once

namespace podium {

struct Purpose {
  const char *action, *s3_permission, *google_permission;
};
inline constexpr Purpose kList{"list", "s3:ListBucket", "storage.objects.list"},
    kRead{"read", "s3:GetObject", "storage.objects.get"},
    kWrite{"write", "s3:PutObject", "storage.objects.create"},
    kRemove{"delete", "s3:DeleteObject", "storage.objects.delete"};

}  // namespace podium
