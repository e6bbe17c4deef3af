"""Models of the user's as problems: functions of JAX, modules of PyTorch."""
