# Runs FUZZER from the seeds in SEEDS; what it finds and keeps goes to WORK.
set(seconds "$ENV{REGAUGE_FUZZ_SECONDS}")
if(seconds STREQUAL "")
  set(seconds 60)
endif()
file(MAKE_DIRECTORY "${WORK}/corpus")
set(folders "${WORK}/corpus")
if(EXISTS "${SEEDS}")
  list(APPEND folders "${SEEDS}")
endif()
execute_process(
  COMMAND "${FUZZER}" -max_total_time=${seconds} -timeout=10 -rss_limit_mb=2048
    -print_final_stats=1 -verbosity=1 "-artifact_prefix=${WORK}/" ${folders}
  COMMAND_ERROR_IS_FATAL ANY)
