"""Batch scripts for PBS and Flux, which `mpi-gt submit` prints for qsub and `flux batch`."""

from .job import ALL, NONE, Job, duration


def pbs_script(job: Job) -> str:
    """Return the script of a job for PBS Pro and OpenPBS, started by mpirun."""
    chunks = zip(job.hosts, job.ranks_per_host, strict=True)
    select = "+".join(f"{hosts}:ncpus={ranks}:mpiprocs={ranks}" for hosts, ranks in chunks)
    options = ["-N mpi-gt", f"-l select={select}", f"-l walltime={duration(job.seconds)}", "-j oe"]
    options += [f"-J {job.array}"] if job.array else []
    named = [each for each in job.export if each not in (ALL, NONE)]
    options += ["-V"] if ALL in job.export or not job.export else []
    options += [f"-v {','.join(named)}"] if named else []
    head = "".join(f"#PBS {option}\n" for option in [*options, *job.options])
    hosts = "" if job.stacked else ' --hostfile="$PBS_NODEFILE"'
    name = "${PBS_JOBID%%[*}-$PBS_ARRAY_INDEX" if job.array else "${PBS_JOBID%%.*}"
    line = job.command(f"runs/{name}", task="$PBS_ARRAY_INDEX") + hosts
    return f'#!/bin/bash\n{head}\ncd "$PBS_O_WORKDIR" || exit\n{job.prelude}{line}\n'


def flux_script(job: Job, pmi: str | None) -> str:
    """Return the script of a job for `flux batch`, whose ranks `flux run` starts.

    `pmi` is the kind of PMI that the MPI library needs, if not Flux's own.
    """
    hosts, ranks = sum(job.hosts), job.n
    options = [f"--nodes={hosts}", f"--nslots={ranks}", f"--time-limit={job.seconds}s"]
    options += ["--job-name=mpi-gt", "--output=mpi-gt-{{id}}.log"]
    options += ["--env=-*"] if job.export and ALL not in job.export else []
    options += [f"--env={each}" for each in job.export if each not in (ALL, NONE)]
    head = "".join(f"#flux: {option}\n" for option in [*options, *job.options])
    plugin = f" -o pmi={pmi}" if pmi else ""
    start = f"flux run --nodes={hosts} --ntasks={ranks}{plugin} "
    line = ("" if job.stacked else start) + job.command("runs/$(flux getattr jobid)")
    return f"#!/bin/bash\n{head}\n{job.prelude}{line}\n"
