#pragma once

namespace regauge::cli {

// The whole command line, as main's arguments say; returns the exit code.
int run(int argc, char** argv);

}  // namespace regauge::cli
