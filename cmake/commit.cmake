# DROVER_COMMIT: the commit that drover prints beside the version of project(). git archive, which makes tarballs, writes
# it into commit.txt (.gitattributes); a checkout knows it.
get_filename_component(source ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/commit.txt DROVER_COMMIT LIMIT_COUNT 1 REGEX "^[0-9a-f]+$")
if(NOT DROVER_COMMIT)
  execute_process(COMMAND git -C ${source} describe --always --dirty --exclude=*
    OUTPUT_VARIABLE DROVER_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT DROVER_COMMIT AND EXISTS ${source}/.git/HEAD) # a checkout on a machine without git
  file(STRINGS ${source}/.git/HEAD DROVER_COMMIT LIMIT_COUNT 1)
  if(DROVER_COMMIT MATCHES "^ref: (.+)$")
    set(ref ${CMAKE_MATCH_1})
    set(DROVER_COMMIT)
    if(EXISTS ${source}/.git/${ref})
      file(STRINGS ${source}/.git/${ref} DROVER_COMMIT LIMIT_COUNT 1)
    elseif(EXISTS ${source}/.git/packed-refs)
      file(STRINGS ${source}/.git/packed-refs DROVER_COMMIT LIMIT_COUNT 1 REGEX "^[0-9a-f]+ ${ref}$")
    endif()
  endif()
  string(SUBSTRING "${DROVER_COMMIT}" 0 8 DROVER_COMMIT)
endif()
if(NOT DROVER_COMMIT)
  set(DROVER_COMMIT unknown)
endif()
if(CMAKE_SCRIPT_MODE_FILE) # cmake -P cmake/commit.cmake
  message(STATUS ${DROVER_COMMIT})
endif()
