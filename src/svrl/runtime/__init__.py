"""Files on disk, devices, kernels and signals."""
