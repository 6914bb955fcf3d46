# Run by ctest with BUILD, SOURCE, SCRATCH, GENERATOR, CXX, FLAGS and PREFIXES.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    string(JOIN " " command ${ARGV})
    message(FATAL_ERROR "${command}\n${output}\nended with ${result}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# What was installed is moved: nothing of it may name the place where it was.
set(prefix ${SCRATCH}/moved)
file(REMOVE_RECURSE ${SCRATCH})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${SCRATCH}/prefix)
file(RENAME ${SCRATCH}/prefix ${prefix})
foreach(file bin/podium include/podium/podium.h include/podium/train/loop/trainer.h share/podium/recipes/mnist.toml share/podium/prices/2018.toml share/podium/convergence/mnist.json share/podium/devices/nvidia.toml
    share/man/man1/podium.1 share/bash-completion/completions/podium share/zsh/site-functions/_podium)
  if(NOT EXISTS ${prefix}/${file})
    message(FATAL_ERROR "cmake --install laid down no ${file}")
  endif()
endforeach()

# Each header compiles alone, with include/ as the only folder of Podium's, and nothing of this house stands beside podium/.
file(GLOB beside ${prefix}/include/*)
if(NOT beside STREQUAL "${prefix}/include/podium")
  message(FATAL_ERROR "include/ holds more than podium/: ${beside}")
endif()
# The standard library's headers are compiled once for all, in a fifth of the time: that each file includes those that it
# needs, lint.sh sees.
file(GLOB_RECURSE headers RELATIVE ${prefix}/include ${prefix}/include/*.h)
set(standard)
set(begun) # what another header begins with stands alone there
foreach(header ${headers})
  file(STRINGS ${prefix}/include/${header} lines REGEX "^#include <[a-z_]+>$")
  list(APPEND standard ${lines})
  file(STRINGS ${prefix}/include/${header} first LIMIT_COUNT 1 REGEX "^#include <podium/.*>$")
  string(REGEX REPLACE "^#include <(.*)>$" "\\1" first "${first}")
  list(APPEND begun ${first})
endforeach()
list(REMOVE_DUPLICATES standard)
list(JOIN standard "\n" standard)
file(WRITE ${SCRATCH}/standard.h "${standard}\n")
run(${CXX} -std=c++20 -x c++-header ${SCRATCH}/standard.h -o ${SCRATCH}/standard.h.gch)
list(REMOVE_ITEM headers ${begun})
foreach(header ${headers})
  file(WRITE ${SCRATCH}/alone.cc "#include <${header}>\n")
  run(${CXX} -std=c++20 -fsyntax-only -include ${SCRATCH}/standard.h -I ${prefix}/include ${SCRATCH}/alone.cc)
endforeach()

# The examples are copied, so that nothing of the tree can be found by a relative path.
file(COPY ${SOURCE}/examples/ DESTINATION ${SCRATCH}/examples)
set(ENV{CMAKE_PREFIX_PATH} "${PREFIXES}")
run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${SCRATCH}/examples -B ${SCRATCH}/build -D CMAKE_PREFIX_PATH=${prefix}
  -D CMAKE_BUILD_TYPE=Release -D CMAKE_CXX_COMPILER=${CXX} "-D CMAKE_CXX_FLAGS=${FLAGS}")
run(${CMAKE_COMMAND} --build ${SCRATCH}/build)  # every example and the plugin
run(${SCRATCH}/build/custom_model 1)
if(NOT output MATCHES "test accuracy [6-9][0-9]\\.[0-9]+%")
  message(FATAL_ERROR "the example did not learn:\n${output}")
endif()

# The installed command loads the plugin that was built against the installed headers.
run(${prefix}/bin/podium plugin ${SCRATCH}/build/squeeze_plugin.so)
if(NOT output MATCHES "channel_gate +with a gradient, checked")
  message(FATAL_ERROR "the installed podium does not check the plugin's operation:\n${output}")
endif()

# The installed command finds the installed recipes, from any folder.
execute_process(COMMAND ${prefix}/bin/podium recipes WORKING_DIRECTORY ${SCRATCH} RESULT_VARIABLE result
  OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT result EQUAL 0 OR NOT output MATCHES "mnist")
  message(FATAL_ERROR "the installed podium does not list its recipes:\n${output}")
endif()
file(REMOVE_RECURSE ${SCRATCH})
