"""An extension of somebody else's on the C interface of vyre_cuda."""

from Cython.Build import cythonize
from setuptools import Extension, setup

import vyre_cuda as vc

LIBRARY = vc.get_library_dir()

setup(
    name="roundtrip",
    ext_modules=cythonize(
        Extension(
            "roundtrip",
            ["roundtrip.pyx"],
            include_dirs=[vc.get_include()],
            libraries=["vyre_cuda"],
            library_dirs=[LIBRARY],
            runtime_library_dirs=[LIBRARY],
        )
    ),
)
