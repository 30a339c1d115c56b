# Which BLAS the program loads when its environment variable REGAUGE_BLAS does not say. It is loaded
# at run time, so nothing is linked here: docs/adr/0001-blas.md.
set(REGAUGE_BLAS "" CACHE STRING
  "BLAS to load: empty (the system's), 'scipy-openblas' (from PyPI), 'bundled' (that one, beside the Python package), 'eigen', or a name or path")

if(REGAUGE_BLAS MATCHES "^(scipy-openblas|bundled)$")
  find_package(Python REQUIRED COMPONENTS Interpreter)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c
      "import scipy_openblas32 as b; print(b.get_lib_dir() + '/' + b.get_library(fullname=True))"
    OUTPUT_VARIABLE regauge_blas_default OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE result ERROR_QUIET)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "REGAUGE_BLAS=${REGAUGE_BLAS}: ${Python_EXECUTABLE} has no scipy_openblas32; "
      "pip install scipy-openblas32, or point Python_EXECUTABLE at an interpreter that has it")
  endif()
  if(REGAUGE_BLAS STREQUAL "bundled")
    set(regauge_blas_bundled "${regauge_blas_default}")
    cmake_path(GET regauge_blas_bundled FILENAME regauge_blas_default)
    string(PREPEND regauge_blas_default "\$ORIGIN/")
  endif()
else()
  set(regauge_blas_default "${REGAUGE_BLAS}")
endif()

add_library(regauge_blas INTERFACE)
target_link_libraries(regauge_blas INTERFACE Eigen3::Eigen ${CMAKE_DL_LIBS})
set_source_files_properties(src/base/blas_library.cpp PROPERTIES
  COMPILE_DEFINITIONS "REGAUGE_BLAS_DEFAULT=\"${regauge_blas_default}\"")
