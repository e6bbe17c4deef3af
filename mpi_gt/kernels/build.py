"""The build of the compiled kernels by setuptools (see pyproject.toml); not for run time."""

from setuptools import Extension
from setuptools.command.build_ext import build_ext

# No contraction, for the same bits as numpy. The last two change no value and let the compiler
# vectorise sqrt.
FLAGS = ["-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]


class BuildKernels(build_ext):
    """The build step, which is skipped without numpy's headers.

    pyproject.toml declares the extension as optional: if compiling fails, setuptools only warns.
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
