# The lab: the only part that links libtorch, and the program regauge-lab that carries its verbs.
# `pip install torch==2.13.0` brings the library; the python3 on PATH is asked where it is,
# unless Torch_DIR or CMAKE_PREFIX_PATH already says.
find_package(ZLIB REQUIRED)
find_package(Torch 2.13 QUIET)
if(NOT Torch_FOUND)
  execute_process(
    COMMAND python3 -c "import torch; print(torch.utils.cmake_prefix_path)"
    OUTPUT_VARIABLE torch_prefix OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE result ERROR_QUIET)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "REGAUGE_WITH_LAB: the python3 on PATH has no torch; "
      "pip install torch==2.13.0, or set Torch_DIR to the TorchConfig.cmake of a libtorch >= 2.13")
  endif()
  find_package(Torch 2.13 REQUIRED PATHS "${torch_prefix}" NO_DEFAULT_PATH)
endif()

file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/lab/*.cpp")
add_library(regauge_lab STATIC ${sources})
add_library(regauge::lab ALIAS regauge_lab)
# The files and not the targets: libtorch brings a fmt of its own, which must come after ours.
foreach(folder ${TORCH_INCLUDE_DIRS})
  target_compile_options(regauge_lab PRIVATE "SHELL:-idirafter ${folder}")
endforeach()
target_link_libraries(regauge_lab PUBLIC regauge_core
  PRIVATE fmt::fmt $<TARGET_FILE:torch_cpu> $<TARGET_FILE:c10> ZLIB::ZLIB)
regauge_compile_options(regauge_lab)
file(GLOB headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/regauge/lab/*.h")
target_sources(regauge_lab PUBLIC FILE_SET HEADERS
  BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${headers})
set_target_properties(regauge_lab PROPERTIES EXPORT_NAME lab VERIFY_INTERFACE_HEADER_SETS ON)
install(TARGETS regauge_lab EXPORT regaugeLab
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT regaugeLab NAMESPACE regauge:: FILE regaugeLabTargets.cmake
  DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/regauge")

# What sees the lab and the alignment. Its records say which commit made them.
set(commit "${PROJECT_BINARY_DIR}/generated/study_commit.h")
add_custom_target(regauge_commit BYPRODUCTS "${commit}" COMMAND ${CMAKE_COMMAND}
  "-DSOURCE=${PROJECT_SOURCE_DIR}" "-DOUTPUT=${commit}"
  -P "${PROJECT_SOURCE_DIR}/cmake/StudyCommit.cmake")
file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/connect/lab/*.cpp")
add_library(regauge_study STATIC ${sources})
add_dependencies(regauge_study regauge_commit)
target_include_directories(regauge_study PRIVATE "${PROJECT_BINARY_DIR}/generated")
target_link_libraries(regauge_study PUBLIC regauge_lab fmt::fmt)
regauge_compile_options(regauge_study)

# The whole command line once more, with the verbs that need libtorch. `regauge` hands those over to
# it, so that everything else starts without loading libtorch: docs/adr/0006-the-lab-is-a-program.md.
file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/cli/lab/*.cpp")
regauge_program(regauge_lab_cli LIBRARIES regauge_study SOURCES ${sources})
target_include_directories(regauge_lab_cli PRIVATE "${PROJECT_SOURCE_DIR}/src/cli")
set_target_properties(regauge_lab_cli PROPERTIES OUTPUT_NAME regauge-lab
  INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS regauge_lab_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
