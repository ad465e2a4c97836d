# make install and make package: the program, and a man page and completion made from its help.
include(GNUInstallDirs)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON) # neither needs the tests
find_package(Python3 REQUIRED COMPONENTS Interpreter)

set(MADE ${CMAKE_BINARY_DIR}/made)
file(MAKE_DIRECTORY ${MADE})
foreach(pair "make_man=drover.1" "make_completion=drover.bash")
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 script)
  list(GET pair 1 file)
  add_custom_command(OUTPUT ${MADE}/${file}
    COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/tools/${script}.py ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:drover> ${MADE}/${file}
    DEPENDS drover tools/${script}.py tools/program_help.py VERBATIM)
endforeach()
add_custom_target(manual DEPENDS drover ${MADE}/drover.1 ${MADE}/drover.bash)

install(TARGETS drover RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET drover_mpi)
  install(TARGETS drover_mpi LIBRARY DESTINATION lib/drover) # where src/comm/mpi.c looks
endif()
install(FILES ${MADE}/drover.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${MADE}/drover.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME drover)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY examples docs DESTINATION ${CMAKE_INSTALL_DOCDIR}) # the README names both

set(CPACK_PACKAGE_NAME drover)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
# Nobody can be reached there (RFC 2606): who gives a package to others says who they are, cpack -D CPACK_PACKAGE_CONTACT="NAME <ADDRESS>".
set(CPACK_PACKAGE_CONTACT "The drover authors <drover@drover.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Llama trainer in one program, from text to a Hugging Face folder")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"drover trains Llama models and their relatives (Mistral, Qwen2, Qwen3, SmolLM3)
on processors: from scratch, on, by LoRA, or on preferences (DPO). It downloads
and tokenises text, plans every byte before it runs, trains with its own
kernels on one or many ranks, and resumes bit for bit. Its checkpoints are
Hugging Face folders. GGUF files and PEFT adapters are read and written, too.
.
Several ranks need Open MPI, which openmpi-bin brings.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
if(CMAKE_CROSSCOMPILING) # else dpkg names the architecture
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE ${DROVER_DEBIAN_ARCHITECTURE})
endif()
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/deb_files.cmake)
set(CPACK_DROVER_SOURCE ${CMAKE_SOURCE_DIR})
set(CPACK_DROVER_COMMIT ${DROVER_COMMIT})
if(UTF8PROC MATCHES "\\.a$")
  set(CPACK_DROVER_UTF8PROC ${UTF8PROC})
endif()
# What the program needs it depends on; what its MPI module and single verbs need is recommended (deb_depends.cmake).
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/deb_depends.cmake)
set(CPACK_DROVER_PROGRAM ${CMAKE_BINARY_DIR}/drover)
set(CPACK_DROVER_OPENED ${OPENED_FILES})
set(CPACK_DROVER_WISHED ${WISHED_FILES})
set(CPACK_DROVER_CC ${CMAKE_C_COMPILER})
if(TARGET drover_mpi)
  set(CPACK_DROVER_MPI_MODULE ${CMAKE_BINARY_DIR}/drover_mpi.so)
endif()
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
include(CPack)
