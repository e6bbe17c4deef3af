"""A node and its neighbours."""

EXCHANGES = (
    "neighbor",
    "persistent",
    "nonblocking",
    "p2p",
    "persistent-p2p",
    "rma",
    "allgather",
    "pickle",
)
