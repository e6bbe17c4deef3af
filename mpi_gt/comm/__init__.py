"""Communication: one node with its neighbours, and all ranks with root."""

# Not made from exchange.EXCHANGES: the command line needs the names without importing MPI.
EXCHANGE_NAMES = (
    "neighbor",
    "persistent",
    "nonblocking",
    "p2p",
    "persistent-p2p",
    "rma",
    "allgather",
    "pickle",
    "shared",
)
