// What a rank tells all others beside the messages of the run. For the thread that calls MPI.
#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace podium {

struct Notice {
  enum class Kind : std::int32_t {
    kEnd,       // this rank ends the run
    kWouldEnd,  // why the run ended, if the launcher ends it now
    kBusy,      // whoever awaits this rank may wait on: its work goes on
  };
  std::int32_t rank = 0;
  Kind kind = Kind::kEnd;
  std::int32_t heard = 0;  // as of RankGuard::note
  std::array<char, 600> why = {};

  void say(const std::string& text);
};

// The notices on one tag of a communicator.
class MpiNotices {
 public:
  void begin(MPI_Comm comm, int tag, int rank, int ranks);
  void end();
  // Requests that nobody need wait for, since whoever is lost takes nothing. The notice must stay
  // as it is until they are complete, or for ever.
  std::vector<MPI_Request> tell_all(const Notice& notice) const;
  // Whether one has come, which `notice` then is.
  bool hear(Notice& notice);

 private:
  void await();

  MPI_Comm comm_ = MPI_COMM_NULL;
  int tag_ = 0, rank_ = 0, ranks_ = 0;
  MPI_Request request_ = MPI_REQUEST_NULL;
  Notice coming_;
};

}  // namespace podium
