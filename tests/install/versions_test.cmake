# Run by ctest with SOURCE and SCRATCH: what podium_check_version() of cmake/PodiumVersions.cmake says of a version that is
# too old, tried, newer than tried or unknown. The table is made up, so that a new row of the real one changes nothing here;
# of the real one, only the form is checked.
cmake_minimum_required(VERSION 3.22)
file(REMOVE_RECURSE ${SCRATCH})
file(WRITE ${SCRATCH}/check.cmake "cmake_minimum_required(VERSION 3.22)
include(${SOURCE}/cmake/PodiumVersions.cmake)
set(PODIUM_VERSIONS
  \"CMake | 3.22 | 4.4 | cmake\"
  \"GNU   | 12   | 16  | g++\"
  \"thing | 1.9  | 1.10 | libthing-dev\")
podium_check_version(\"\${NAME}\" \"\${FOUND}\")
message(STATUS \"went on\")
")

# check(NAME FOUND [more -D]): result, and output with each run of blanks and line ends as one blank.
function(check name found)
  execute_process(COMMAND ${CMAKE_COMMAND} -D "NAME=${name}" -D "FOUND=${found}" ${ARGN} -P ${SCRATCH}/check.cmake
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  string(REGEX REPLACE "[ \n]+" " " output "${output}${errors}")
  set(result ${result} PARENT_SCOPE)
  set(output "${output}" PARENT_SCOPE)
  set(checked "${name} ${found} ${ARGN}" PARENT_SCOPE)
endfunction()
# expect(ends|goes_on TEXTS...): how the check ended, and what it said.
function(expect how)
  set(good ON)
  if(how STREQUAL ends AND (result EQUAL 0 OR output MATCHES "went on"))
    set(good OFF)
  elseif(how STREQUAL goes_on AND (NOT result EQUAL 0 OR NOT output MATCHES "went on"))
    set(good OFF)
  endif()
  foreach(text ${ARGN})
    string(FIND "${output}" "${text}" place)
    if(place EQUAL -1)
      set(good OFF)
    endif()
  endforeach()
  if(NOT good)
    message(FATAL_ERROR "${checked}: expected that it ${how} and says \"${ARGN}\"; it ended with ${result} and said:\n${output}")
  endif()
endfunction()
function(expect_silence)
  if(NOT result EQUAL 0 OR NOT output STREQUAL "-- went on ")
    message(FATAL_ERROR "${checked}: expected no word; it ended with ${result} and said:\n${output}")
  endif()
endfunction()

# Too old: an error that names the remedy. 1.8 would be newer than 1.10 as text.
foreach(found 1.8 1.8.99 0.20)
  check(thing ${found})
  expect(ends "CMake Error" "thing ${found} is too old: Podium is known to work with 1.9 or newer."
    "the package libthing-dev, or build it from its source and name its prefix: -DCMAKE_PREFIX_PATH=DIR." -DPODIUM_ANY_VERSION=ON)
endforeach()
check(GNU 11.4.0)
expect(ends "-DCMAKE_CXX_COMPILER=g++-12, in a new build folder")
check(CMake 3.18.4)
expect(ends "it is the package cmake.")

# The same as a warning, where asked.
check(thing 1.8 -D PODIUM_ANY_VERSION=ON)
expect(goes_on "CMake Warning" "thing 1.8 is too old")

foreach(found 1.9 1.9.5 1.10 1.10.7)
  check(thing ${found})
  expect_silence()
endforeach()

# Newer than tried, and unknown: a line, no more.
foreach(found 1.11 1.11.0 2)
  check(thing ${found})
  expect(goes_on "-- thing ${found} is newer than 1.10, the newest that Podium was tried with -- went on")
endforeach()
check(thing "")
expect(goes_on "-- thing: its version is unknown; Podium is known to build with 1.9 to 1.10 -- went on")

check(other 1.0)
expect(ends "PODIUM_VERSIONS has no row other")

include(${SOURCE}/cmake/PodiumVersions.cmake)
foreach(row ${PODIUM_VERSIONS})
  if(NOT row MATCHES "^[A-Za-z0-9+-]+ *\\| [0-9.]+ *\\| [0-9.]+ *\\| [a-z0-9+-]+$")
    message(FATAL_ERROR "a row of PODIUM_VERSIONS is not: name | oldest | newest | package\n${row}")
  endif()
endforeach()
file(REMOVE_RECURSE ${SCRATCH})
