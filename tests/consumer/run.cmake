# Installs BUILD into a new prefix under WORK, then configures, builds and tests the project CONSUMER
# against it, with the compiler and flags of BUILD.
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE "${WORK}")
run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/prefix")
run("${CMAKE_COMMAND}" -G "${GENERATOR}" -S "${CONSUMER}" -B "${WORK}/build"
  "-DCMAKE_PREFIX_PATH=${WORK}/prefix" "-DCMAKE_CXX_COMPILER=${COMPILER}"
  "-DCMAKE_BUILD_TYPE=Debug" "-DCMAKE_CXX_FLAGS=${FLAGS}" "-DMODEL=${MODEL}" "-DLAB=${LAB}"
  "-DTorch_DIR=${TORCH}")
run("${CMAKE_COMMAND}" --build "${WORK}/build")
run("${CMAKE_CTEST_COMMAND}" --test-dir "${WORK}/build" --output-on-failure --no-tests=error)
