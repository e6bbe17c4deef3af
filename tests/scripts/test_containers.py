"""The images, the conda recipe and the Spack package: sound, and with pyproject's dependencies."""

import os
import re
import runpy
import subprocess
import sys
import types

import pytest
from support import ROOT_OF_REPOSITORY

import mpi_gt

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = ROOT_OF_REPOSITORY / "scripts" / "containers"
CONDA = {"matplotlib": "matplotlib-base", "torch": "pytorch"}
"""The names that conda-forge gives to packages of PyPI."""
RUNTIMES = ("openmpi", "mpich", "test", "dev")
"""Extras that no package needs: its MPI is that of mpi4py."""
CHECK = runpy.run_path(str(FOLDER / "check.py"))


def project():
    return tomllib.loads((ROOT_OF_REPOSITORY / "pyproject.toml").read_text())


def required(texts):
    """Return the least versions by name, of requirements as in pyproject.toml."""
    found = {}
    for text in texts:
        match = re.fullmatch(r"([\w.-]+) ?>=([\d.]+)(?:; python_version < '3\.11')?", text)
        assert match, text
        found[match[1]] = match[2]
    return found


def extras():
    listed = project()["project"]["optional-dependencies"]
    return {name: required(texts) for name, texts in listed.items() if name not in RUNTIMES}


def test_the_images_have_no_mistakes():
    done = subprocess.run(
        [sys.executable, FOLDER / "check.py"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("Containerfile", "COPY mpi_gt ", "COPY mpi_gtt ", "there is no mpi_gtt in the checkout"),
        ("Containerfile", "ARG MPI=openmpi\n", "", "RUN uses MPI, which no ARG defines"),
        ("Containerfile", "WORKDIR /work", "WORKDIRR /work", "unknown instruction WORKDIRR"),
        ("Containerfile", "ARG BASE=", "RUN true\nARG BASE=", "must be FROM"),
        ("Containerfile", "/opt/src/install /opt/src", "true /opt/src", "no RUN calls install"),
        ("Containerfile", " LICENSE", "", "only one of the two copies LICENSE"),
        ("mpi-gt.def", "    LICENSE ", "    LICENCE ", "there is no LICENCE in the checkout"),
        ("mpi-gt.def", "%post", "%psot", "unknown section %psot"),
        ("mpi-gt.def", "    MPI=openmpi\n", "", "MPI is not among the %arguments"),
        ("mpi-gt.def", "Bootstrap: docker\n", "", "the header is"),
        ("mpi-gt.def", "/opt/src/mpi_gt", "/opt/mpi_gt", "which install does not look at"),
        ("install", "esac", "", "install: "),
    ],
)
def test_a_mistake_in_an_image_is_found(name, old, new, told, tmp_path):
    for file in ("Containerfile", "mpi-gt.def", "install"):
        text = (FOLDER / file).read_text()
        if file == name:
            assert old in text
            text = text.replace(old, new, 1)
        (tmp_path / file).write_text(text)
    assert told in "\n".join(CHECK["mistakes"](tmp_path, ROOT_OF_REPOSITORY))


def test_the_images_are_built_and_run_where_there_is_a_builder():
    """It needs the base image; $MPI_GT_BASE_IMAGE names another one, of this machine.

    Elsewhere the test above, which reads the files, is all that can be done.
    """
    base = os.environ.get("MPI_GT_BASE_IMAGE")
    default = re.search(r"ARG BASE=(\S+)", (FOLDER / "Containerfile").read_text())[1]
    for builder in CHECK["builders"]():
        if base is None and builder != "apptainer":
            pulled = subprocess.run([builder, "pull", default], capture_output=True, check=False)
            if pulled.returncode:
                continue
        conf = "/etc/pip.conf" if os.path.exists("/etc/pip.conf") else None  # noqa: PTH110
        CHECK["build"](builder, base, conf)


def test_the_images_copy_all_that_the_package_is_built_from():
    sources, _ = CHECK["copied"](
        (FOLDER / "Containerfile").read_text(), (FOLDER / "mpi-gt.def").read_text()
    )
    listed = project()["project"]
    assert {"pyproject.toml", "mpi_gt", listed["readme"], *listed["license-files"]} <= sources


def recipe():
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((FOLDER / "conda" / "recipe.yaml").read_text())


def test_the_conda_recipe_has_the_dependencies_of_the_project():
    content, listed = recipe(), project()
    assert content["context"]["version"] == mpi_gt.__version__
    assert content["about"]["license"] == listed["project"]["license"]
    needs = content["requirements"]
    plain = [each for each in needs["run"] if isinstance(each, str)]
    (conditional,) = (each for each in needs["run"] if isinstance(each, dict))
    assert conditional["if"] == 'match(python, "<3.11")'
    run = required([*plain, conditional["then"]])
    assert run.pop("python") == listed["project"]["requires-python"].removeprefix(">=")
    assert run == required(listed["project"]["dependencies"])
    host = required([each for each in needs["host"] if each not in ("python", "pip")])
    assert host == required(listed["build-system"]["requires"])
    optional = {k: v for each in extras().values() for k, v in each.items()}
    named = {CONDA.get(name, name): version for name, version in optional.items()}
    assert required(needs["run_constraints"]) == named
    assert (FOLDER / "conda" / content["source"]["path"]).resolve() == ROOT_OF_REPOSITORY


def test_the_conda_recipe_is_built_for_all_pythons_of_the_project():
    yaml = pytest.importorskip("yaml")
    variants = yaml.safe_load((FOLDER / "conda" / "variants.yaml").read_text())
    built = [each.split(".*")[0] for each in variants["python"]]
    marked = re.findall(r":: (3\.\d+)", "\n".join(project()["project"]["classifiers"]))
    assert built == marked
    wheels = (ROOT_OF_REPOSITORY / "scripts" / "wheels").read_text()
    assert f"all=({' '.join(marked)})" in wheels


def test_rattler_build_renders_the_conda_recipe():
    rattler = pytest.importorskip("rattler_build", reason="needs the extra dev")
    stage = rattler.Stage0Recipe.from_file(str(FOLDER / "conda" / "recipe.yaml"))
    config = rattler.VariantConfig.from_file(str(FOLDER / "conda" / "variants.yaml"))
    rendered = {each.variant["python"]: each.recipe for each in stage.render(config)}
    tomli = {python: "tomli" in str(each.requirements.run) for python, each in rendered.items()}
    assert len(tomli) == 4
    assert [version for version, has in tomli.items() if has] == ["3.10.* *_cpython"]


@pytest.fixture
def spack(monkeypatch):
    """A stand-in for Spack that notes what a package file declares."""
    declared = {"depends_on": [], "variant": [], "version": [], "license": []}
    package = types.ModuleType("spack.package")
    for name, calls in declared.items():
        note = lambda *words, calls=calls, **options: calls.append((*words, options))  # noqa: E731
        setattr(package, name, note)
    build = types.ModuleType("spack_repo.builtin.build_systems.python")
    build.PythonPackage = type("PythonPackage", (), {})
    names = ("spack", "spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems")
    for name in names:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "spack.package", package)
    monkeypatch.setitem(sys.modules, build.__name__, build)
    return declared


def test_the_spack_package_has_the_dependencies_of_the_project(spack):
    (path,) = FOLDER.rglob("package.py")
    assert path.parent.name == "py_mpi_gt"
    content = runpy.run_path(str(path))
    assert content["PyMpiGt"].__mro__[1].__name__ == "PythonPackage"
    listed = project()
    assert [words[0] for words in spack["version"]] == [mpi_gt.__version__]
    assert spack["license"] == [(listed["project"]["license"], {})]

    def wanted(match):
        """Return least versions, of the dependencies whose type and condition match."""
        specs = [spec for spec, options in spack["depends_on"] if match(options)]
        pairs = [re.fullmatch(r"(?:py-)?([\w-]+)@([\d.]+):", spec) for spec in specs if spec != "c"]
        return {pair[1]: pair[2] for pair in pairs}

    run = wanted(lambda options: "run" in options["type"] and options.get("when", "^")[0] != "+")
    assert run.pop("python") == listed["project"]["requires-python"].removeprefix(">=")
    assert run == required(listed["project"]["dependencies"])
    (tomli,) = (o for spec, o in spack["depends_on"] if spec.startswith("py-tomli"))
    assert tomli["when"] == "^python@:3.10"
    assert wanted(lambda options: options["type"] == "build") == required(
        listed["build-system"]["requires"]
    )
    by_variant = {
        name: wanted(lambda options, name=name: options.get("when") == f"+{name}")
        for name, _ in spack["variant"]
    }
    assert by_variant == extras()
    assert ("c", {"type": "build"}) in spack["depends_on"]  # else the kernels are not compiled
