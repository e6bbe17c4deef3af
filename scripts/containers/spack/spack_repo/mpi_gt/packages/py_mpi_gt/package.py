"""The Spack package of mpi-gt (Spack 1.0 or later); README.md in scripts/containers shows its use.

Names and versions of all dependencies are those of pyproject.toml, which a test compares.
"""

from spack.package import depends_on, license, variant, version
from spack_repo.builtin.build_systems.python import PythonPackage


class PyMpiGt(PythonPackage):
    """Decentralized stochastic optimization as real MPI processes: one rank is one node."""

    license("MIT")

    # no url: the source is a checkout, `spack develop --path CHECKOUT py-mpi-gt@0.1.0`
    version("0.1.0")

    variant("pandas", default=False, description="Results as tables")
    variant("plot", default=True, description="Figures")
    variant("report", default=False, description="HTML pages")
    variant("fdla", default=False, description="Weights that mix fastest")
    variant("jax", default=False, description="Networks in JAX")
    variant("torch", default=False, description="Networks in PyTorch")

    depends_on("c", type="build")
    depends_on("python@3.10:", type=("build", "run"))
    depends_on("py-setuptools@77:", type="build")
    depends_on("py-numpy@2:", type="build")

    # with it comes the MPI: `py-mpi-gt ^mpich`, or an external package of the site
    depends_on("py-mpi4py@4.1:", type=("build", "run"))
    depends_on("py-networkx@3.0:", type=("build", "run"))
    depends_on("py-numpy@1.26:", type=("build", "run"))
    depends_on("py-rich@13:", type=("build", "run"))
    depends_on("py-scipy@1.11:", type=("build", "run"))
    depends_on("py-tomli@2:", type=("build", "run"), when="^python@:3.10")

    depends_on("py-pandas@2:", type=("build", "run"), when="+pandas")
    depends_on("py-matplotlib@3.8:", type=("build", "run"), when="+plot")
    depends_on("py-plotly@5.20:", type=("build", "run"), when="+report")
    depends_on("py-cvxpy@1.4:", type=("build", "run"), when="+fdla")
    depends_on("py-jax@0.4.35:", type=("build", "run"), when="+jax")
    depends_on("py-torch@2.4:", type=("build", "run"), when="+torch")

    # the extension is optional for pip, not here
    import_modules = ("mpi_gt", "mpi_gt.kernels._c")
