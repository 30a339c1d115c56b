# Which BLAS the program loads when its environment variable REGAUGE_BLAS does not say. It is loaded
# at run time, so nothing is linked here: docs/adr/0001-blas.md.
set(REGAUGE_BLAS "" CACHE STRING
  "BLAS to load: empty (the system's), 'scipy-openblas' (from PyPI), 'eigen', or a name or path")

if(REGAUGE_BLAS STREQUAL "scipy-openblas")
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  execute_process(
    COMMAND "${Python3_EXECUTABLE}" -c
      "import scipy_openblas32 as b; print(b.get_lib_dir() + '/' + b.get_library(fullname=True))"
    OUTPUT_VARIABLE regauge_blas_default OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE result ERROR_QUIET)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "REGAUGE_BLAS=scipy-openblas: ${Python3_EXECUTABLE} has no scipy_openblas32; "
      "pip install scipy-openblas32, or point Python3_EXECUTABLE at an interpreter that has it")
  endif()
else()
  set(regauge_blas_default "${REGAUGE_BLAS}")
endif()

add_library(regauge_blas INTERFACE)
target_link_libraries(regauge_blas INTERFACE Eigen3::Eigen ${CMAKE_DL_LIBS})
set_source_files_properties(src/base/blas_library.cpp PROPERTIES
  COMPILE_DEFINITIONS "REGAUGE_BLAS_DEFAULT=\"${regauge_blas_default}\"")
