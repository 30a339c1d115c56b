#include "run.h"

int main(int argc, char** argv) { return regauge::cli::run(argc, argv); }
