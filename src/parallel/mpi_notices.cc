#include "parallel/mpi_notices.h"

#include <cstddef>
#include <cstring>

namespace podium {

void Notice::say(const std::string& text) {
  std::strncpy(why.data(), text.c_str(), why.size() - 1);
}

void MpiNotices::begin(MPI_Comm comm, int tag, int rank, int ranks) {
  comm_ = comm, tag_ = tag, rank_ = rank, ranks_ = ranks;
  await();
}

void MpiNotices::end() {
  MPI_Cancel(&request_);
  MPI_Wait(&request_, MPI_STATUS_IGNORE);
}

std::vector<MPI_Request> MpiNotices::tell_all(const Notice& notice) const {
  std::vector<MPI_Request> requests(static_cast<std::size_t>(ranks_), MPI_REQUEST_NULL);
  for (int r = 0; r < ranks_; ++r) {
    if (r != rank_)
      MPI_Isend(&notice, sizeof notice, MPI_BYTE, r, tag_, comm_,
                &requests[static_cast<std::size_t>(r)]);
  }
  return requests;
}

bool MpiNotices::hear(Notice& notice) {
  int has_come = 0;
  MPI_Test(&request_, &has_come, MPI_STATUS_IGNORE);
  if (has_come == 0) return false;
  notice = coming_;
  await();
  return true;
}

void MpiNotices::await() {
  MPI_Irecv(&coming_, sizeof coming_, MPI_BYTE, MPI_ANY_SOURCE, tag_, comm_, &request_);
}

}  // namespace podium
