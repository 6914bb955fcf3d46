# The flags of every target. Arithmetic is part of the contract: no contraction (fused multiply-add is written out),
# no fast-math. The baseline on x86-64 is AVX2 with FMA; kernels for wider vectors are chosen at run time.
add_library(podium_flags INTERFACE)
target_compile_options(podium_flags INTERFACE
  -Wall -Wextra -Wshadow -Wno-missing-field-initializers -ffp-contract=off -fno-math-errno)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # libstdc++ 12 itself uses what it deprecates, and clang 22 says so of whoever calls std::stable_sort.
  target_compile_options(podium_flags INTERFACE -Wno-deprecated-declarations)
endif()
# Our own checks set it. Another compiler may warn of what these do not, and its user must still get a build.
if(PODIUM_WERROR)
  target_compile_options(podium_flags INTERFACE -Werror)
endif()
if(PODIUM_UNITY)
  # What one file declares, the next one sees: a name without linkage may hide another one, and is no longer of "the main file".
  target_compile_options(podium_flags INTERFACE -Wno-shadow)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(podium_flags INTERFACE -Wno-subobject-linkage)
  endif()
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(podium_flags INTERFACE -march=x86-64-v3)
endif()
find_package(Threads REQUIRED)
target_link_libraries(podium_flags INTERFACE Threads::Threads)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # At -O1 gcc 12 sees overflows in the standard library that there are none of.
  set(PODIUM_O1_OPTIONS -Wno-stringop-overflow -Wno-array-bounds)
endif()

# For code that compiles for longer than it runs, most tests among it: a quarter less time to compile than at -O3, and
# under clang's sanitizers half of that at -O1 (at -O0 gcc 12 no longer sees which functions never return).
if(PODIUM_SANITIZE AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  set(PODIUM_COLD_OPTIONS -O0)
else()
  set(PODIUM_COLD_OPTIONS $<$<CONFIG:Release>:-O1> ${PODIUM_O1_OPTIONS})
endif()

# For code that is fast in a release, and whose own tests compute little: under AddressSanitizer, which runs those tests alone,
# half of the time to compile. ThreadSanitizer trains, too.
if(PODIUM_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  set(PODIUM_WARM_OPTIONS -O0)
endif()

# Kernels are fast in every build type: a debug build would make training wait for them. PODIUM_KERNEL_OPTIONS go to
# their sources, after all other options.
set(PODIUM_KERNEL_OPTIONS -O3)
if(PODIUM_SANITIZE)
  set(PODIUM_KERNEL_OPTIONS -O1)
  target_compile_options(podium_flags INTERFACE -fsanitize=${PODIUM_SANITIZE} -fno-omit-frame-pointer -g1)
  target_link_options(podium_flags INTERFACE -fsanitize=${PODIUM_SANITIZE})
  target_compile_options(podium_flags INTERFACE ${PODIUM_O1_OPTIONS})
  if(PODIUM_SANITIZE MATCHES "undefined")
    # Left out: what AddressSanitizer finds too, at several times the compile time. The kernels keep that one alone.
    target_compile_options(podium_flags INTERFACE
      -fno-sanitize-recover=undefined -fno-sanitize=null,pointer-overflow,object-size)
    list(APPEND PODIUM_KERNEL_OPTIONS -fno-sanitize=undefined)
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
