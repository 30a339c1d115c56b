# What a module, the core library and the command line are made of.

if(PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(REGAUGE_CCACHE ccache)
  mark_as_advanced(REGAUGE_CCACHE)
  if(REGAUGE_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${REGAUGE_CCACHE}")
  endif()
endif()

set(CMAKE_CXX_EXTENSIONS OFF)

function(regauge_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
  if(REGAUGE_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()

# regauge_module(NAME DEPENDS ...): the sources of src/NAME as the object library regauge_NAME.
function(regauge_module name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${name}/*.cpp")
  list(FILTER sources EXCLUDE REGEX "/src/${name}/lab/")  # which sees libtorch
  add_library(regauge_${name} OBJECT ${sources})
  set_target_properties(regauge_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON LINKER_LANGUAGE CXX)
  target_include_directories(regauge_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(regauge_${name} PUBLIC ${ARG_DEPENDS})
  regauge_compile_options(regauge_${name})
endfunction()

# regauge_link_up_to(TARGET MODULE): the modules up to MODULE, lowest first.
function(regauge_link_up_to target highest)
  foreach(module base io numerics arch symmetry action align equivalence connect)
    target_link_libraries(${target} PRIVATE regauge_${module})
    if(module STREQUAL highest)
      break()
    endif()
  endforeach()
endfunction()

# The data files of a folder and the list of harmless keys, compiled into a module as
# regauge::embedded_architectures() and regauge::embedded_harmless_keys().
function(regauge_embed_architectures target folder keys)
  file(GLOB files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/*.json")
  set(output "${PROJECT_BINARY_DIR}/generated/embedded_architectures.cpp")
  add_custom_command(OUTPUT "${output}"
    COMMAND ${CMAKE_COMMAND} "-DOUTPUT=${output}" "-DFILES=${files}"
            "-DKEYS=${PROJECT_SOURCE_DIR}/${keys}"
            -P "${PROJECT_SOURCE_DIR}/cmake/EmbedArchitectures.cmake"
    DEPENDS ${files} "${PROJECT_SOURCE_DIR}/${keys}" "${PROJECT_SOURCE_DIR}/cmake/EmbedArchitectures.cmake" VERBATIM)
  target_sources(${target} PRIVATE "${output}")
endfunction()

# The model of `regauge demo`, compiled into the verbs.
function(regauge_embed_demo target)
  file(GLOB files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/data/demo/*")
  set(output "${PROJECT_BINARY_DIR}/generated/demo_files.cpp")
  add_custom_command(OUTPUT "${output}"
    COMMAND ${CMAKE_COMMAND} "-DOUTPUT=${output}" "-DFILES=${files}"
            -P "${PROJECT_SOURCE_DIR}/cmake/EmbedDemo.cmake"
    DEPENDS ${files} "${PROJECT_SOURCE_DIR}/cmake/EmbedDemo.cmake" VERBATIM)
  target_sources(${target} PRIVATE "${output}")
  set_source_files_properties("${output}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON
    INCLUDE_DIRECTORIES "${PROJECT_SOURCE_DIR}/src/cli")
endfunction()

function(regauge_core_library)
  cmake_parse_arguments(ARG "" "" "MODULES" ${ARGN})
  add_library(regauge_core)
  add_library(regauge::core ALIAS regauge_core)
  set_target_properties(regauge_core PROPERTIES EXPORT_NAME core OUTPUT_NAME regauge
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  foreach(module ${ARG_MODULES})
    target_sources(regauge_core PRIVATE $<TARGET_OBJECTS:regauge_${module}>)
  endforeach()
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/regauge/*.h")
  list(FILTER headers EXCLUDE REGEX "/regauge/lab/")
  target_sources(regauge_core PUBLIC FILE_SET HEADERS
    BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${headers})
  target_link_libraries(regauge_core
    PUBLIC Eigen3::Eigen nlohmann_json::nlohmann_json
    PRIVATE fmt::fmt Threads::Threads ${CMAKE_DL_LIBS})
  target_compile_features(regauge_core PUBLIC cxx_std_20)
  # `cmake --build . --target all_verify_interface_header_sets`: each header alone
  set_target_properties(regauge_core PROPERTIES LINKER_LANGUAGE CXX VERIFY_INTERFACE_HEADER_SETS ON)
  set_source_files_properties("${PROJECT_SOURCE_DIR}/src/base/version.cpp" PROPERTIES
    COMPILE_DEFINITIONS "REGAUGE_VERSION=\"${PROJECT_VERSION}\"")
endfunction()

# regauge_program(NAME LIBRARIES ... SOURCES ...): the verbs of src/cli and SOURCES as a program.
function(regauge_program name)
  cmake_parse_arguments(ARG "" "" "LIBRARIES;SOURCES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES} $<TARGET_OBJECTS:regauge_verbs>)
  set(origin "$ORIGIN")
  if(APPLE)
    set(origin "@loader_path")
  endif()
  set_target_properties(${name} PROPERTIES INSTALL_RPATH "${origin}/../${CMAKE_INSTALL_LIBDIR}")
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} CLI11::CLI11 fmt::fmt)
  regauge_compile_options(${name})
endfunction()

function(regauge_cli)
  file(GLOB verbs CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/cli/*.cpp")
  add_library(regauge_verbs OBJECT ${verbs})
  set_target_properties(regauge_verbs PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(regauge_verbs PRIVATE regauge_core CLI11::CLI11 fmt::fmt)
  target_compile_definitions(regauge_verbs PRIVATE REGAUGE_VERSION="${PROJECT_VERSION}")
  regauge_embed_demo(regauge_verbs)
  regauge_compile_options(regauge_verbs)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/cli/core/*.cpp")
  regauge_program(regauge_cli LIBRARIES regauge_core SOURCES ${sources})
  add_executable(regauge::cli ALIAS regauge_cli)
  set_target_properties(regauge_cli PROPERTIES OUTPUT_NAME regauge EXPORT_NAME cli)
endfunction()
