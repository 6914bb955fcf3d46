# podium_messages(TARGET CODE FILE...): protoc's code of src/FILE.proto, whose names it puts into the variable CODE; it is compiled
# without our warnings, and ${PODIUM_MESSAGES} is where it is included from. TARGET makes it, so that tests can have it without
# the library, and podium_messages_code all of them, which scripts/lint.sh needs.
set(PODIUM_MESSAGES ${PROJECT_BINARY_DIR}/generated/proto)
add_custom_target(podium_messages_code)
function(podium_messages target code)
  file(MAKE_DIRECTORY ${PODIUM_MESSAGES})
  set(all)
  foreach(file ${ARGN})
    set(own ${PODIUM_MESSAGES}/${file}.pb.cc ${PODIUM_MESSAGES}/${file}.pb.h)
    add_custom_command(OUTPUT ${own}
      COMMAND protobuf::protoc -I ${PROJECT_SOURCE_DIR}/src --cpp_out ${PODIUM_MESSAGES} ${file}.proto
      DEPENDS ${PROJECT_SOURCE_DIR}/src/${file}.proto VERBATIM)
    list(APPEND all ${own})
  endforeach()
  add_custom_target(${target} DEPENDS ${all})
  add_dependencies(podium_messages_code ${target})
  set_source_files_properties(${all} PROPERTIES COMPILE_OPTIONS -w)
  set(${code} ${all} PARENT_SCOPE)
endfunction()
