# Runs FUZZER for REGAUGE_FUZZ_SECONDS (10) with REGAUGE_FUZZ_SEED (1; 0 for another one each time), from
# SEEDS and what earlier runs left in CORPUS.
set(seconds "$ENV{REGAUGE_FUZZ_SECONDS}")
if(NOT seconds)
  set(seconds 10)
endif()
set(seed "$ENV{REGAUGE_FUZZ_SEED}")
if(seed STREQUAL "")
  set(seed 1)
endif()
file(MAKE_DIRECTORY "${CORPUS}")
execute_process(
  COMMAND "${FUZZER}" -seed=${seed} -max_total_time=${seconds} -timeout=60 -rss_limit_mb=2048 -max_len=4096
          "-artifact_prefix=${CORPUS}-" "${CORPUS}" "${SEEDS}"
  RESULT_VARIABLE result)
if(result)
  message(FATAL_ERROR "${FUZZER} found an input that fails, kept beside ${CORPUS}")
endif()
