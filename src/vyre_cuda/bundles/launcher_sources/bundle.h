// Where the embedded bundle is.
#pragma once

#include <cstddef>

const void *bundle_data();
std::size_t bundle_bytes();
