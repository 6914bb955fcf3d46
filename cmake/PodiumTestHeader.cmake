# Most tests compile for longer than they run, so they are optimised little: a quarter less time than at -O3, and under
# sanitizers half of that at -O1. Those that compute are built at -O1 there, without this header, whose level is another.
if(PODIUM_SANITIZE)
  set(PODIUM_TEST_OPTIONS -O0)
else()
  set(PODIUM_TEST_OPTIONS $<$<CONFIG:Release>:-O1> ${PODIUM_O1_OPTIONS})
endif()

# The header that every test includes, compiled once. Its owner is a program, since it must be compiled as one.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/test_header.cc CONTENT "int main() {}\n")
add_executable(podium_test_header ${PROJECT_BINARY_DIR}/generated/test_header.cc)
target_link_libraries(podium_test_header PRIVATE podium_flags GTest::gtest)
target_precompile_headers(podium_test_header PRIVATE <gtest/gtest.h>)
target_compile_options(podium_test_header PRIVATE ${PODIUM_TEST_OPTIONS})
