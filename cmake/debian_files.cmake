# Run by cpack before it makes a package: what Debian wants other than `cmake --install` lays it down.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
foreach(component program development)
  set(package ${CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME})
  if(component STREQUAL "program")
    set(package ${CPACK_DEBIAN_PROGRAM_PACKAGE_NAME})
  endif()
  set(usr ${CPACK_TEMPORARY_DIRECTORY}/${component}/usr)
  set(documents ${usr}/share/doc/${package})
  file(MAKE_DIRECTORY ${documents})
  file(REMOVE ${documents}/LICENSE)
  file(WRITE ${documents}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Podium

Files: *
Copyright: 2026 The Podium authors
License: Apache-2.0
 On Debian systems the text of the Apache License, version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
")
  string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
  file(WRITE ${documents}/changelog "podium (${CPACK_PACKAGE_VERSION}) unstable; urgency=low

  * Version ${CPACK_PACKAGE_VERSION}, packaged by its own build.

 -- ${CPACK_PACKAGE_CONTACT}  ${now}
")
  set(zipped ${documents}/changelog)
  if(component STREQUAL "program")
    list(APPEND zipped ${usr}/share/man/man1/podium.1)
    file(MAKE_DIRECTORY ${usr}/share/zsh/vendor-completions)
    file(RENAME ${usr}/share/zsh/site-functions/_podium ${usr}/share/zsh/vendor-completions/_podium)
    file(REMOVE_RECURSE ${usr}/share/zsh/site-functions)
  endif()
  execute_process(COMMAND gzip -9 -n -f ${zipped} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
