# Read by cpack when the files of the .deb lie in its staging folder: what Debian's policy (chapter 12) wants of a package and
# `make install` does not do: a man page that is compressed, a copyright file, a changelog in Debian's form.
set(SHARE ${CPACK_TEMPORARY_DIRECTORY}${CPACK_PACKAGING_INSTALL_PREFIX}/share)
set(DOC ${SHARE}/doc/${CPACK_PACKAGE_NAME})

function(pack file)
  execute_process(COMMAND gzip -9nf ${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

pack(${SHARE}/man/man1/drover.1)

# The time is that of the commit, as in the wheel and the tarball.
if(NOT DEFINED ENV{SOURCE_DATE_EPOCH})
  execute_process(COMMAND git -C ${CPACK_DROVER_SOURCE} log -1 --format=%ct
    OUTPUT_VARIABLE time OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(time)
    set(ENV{SOURCE_DATE_EPOCH} ${time})
  endif()
endif()
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
string(TIMESTAMP year "%Y" UTC)
file(WRITE ${DOC}/changelog "${CPACK_PACKAGE_NAME} (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * Built from commit ${CPACK_DROVER_COMMIT}. CHANGELOG.md tells what is new.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
pack(${DOC}/changelog)

set(UTF8PROC_TERMS "")
if(CPACK_DROVER_UTF8PROC) # is inside of the program
  file(READ /usr/share/doc/libutf8proc-dev/copyright UTF8PROC_TERMS)
  string(PREPEND UTF8PROC_TERMS "
The program contains the library utf8proc, which Debian distributes under the
following terms.

")
endif()
file(WRITE ${DOC}/copyright "drover: Llama trainer in one program

Copyright ${year} The drover authors

License: Apache-2.0
 On Debian systems the text of the Apache License, Version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
${UTF8PROC_TERMS}")

# Whatever the umask was.
execute_process(COMMAND chmod -R u=rwX,go=rX ${CPACK_TEMPORARY_DIRECTORY}${CPACK_PACKAGING_INSTALL_PREFIX} COMMAND_ERROR_IS_FATAL ANY)
