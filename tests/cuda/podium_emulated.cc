// podium with the backend cuda-emulated, for tests and for scripts/check-gpu.sh without a GPU.
//   PODIUM_CUDA_FAIL_FROM=N    the emulated GPU fails in the Nth call of CUDA and all that follow
//   PODIUM_CUDA_FAIL_GPU=N     of several GPUs, this one alone does
//   PODIUM_CUDA_MEMORY=BYTES   the memory that it has
//   PODIUM_CUDA_DEVICES=N      how many there are
//   PODIUM_NCCL_FAIL_FROM=N    the imitation of NCCL fails in the Nth call that may, and after it
#include <cstdlib>
#include <string>

#include "backend/cuda/emulated/emulated.h"
#include "cli/command_line.h"

int main(int argc, char** argv) {
  podium::register_cuda_emulated_backend();
  if (const char* const call = std::getenv("PODIUM_CUDA_FAIL_FROM"))
    podium::fail_cuda_from(std::stoll(call), std::getenv("PODIUM_CUDA_FAIL_GPU") == nullptr
                                                 ? -1
                                                 : std::stoi(std::getenv("PODIUM_CUDA_FAIL_GPU")));
  if (const char* const bytes = std::getenv("PODIUM_CUDA_MEMORY"))
    podium::set_cuda_memory(std::stoll(bytes));
  if (const char* const count = std::getenv("PODIUM_CUDA_DEVICES"))
    podium::set_cuda_devices(std::stoi(count));
  if (const char* const call = std::getenv("PODIUM_NCCL_FAIL_FROM"))
    podium::fail_nccl_from(std::stoll(call));
  return podium::run_command_line(argc, argv);
}
