# The header that every test includes, compiled once, for tests of PODIUM_COLD_OPTIONS. Its owner is a program, since it must be compiled as one.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/test_header.cc CONTENT "int main() {}\n")
add_executable(podium_test_header ${PROJECT_BINARY_DIR}/generated/test_header.cc)
target_link_libraries(podium_test_header PRIVATE podium_flags GTest::gtest)
target_precompile_headers(podium_test_header PRIVATE <gtest/gtest.h>)
target_compile_options(podium_test_header PRIVATE ${PODIUM_COLD_OPTIONS})
