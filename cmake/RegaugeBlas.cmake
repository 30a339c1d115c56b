# regauge_blas: the BLAS/LAPACK that the large products run on. See docs/adr/.
find_package(BLAS REQUIRED)
find_package(LAPACK REQUIRED)
add_library(regauge_blas INTERFACE)
target_link_libraries(regauge_blas INTERFACE LAPACK::LAPACK BLAS::BLAS)
