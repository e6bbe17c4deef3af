#!/bin/bash
# One run on all ranks of a PBS Pro job. Its list of hosts, one line per rank, works with both MPIs.
#
#   qsub scripts/batch/pbs.sh
#
# Adapt the #PBS lines (size and time; add a queue as your cluster wants it), the lines that set up
# your environment, and the options of the run. The hosts must reach one another by ssh, unless your
# MPI was built for PBS.
#PBS -N mpi-gt
#PBS -l select=4:ncpus=4:mpiprocs=4
#PBS -l walltime=01:00:00
#PBS -j oe

cd "$PBS_O_WORKDIR" || exit
# module load openmpi                          # the MPI of your cluster
PATH=${MPI_GT_BIN:+$MPI_GT_BIN:}$PATH          # MPI_GT_BIN: the folder of mpi-gt, if not in PATH

mpi-gt run -n "$(grep -c . "$PBS_NODEFILE")" --hostfile "$PBS_NODEFILE" \
    --out "runs/${PBS_JOBID%%.*}" \
    --problem huber --graph er:p=0.7 --iterations 20000 --seeds 5 "$@"
