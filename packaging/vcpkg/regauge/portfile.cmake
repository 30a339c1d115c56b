# vcpkg install regauge --overlay-ports=packaging/vcpkg. A port in vcpkg's registry takes the sources of a release
# with vcpkg_from_github in place of the next line.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS -DREGAUGE_BUILD_TESTS=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/regauge)
vcpkg_copy_tools(TOOL_NAMES regauge AUTO_CLEAN)
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
file(WRITE "${CURRENT_PACKAGES_DIR}/share/${PORT}/usage" "find_package(regauge CONFIG REQUIRED)\ntarget_link_libraries(main PRIVATE regauge::core)\n")
