"""Cases by hand: options that contradict each other, odd ways to call, and real ranks."""

from collections.abc import Iterator

from campaign.case import COMMAND, MPIRUN, Case
from campaign.files import Damage
from campaign.values import LONG, near_misses

from mpi_gt.cli.commands import COMMANDS

RUN = "run --stacked -n 4 --iterations 5"
JOB = "submit --hosts 1 --ranks-per-host 2 --time 01:00:00 --print"
MACHINE = "--latency 2us --bandwidth 12GB/s"
LINES = f"""
run
run -n 4 --stacked --hostfile file
run --stacked
run --iterations 5
{RUN} --resume
{RUN} --resume --overwrite --out new
{RUN} --profile
{RUN} --straggler node=0,ms=5
{RUN} --channel links=0.1 --algorithm extra
{RUN} --channel noise=0.1 --algorithm beer
{RUN} --channel loss=0..0.3
{RUN} --trace-iterations 1:5
{RUN} --audit --algorithm dsgd
{RUN} --audit --resume --out new
{RUN} --audit --algorithm gt-adaptive:schedule=sqrt
{RUN} --algorithm lead:compress=sign
{RUN} --algorithm lead:compress=top
{RUN} --algorithm beer:gamma=1.5
{RUN} --algorithm beer:bits=16
{RUN} --algorithm choco-sgd:compress=top,k=11
{RUN} --algorithms gt,dsgd
{RUN} --lr 0.1
{RUN} --points 3
{RUN} --graph hypercube -n 6
{RUN} --graph er:p=1 --weights fdlaa
{RUN} --out folder --iterations 5
{RUN} --problem softmax:data=a.npz,libsvm=b
{RUN} --problem softmax:dataset=mnist,data=a.npz
{RUN} --problem softmax:data=missing.npz,features=3
{RUN} --problem softmax:rows=3
{RUN} --problem softmax:dataset=mnist,rows=5 --data-dir missing
{RUN} --problem softmax:dataset=mnist,batch=0 --data-dir missing
{RUN} --graph random-regular:d=1e12 -n 2
{RUN} --graph random-regular:d=0 -n 2
{RUN} --reproducible --weights laplacian
{RUN} --reproducible --weights fdla
{RUN} --reproducible=yes
{RUN} --problem huber:phi=diagonal,data=missing.npz
{RUN} --problem huber:noise=1000,truncate=0.001
{RUN} --problem huber:noise=1e200
{RUN} --problem huber:dim=1e7 --seeds 1000000
run -n 2 --watchdog 1 --straggler node=0,ms=5000
run -n 2 --straggler node=2,ms=5
profile -n 2 --stacked
profile -n 2 --resume --out new
profile -n 2 --iterations 1e8
profile
compare --stacked -n 4 --algorithms gt,gt
compare --stacked -n 4 --algorithm gt
compare --stacked -n 4 --lr 0.1
compare --stacked -n 4 --audit
compare
compare --stacked -n 4 --algorithms gt,lead --channel inactive=0.1
sweep --stacked -n 4 --channel loss=0..0.3 --over channel.loss=0.1
sweep --stacked -n 4 --channel burst=5 --over channel.noise=0.1
sweep --stacked -n 4 --lr 0.1 --points 3
sweep --stacked -n 4 --lr 1..0.1
sweep --stacked -n 4 --algorithms gt:lr=0.1
sweep --stacked -n 4 --lr 1e-4..1 --points 1
sweep --stacked -n 4 --lr 1e-4..1 --points 1001
sweep --stacked -n 4 --lr 1e-300..1e300
sweep
resume folder
resume run run
resume run --iterations 10
resume run -n 5
resume run --stacked
resume run --seeds 3
resume run --hostfile file --iterations 60
resume run --problem huber
reproduce
reproduce huber --variant label-sorted
reproduce mnist --variant heterogeneous
reproduce all --variant nothing
reproduce huber --algorithms nothing
reproduce huber --algorithm gt
reproduce huber --resume
reproduce huber --hostfile file
reproduce huber --lr 0.1
reproduce huber --stacked -n 4 --straggler node=0,ms=5
reproduce huber a9a
status
watch
watch run run
watch run --once --every 0
report
report folder
report missing folder
report run -o folder
graph
graph ring
graph -n 4
graph ring -n 0
graph ring -n 1000001
graph complete -n 20001
graph ring -n 5000 --weights laplacian
graph digraph -n 8 --weights metropolis
graph digraph -n 8 --matchings
graph ring -n 8 --hosts 2x3
graph ring -n 100001 --hosts 1x100001
run -n 2 --stacked --place graph
graph ring+star -n 8 --matchings
graph ring -n 8 --weights metropolis --matchings all
graph one-peer-hypercube -n 6
graph ring path -n 4
graph ring -n 4 --weights missing.npy
graph ring -n 4 --weights metropolis:a=1
graph ring -n 4 --weights ring
graph hypercube -n 12
graph file -n 4
graph folder -n 4
graph ring -n 4 --plot a.nothing
data
data list mnist
data prepare
data verify
data verify mnist --data-dir folder
data prepare mnist a9a
data remove mnist
theory --algorithm gt
theory --algorithm gt-adaptive:schedule=sqrt
theory --algorithms gt-adaptive
theory --L nan
theory --f-star inf
theory --f-star nan
theory --stacked
theory -n 0
theory --problem softmax:dataset=nothing
bench
bench -n 2 --sizes 8
bench -n 2 --stacked
bench -n 2 --out folder
bench -n 2 --exchanges auto
bench -n 2 --graphs er:p=2
bench -n 2 --hostfile file
bench -n 2 --sizes 160 --compress top:k=11
bench -n 2 --compress sign sign
scale --mode strong --problem huber
scale --mode sideways
scale -n 0
scale -n 2 --graphs hypercube,nothing
scale -n 3 --graphs hypercube
scale -n 2 --stacked
scale -n 2 --profile
scale -n 2 --out folder
scale -n 2 --algorithms gt,dsgd
predict
predict -n 4
predict -n 4 --latency 2us
predict -n 4 --bandwidth 1GB/s
predict {MACHINE}
predict {MACHINE} -n 4 --compute 1ms --profile profile
predict {MACHINE} -n 4 --dim 1e9
predict {MACHINE} -n 4 --dim 1e8 --seeds 1e6
predict {MACHINE} -n 100000 --graphs complete --compute 1ms
predict {MACHINE} -n 3 --graphs hypercube --compute 1ms
predict {MACHINE} --check missing
predict {MACHINE} --check missing --compress sign
predict {MACHINE} -n 4 --compute 1ms --compress top:k=11
predict --check profile
predict {MACHINE} --check
predict {MACHINE} -n 4 --dtype float16 --compute 1ms
hostfile
hostfile --hosts h1:4
hostfile --mpi openmpi
hostfile --hosts h1:4 --mpi mvapich
hostfile --hosts h1:4 --mpi openmpi --out folder
submit
submit -- run
{JOB}
{JOB} run
{JOB} --
{JOB} -- runn
{JOB} -- graph ring -n 4
{JOB} -- run -n 3
{JOB} -- run --seeds 0
{JOB} -- run --hostfile file
{JOB} -- run --graph nothing
{JOB} -- run missing.toml
{JOB} -- submit -- run
{JOB} -- resume missing
{JOB} -- reproduce nothing
{JOB} -- compare --algorithms nothing
{JOB} --requeue -- bench
{JOB} --launcher slurm -- run
{JOB} --sbatch mem=4G -- run
doctor extra
doctor --hostfile file
doctor -n 0
doctor -n -1
doctor -n 10000000
doctor -n x
doctor -n 2 --hostfile missing
describe nothing
describe algorithm nothing
describe algorithm gt gt
describe graph nx.nothing
describe exchange auto2
describe weights file
describe problem no_module:Class
describe algorithm no_module:Class
manual nothing
manual running extra
manual ../manual/running
"""
"""One command per line that cannot work; `run`, `profile` and `folder` are there already."""
WITHOUT_NAME = (
    "",
    " ",
    "-",
    "--",
    "-x",
    "--verison",
    "--help=1",
    "--version=2",
    "é",
    "a\nb",
    "a\0b",
)
ON_RANKS = f"""
run --iteratons 5
run --iterations 0
run --graph nothing
run --graph missing.txt
run --x1 missing.npy
run --weights missing.npy
run --algorithm gtt
run --problem nothing:x=1
run --problem softmax:data=missing.npz
run -n 3
run --stacked
run --hostfile file
run --out file
run --algorithm method_step_raise:Own
run --algorithm method_init_exit:Own
run --algorithm imports_import_exit:Own
run --problem problem_constructor_raise:Own
run --problem problem_constructor_exit:Own
run --problem problem_dim_6:Own
compare --algorithms gt,gt
profile --trace-iterations 5:1
resume missing
resume folder
reproduce nothing
scale -n 4
bench --sizes 7
bench --graphs hypercubes
graph ring
runn
{JOB}
describe nothing
"""
"""Commands that cannot work on two ranks."""


def _needs(words: list[str]) -> tuple[str | Damage, ...]:
    """Return the files that the words name."""
    found: list[str | Damage] = [Damage(name) for name in ("run", "profile") if name in words[1:]]
    found += [name for name in ("file", "full/file") if name in words]
    if "folder" in words:
        found += ["folder"]
    found += [
        f"{word.partition(':')[0]}.py"
        for word in words
        if word.endswith(":Own") and not word.startswith("no_")
    ]
    return tuple(found)


def cases() -> Iterator[Case]:
    """Yield the cases by hand."""
    for line in filter(None, LINES.splitlines()):
        words = line.split()
        if words[:1] == ["submit"] and "run" in words:
            yield Case("contradiction", tuple(words), ())
        else:
            yield Case("contradiction", tuple(words), _needs(words))
    for command in COMMANDS:
        for miss in near_misses(command, COMMANDS)[:4]:
            yield Case("command", (miss,))
    for word in WITHOUT_NAME:
        yield Case("command", (word,))
    yield Case("command", ())
    yield Case("command", (LONG,))
    for line in filter(None, ON_RANKS.splitlines()):
        words = line.split()
        yield Case("ranks", tuple(words), _needs(words), how=MPIRUN)
        if words[0] in ("run", "compare", "profile", "bench") and not {"-n", "--stacked"} & set(
            words
        ):
            yield Case("ranks", (*words, "-n", "2"), _needs(words), how=COMMAND)
