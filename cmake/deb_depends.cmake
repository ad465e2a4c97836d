# Read by cpack: the libraries that dpkg-shlibdeps finds. CPack's own way would put that of the MPI module, which is opened
# only under mpirun or srun, beside those of the program, and nobody could install drover without Open MPI.
set(PLACE ${CPACK_TOPLEVEL_DIRECTORY}/shlibdeps)
if(CPACK_DEBIAN_PACKAGE_ARCHITECTURE) # another one than this machine's: dpkg-shlibdeps asks for the libraries of that
  set(ENV{DEB_HOST_ARCH} ${CPACK_DEBIAN_PACKAGE_ARCHITECTURE})
endif()
file(WRITE ${PLACE}/debian/control "Source: drover\nPackage: drover\nArchitecture: any\n") # dpkg-shlibdeps wants one

function(libraries_of file out) # "libc6 (>= 2.36), libcurl4 (>= 7.16.2)" as a list
  execute_process(COMMAND dpkg-shlibdeps -O --ignore-missing-info ${file} WORKING_DIRECTORY ${PLACE}
    OUTPUT_VARIABLE found ERROR_VARIABLE why RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "dpkg-shlibdeps ${file}: ${why}")
  endif()
  string(REPLACE "shlibs:Depends=" "" found "${found}")
  string(REPLACE ", " ";" found "${found}")
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# What the program opens by name, linked with a library of nothing: it tells what they are.
foreach(kind OPENED WISHED)
  execute_process(COMMAND ${CPACK_DROVER_CC} -shared -nostdlib -Wl,--no-as-needed ${CPACK_DROVER_${kind}}
    -o ${PLACE}/${kind}.so COMMAND_ERROR_IS_FATAL ANY)
  libraries_of(${PLACE}/${kind}.so ${kind})
endforeach()
libraries_of(${CPACK_DROVER_PROGRAM} DEPENDS)
list(APPEND DEPENDS ${OPENED})
if(CPACK_DROVER_MPI_MODULE) # openmpi-bin brings mpirun and libmpi.so.40, whose package is another one on each Debian
  list(APPEND RECOMMENDS openmpi-bin)
endif()
list(APPEND RECOMMENDS ${WISHED})
list(FILTER RECOMMENDS EXCLUDE REGEX "^libc6 ")
string(REPLACE ";" ", " CPACK_DEBIAN_PACKAGE_DEPENDS "${DEPENDS}")
string(REPLACE ";" ", " CPACK_DEBIAN_PACKAGE_RECOMMENDS "${RECOMMENDS}")
