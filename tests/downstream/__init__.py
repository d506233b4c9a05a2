"""Those who build on the package: hosts in C and C++, extensions, and the package's own wheel."""
