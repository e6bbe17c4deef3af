"""What the help of each command says, with examples that a test parses."""

RUN_HELP = """\
Run one algorithm on one problem, every node of the graph a process of its own.

examples:
  mpi-gt run -n 16                                      the paper's Huber problem
  mpi-gt run -n 16 --graph ring --seeds 5 --out out/a   five seeds, in one run
  mpi-gt run -n 16 --algorithm gt-adaptive:lr=0.005,beta1=0.5
  mpirun -n 16 mpi-gt run --iterations 20000            under a launcher of yours
  mpi-gt run experiment.toml --seeds 10                 options from a file; flags win
  mpi-gt run --stacked -n 16                            the same in one process, no MPI
  mpi-gt run -n 4 --algorithm my_module:MyMethod        a class of yours, from this folder
"""

COMPARE_HELP = """\
Run several algorithms on the same problem, graph and random draws, in one launch.

examples:
  mpi-gt compare -n 16 --algorithms gt-adaptive,gt,dsgd --seeds 5
  mpi-gt compare -n 16 --algorithms "gt-adaptive:lr=0.001,vmin=0.01,dsgd:lr=0.1"
  mpi-gt compare -n 16 --problem huber:spread=0.5       all of them
"""

GRAPH_HELP = """\
Describe a graph and its mixing matrix: degrees, diameter, rho_A and spectral gap.

examples:
  mpi-gt graph er:p=0.7 -n 16
  mpi-gt graph torus -n 64 --weights laplacian --plot
  mpi-gt graph edges.txt -n 10 --plot picture.png
  mpi-gt graph nx.circulant_graph:offsets=[1,3] -n 12
"""

SWEEP_HELP = """\
Run every method at every stepsize of a grid, in one launch: where is each at its best?

examples:
  mpi-gt sweep -n 16 --lr 1e-4..1 --algorithms gt-adaptive,gt,dsgd --seeds 3
  mpi-gt sweep -n 16 --lr 1e-3..1 --points 4 --problem softmax:dataset=a9a --iterations 1000
"""

REPRODUCE_HELP = """\
The paper's experiments with the paper's parameters: figure, table, and a verdict on each claim.
A call that was interrupted goes on where it stopped.

examples:
  mpi-gt reproduce huber --quick                    a look at it, in two minutes
  mpi-gt reproduce huber                            50 seeds, 20000 iterations, 7 methods
  mpi-gt reproduce huber --variant heterogeneous    where the claims hold
  mpi-gt reproduce mnist --variant label-sorted
  mpi-gt reproduce all --out results
"""

PROFILE_HELP = """\
Run one algorithm and say where the time went: gradient, update, packing, exchange (and how much
of it was waiting for the last neighbour), for every rank; the same as `run --profile`.

Writes profile.json, profile.npz (every rank, iteration and phase), profile.png, and trace.json, a
timeline with all messages: open it at https://ui.perfetto.dev

examples:
  mpi-gt profile -n 16
  mpi-gt profile -n 16 --exchange nonblocking --problem softmax:dataset=synthetic
  mpi-gt profile -n 16 --straggler node=3,ms=5            which node is it?
  mpi-gt profile -n 16 --iterations 5000 --trace-iterations 1000:1050
"""

BENCH_HELP = """\
Time the exchange alone: message size x graph x way of exchanging, on real ranks, with a fit of
latency and bandwidth, and the same collective called from C as the floor.

A sample is the mean of some exchanges in a row (about a millisecond of them), as the slowest
rank saw it. Contents are checked before and after.

examples:
  mpi-gt bench -n 16
  mpi-gt bench -n 16 --sizes 160,16kB,1.6MB --graphs ring,er:p=0.7,complete
  mpi-gt bench -n 4 --exchanges neighbor,persistent,pickle --seconds 2
  mpirun -n 64 mpi-gt bench --out bench-64            under a launcher of yours (no floor)
"""

SCALE_HELP = """\
The same experiment on more and more ranks, each count a profiled run: strong scaling (all nodes
together draw the same batch) and weak (each node does), for several graphs.

examples:
  mpi-gt scale --ranks 2,4,8,16
  mpi-gt scale --ranks 4,8,16 --graphs ring,exponential,complete --mode weak --problem huber
  mpi-gt scale --ranks 16,32,64 --problem softmax:dataset=mnist,batch=64 --iterations 500
"""

PREDICT_HELP = """\
The time of an iteration on a machine that is not at hand:
compute + latency + degree x (per message + bytes / bandwidth), for several graph families.

examples:
  mpi-gt predict --nodes 1024 --graph exponential --dim 1e6 --latency 2us --bandwidth 12GB/s
  mpi-gt predict --nodes 64 --bench runs/my-bench --profile runs/my-profile
  mpi-gt predict --bench runs/my-bench --check runs/my-profile     how far is the model off?
"""

RESUME_HELP = """\
Go on with a run that was stopped, killed or failed, from its last checkpoint; the numbers are those
of a run that was never interrupted. A finished run is extended by more iterations.

examples:
  mpi-gt resume runs/a
  mpi-gt resume runs/a --exchange p2p
  mpi-gt resume runs/a --iterations 40000
  mpirun -n 16 mpi-gt resume runs/a
"""

STATUS_HELP = """\
How runs are doing: status, iteration, gap, time left, last checkpoint.

examples:
  mpi-gt status runs/a
  mpi-gt status runs/*
"""

REPORT_HELP = """\
One page of whatever run directories hold, complete in itself: it opens from a file, needs no
network, and can be sent. Curves with switches, a table to sort, graphs, profiles, benches, claims.

examples:
  mpi-gt report runs/a
  mpi-gt report runs/a runs/b runs/my-bench -o report.html     several on one page
  mpi-gt report runs                                           all that are in there
"""

WATCH_HELP = """\
How a run is doing, live, from another terminal: iteration and time left, loss and gap with a
small curve, pace, last checkpoint. Reads only. Ctrl-C ends the view, not the run.

examples:
  mpi-gt watch runs/a
  mpi-gt watch runs/a --once                    print it and end
  ssh cluster mpi-gt watch work/runs/a --every 10
"""

DATA_HELP = """\
The datasets: which there are, fetching and preparing them, checking their files.

examples:
  mpi-gt data list
  mpi-gt data prepare mnist                     finds or downloads it, parses it once
  mpi-gt data verify a9a --data-dir /data       checks the raw files' sha256
"""

THEORY_HELP = """\
What the convergence theory says of a setting: constants, admissible stepsizes, bounds; as the
paper prints it, and corrected. Advice only: nothing refuses to run.

examples:
  mpi-gt theory -n 16 --problem huber --graph er:p=0.7 --algorithm gt-adaptive:lr=0.001
  mpi-gt theory --algorithm gt-adaptive:vmin=1,vmax=1 --suggest
  mpi-gt theory --problem my_module:MyProblem --L 2 --G 5 --sigma2 0.1 --f-star 0 --json
"""

HOSTFILE_HELP = """\
Write a list of hosts in the format of the MPI that is to read it.

examples:
  mpi-gt hostfile --nodes h1:4,h2:4 --mpi openmpi --out hosts
  mpi-gt run -n 8 --hostfile hosts                      the run that uses it
"""

SUBMIT_HELP = """\
Write the Slurm script of a command and submit it. What is wrong with the command is told now,
not after hours in the queue.

examples:
  mpi-gt submit --nodes 4 --ntasks-per-node 4 --time 01:00:00 -- run --graph ring --seeds 5
  mpi-gt submit --nodes 4 --ntasks-per-node 4 --time 01:00:00 --print -- run      only shows it
  mpi-gt submit --nodes 2 --ntasks-per-node 8 --time 04:00:00 --requeue -- run --iterations 100000
  mpi-gt submit --nodes 2 --ntasks-per-node 8 --time 02:00:00 --launcher pmix -- compare
"""

DOCTOR_HELP = """\
Look at the MPI, the launcher, the hosts and their cores; time an exchange between neighbours; say
in plain words what is wrong.

examples:
  mpi-gt doctor                        this machine
  mpi-gt doctor -n 16 --hostfile hosts
  mpirun -n 16 mpi-gt doctor           under a launcher of yours, srun as well

exit codes: 0 a run can start (there may be warnings), 2 it could not
"""

EPILOG = """\
SPEC is a name, or NAME:key=value,... to set its options. Names, options and defaults:
{registered}

A TOML file has the same names as the flags (problem = "huber:dim=20", log-every = 10).

exit codes: 0 finished, 2 bad input, 3 diverged (a value is no longer finite), 85 stopped on
request and 86 stuck (both to be taken up by `mpi-gt resume`), 1 anything else
"""
