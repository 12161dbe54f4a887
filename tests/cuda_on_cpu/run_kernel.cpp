// One kernel as a shared library for ctypes. compile.py writes kernel.cu and names the function in it by -DKERNEL.

#include "cuda_shim.h"
#include "kernel.cu"

extern "C" const char *launch(unsigned blocks, unsigned threads, size_t shared, void **arguments, size_t given,
                              int backwards) {
    return GPU::launch(KERNEL, blocks, threads, shared, arguments, given, backwards != 0);
}
