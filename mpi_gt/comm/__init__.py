"""A node and its neighbours."""

EXCHANGE_NAMES = (
    "neighbor",
    "persistent",
    "nonblocking",
    "p2p",
    "persistent-p2p",
    "rma",
    "allgather",
    "pickle",
)
