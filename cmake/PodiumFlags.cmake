# The flags of every target. Arithmetic is part of the contract: no contraction (fused multiply-add is written out),
# no fast-math. The baseline on x86-64 is AVX2 with FMA; kernels for wider vectors are chosen at run time.
add_library(podium_flags INTERFACE)
target_compile_options(podium_flags INTERFACE
  -Wall -Wextra -Wshadow -Wno-missing-field-initializers -Werror -ffp-contract=off -fno-math-errno)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(podium_flags INTERFACE -march=x86-64-v3)
endif()
find_package(Threads REQUIRED)
target_link_libraries(podium_flags INTERFACE Threads::Threads)

if(PODIUM_SANITIZE)
  target_compile_options(podium_flags INTERFACE -fsanitize=${PODIUM_SANITIZE} -fno-omit-frame-pointer -g1)
  target_link_options(podium_flags INTERFACE -fsanitize=${PODIUM_SANITIZE})
  if(PODIUM_SANITIZE MATCHES "undefined")
    target_compile_options(podium_flags INTERFACE -fno-sanitize-recover=undefined)
  endif()
endif()
if(PODIUM_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "PODIUM_FUZZ needs libFuzzer: configure with -DCMAKE_CXX_COMPILER=clang++")
  endif()
  # What a fuzzer calls must tell it which branches it took.
  target_compile_options(podium_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(podium_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
install(TARGETS podium_flags EXPORT PodiumTargets)
