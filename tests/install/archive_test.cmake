# Run by ctest with SOURCE and SCRATCH: the version header of a tree that `git archive` made.
cmake_minimum_required(VERSION 3.22)
file(REMOVE_RECURSE ${SCRATCH})
file(MAKE_DIRECTORY ${SCRATCH}/tree)
execute_process(COMMAND git -C ${SOURCE} archive -o ${SCRATCH}/tree.tar HEAD cmake COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} -E tar xf ${SCRATCH}/tree.tar WORKING_DIRECTORY ${SCRATCH}/tree
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} -D SOURCE=${SCRATCH}/tree -D VERSION=1.2.3 -D OUTPUT=${SCRATCH}/podium_version.h
  -P ${SOURCE}/cmake/write_version.cmake COMMAND_ERROR_IS_FATAL ANY)
file(READ ${SCRATCH}/podium_version.h header)
execute_process(COMMAND git -C ${SOURCE} rev-parse HEAD OUTPUT_VARIABLE commit)
string(SUBSTRING "${commit}" 0 12 commit)
if(NOT header MATCHES "PODIUM_COMMIT \"${commit}\"" OR NOT header MATCHES "PODIUM_DATE \"20[-0-9]+\"")
  message(FATAL_ERROR "${commit} is not in\n${header}")
endif()
file(REMOVE_RECURSE ${SCRATCH})
