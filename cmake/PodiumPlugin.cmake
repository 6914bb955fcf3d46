# For builds of plugins (src/train/plugin/plugin.h), in this tree and against an installed Podium.
#
#   podium_add_plugin(my_plugin my_plugin.cc)   # my_plugin.so, which links nothing of Podium
#   podium_loads_plugins(my_program)            # a program that calls load_plugin(): has and exports what plugins need
function(podium_add_plugin name)
  add_library(${name} MODULE ${ARGN})
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX ".so")
  target_link_libraries(${name} PRIVATE Podium::headers)
endfunction()

function(podium_loads_plugins target)
  get_property(libraries GLOBAL PROPERTY PODIUM_LIBRARIES)  # of this tree
  if(NOT libraries)
    get_target_property(libraries Podium::podium INTERFACE_LINK_LIBRARIES)
  endif()
  list(TRANSFORM libraries REPLACE "(.+)" "$<TARGET_FILE:\\1>")
  set_target_properties(${target} PROPERTIES ENABLE_EXPORTS ON)
  target_link_options(${target} PRIVATE -Wl,--whole-archive ${libraries} -Wl,--no-whole-archive)
endfunction()
