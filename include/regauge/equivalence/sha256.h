#pragma once

// SHA-256 lives in io, beside the files that it is computed of.
#include "regauge/io/sha256.h"
