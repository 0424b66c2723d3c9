"""The engine on accelerators, `JAX()`: GPUs, TPUs, or a CPU for tests. Only this folder imports JAX."""
