# Writes OUTPUT, a header with the commit of the tree SOURCE as kCommit; "unknown" outside of git.
execute_process(COMMAND git describe --always --dirty --abbrev=12 --exclude=*
  WORKING_DIRECTORY "${SOURCE}" OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT
"#pragma once

namespace regauge::connect {

inline constexpr const char* kCommit = \"@commit@\";

}  // namespace regauge::connect
" @ONLY)
