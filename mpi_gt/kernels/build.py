"""How setup builds the compiled kernels; not imported at run time (see pyproject.toml)."""

from setuptools import Extension
from setuptools.command.build_ext import build_ext

# no contraction: the same bits as numpy; the other two change no value, and let sqrt be vectorised
FLAGS = ["-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]


class BuildKernels(build_ext):
    """Where there is a C compiler and numpy's headers are at hand; else the package does without.

    The extension itself is declared as optional: a failure to compile is a warning.
    """

    def build_extension(self, ext: Extension) -> None:
        try:
            import numpy
        except ImportError:
            return
        ext.include_dirs.append(numpy.get_include())
        if self.compiler.compiler_type == "unix":
            ext.extra_compile_args += FLAGS
        super().build_extension(ext)
