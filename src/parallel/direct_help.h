// What Open MPI has to say of a failure, printed by the process itself.
//
// Open MPI 4 sends what it has to say, of a peer whose connection broke, through the launcher, and
// waits for it; but that is busy ending the run. What Open MPI's lowest layer does until MPI_Init
// replaces it writes directly. To be made before MPI_Init; restore() follows it.
#pragma once

namespace podium {

class DirectHelp {
 public:
  DirectHelp();
  void restore() const {
    if (show_ != nullptr) *show_ = direct_;
  }

 private:
  void (**show_)() = nullptr;  // a pointer to a function, of whatever type
  void (*direct_)() = nullptr;
};

}  // namespace podium
