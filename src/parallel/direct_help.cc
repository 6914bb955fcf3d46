#include "parallel/direct_help.h"

#include <dlfcn.h>

#include "parallel/mpi_transport.h"

namespace podium {

DirectHelp::DirectHelp() {
  if (mpi_library_version().starts_with("Open MPI v4."))
    show_ = static_cast<void (**)()>(dlsym(RTLD_DEFAULT, "opal_show_help"));
  if (show_ != nullptr) direct_ = *show_;
}

}  // namespace podium
