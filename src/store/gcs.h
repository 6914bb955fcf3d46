// Google Cloud Storage, by its JSON interface.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "store/object_store.h"

namespace podium {

// Who asks, by an access token that is fetched when it is needed and renewed before it ends:
// that of the service account or user whose JSON file GOOGLE_APPLICATION_CREDENTIALS names, or
// `gcloud auth application-default login` has left; else that of the machine, from its metadata
// service (GCE_METADATA_HOST), unless NO_GCE_CHECK is "true". Thread-safe.
class GoogleAccount {
 public:
  // Throws UserError(kUsage), which names the file, if it is named and is no such file.
  GoogleAccount();

  // Empty: there is none, as for public buckets. Throws UserError(kData) if the account is refused.
  std::string token();
  void forget_token();      // the store does not accept it any more
  std::string who() const;  // for people
  std::string searched() const { return searched_; }

 private:
  std::string fetch();

  std::string file_, email_, key_, token_uri_;          // of a service account
  std::string client_, client_secret_, refresh_token_;  // of a user
  std::string machine_;                                 // metadata service
  std::string searched_;
  std::mutex mutex_;
  std::string token_;
  Clock::time_point ends_{};
};

// At STORAGE_EMULATOR_HOST, if that is set, without an account.
std::unique_ptr<ObjectStore> open_gcs(const ObjectAddress& address, const HttpPatience& patience,
                                      StopToken stop);

}  // namespace podium
