"""The kernels of the algorithms, built for types; they guard their own tails, and are compiled without bounds."""
