# The installed package: find_package(regauge) gives regauge::core and the program regauge::cli, and
# with COMPONENTS lab regauge::lab, if it was built with it.
include(CMakePackageConfigHelpers)
set(regauge_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/regauge")

install(TARGETS regauge_core regauge_cli EXPORT regauge
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}"
  FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT regauge NAMESPACE regauge:: FILE regaugeTargets.cmake
  DESTINATION "${regauge_package_dir}")

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/regaugeConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/regaugeConfig.cmake" INSTALL_DESTINATION "${regauge_package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/regaugeConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/regaugeConfig.cmake"
  "${PROJECT_BINARY_DIR}/regaugeConfigVersion.cmake" DESTINATION "${regauge_package_dir}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
