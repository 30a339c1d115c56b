# The Python package's extension module regauge._core, with the core and the command line's verbs
# linked in; `pip install .` builds it through pyproject.toml.
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module ${SKBUILD_SABI_COMPONENT})
execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
  OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE result ERROR_QUIET)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "REGAUGE_WITH_PYTHON: ${Python_EXECUTABLE} has no nanobind; "
    "pip install nanobind, or point Python_EXECUTABLE at an interpreter that has it")
endif()
find_package(nanobind CONFIG REQUIRED)

file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/python/bindings/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/cli/core/*.cpp")
nanobind_add_module(regauge_python NB_STATIC STABLE_ABI NB_SUPPRESS_WARNINGS
  ${sources} $<TARGET_OBJECTS:regauge_verbs>)
set_target_properties(regauge_python PROPERTIES OUTPUT_NAME _core)
target_include_directories(regauge_python PRIVATE "${PROJECT_SOURCE_DIR}/src/cli")
target_link_libraries(regauge_python PRIVATE regauge_core CLI11::CLI11 fmt::fmt)
regauge_compile_options(regauge_python)

install(TARGETS regauge_python LIBRARY DESTINATION regauge COMPONENT python)
if(regauge_blas_bundled)
  execute_process(COMMAND "${Python_EXECUTABLE}" -c
      "import importlib.metadata as m; print(next(f.locate() for f in m.files('scipy-openblas32') if 'LICENSE' in f.name))"
    OUTPUT_VARIABLE licence OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  install(FILES "${regauge_blas_bundled}" DESTINATION regauge COMPONENT python)
  install(FILES "${licence}" DESTINATION regauge RENAME LICENSE-openblas.txt COMPONENT python)
endif()
