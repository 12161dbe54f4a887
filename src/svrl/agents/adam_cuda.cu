// Adam with clamped gradients for all parameters of a network in one launch, four neighbours a thread:
//
//     g  = gradient, moved into [-clamp, clamp]; as it is if clamp is 0
//     m <- b1 m + (1 - b1) g
//     v <- b2 v + (1 - b2) g^2
//     parameter <- parameter - rate / (1 - b1^t) * m / (sqrt(v / (1 - b2^t)) + epsilon)
//
// Every element is read and written once, so memory sets the time. Tensors are walked in the order of their memory,
// which must be the same for the four arrays of a slot. Roots and divisions are asked for by name, because the quick
// ones that the compiler is told to use would cost accuracy and save nothing.
//
// Compiled at run time with -DTHREADS, -DMOST (a power of two) and -DBYTES, the size of Tensors over in Python.

constexpr int EACH = 4;

struct Slot {
    float *parameter;
    const float *gradient;
    float *mean;
    float *square;
    float *step;
    long long size;
    unsigned first_block;
    unsigned blocks;
};

struct Tensors {
    Slot slots[MOST];
    unsigned count;
};

static_assert(sizeof(Tensors) == BYTES, "the two sides lay out Tensors differently");

// Integer powers by squaring: shorter than pow, and right to count * 2^-53.
__device__ inline double power(double base, unsigned count) {
    double result = 1;
    for (; count; count >>= 1, base *= base)
        if (count & 1) result *= base;
    return result;
}

__device__ inline void load(float (&to)[EACH], const float *from, int there, bool wide) {
    if (wide) {
        float4 all = *(const float4 *)from;
        to[0] = all.x, to[1] = all.y, to[2] = all.z, to[3] = all.w;
        return;
    }
#pragma unroll
    for (int k = 0; k < EACH; k++) to[k] = k < there ? from[k] : 0;
}

__device__ inline void store(float *to, const float (&from)[EACH], int there, bool wide) {
    if (wide) {
        float4 all = {from[0], from[1], from[2], from[3]};
        *(float4 *)to = all;
        return;
    }
#pragma unroll
    for (int k = 0; k < EACH; k++)
        if (k < there) to[k] = from[k];
}

__device__ inline int slot_of(const Tensors &tensors, unsigned block) {
    unsigned own = 0;
    for (unsigned jump = MOST / 2; jump; jump >>= 1)
        if (own + jump < tensors.count && tensors.slots[own + jump].first_block <= block) own += jump;
    return own;
}

__device__ inline bool all_aligned(const Slot &slot) {
    unsigned long long bits = (unsigned long long)slot.parameter | (unsigned long long)slot.gradient |
                              (unsigned long long)slot.mean | (unsigned long long)slot.square;
    return (bits & 15) == 0;
}

// tickets: a zero for each slot, and zero again when the launch is over. rate_there: the rate, or null for `rate`.
extern "C" __global__ void __launch_bounds__(THREADS) clamped_adam(
    const __grid_constant__ Tensors tensors, unsigned *tickets, const float *rate_there, double rate,
    float beta1, float beta2, float epsilon, float clamp) {
    __shared__ float scale, inverse_root;
    int own = slot_of(tensors, blockIdx.x);
    const Slot &slot = tensors.slots[own];
    long long at = (long long)(blockIdx.x - slot.first_block) * (THREADS * EACH) + threadIdx.x * EACH;
    long long left = slot.size - at;
    int there = left < 0 ? 0 : left < EACH ? (int)left : EACH;
    bool wide = there == EACH && all_aligned(slot);
    float p[EACH], g[EACH], m[EACH], v[EACH];
    load(p, slot.parameter + at, there, wide);
    load(g, slot.gradient + at, there, wide);
    load(m, slot.mean + at, there, wide);
    load(v, slot.square + at, there, wide);

    // While the loads are under way. The corrections belong to the rounded b1 and b2, which the moments decay by.
    float count = 0;
    if (threadIdx.x == 0 || threadIdx.x == 32) {
        count = *(volatile const float *)slot.step + 1;
        if (threadIdx.x == 0)
            scale = (float)((rate_there ? (double)*rate_there : rate) / (1 - power(beta1, (unsigned)count)));
        else
            inverse_root = (float)(1 / sqrt(1 - power(beta2, (unsigned)count)));
    }
    __syncthreads();

#pragma unroll
    for (int k = 0; k < EACH; k++) {
        float x = g[k];
        if (clamp > 0) x = x > clamp ? clamp : x < -clamp ? -clamp : x;  // unlike fminf, this keeps NaN
        float xx = x * x;
        m[k] = __fmaf_rn(beta1, m[k], __fmaf_rn(-beta1, x, x));
        v[k] = __fmaf_rn(beta2, v[k], __fmaf_rn(-beta2, xx, xx));
        p[k] -= __fdiv_rn(scale * m[k], __fmaf_rn(__fsqrt_rn(v[k]), inverse_root, epsilon));
    }
    store(slot.parameter + at, p, there, wide);
    store(slot.mean + at, m, there, wide);
    store(slot.square + at, v, there, wide);

    // The block that draws the last ticket of its tensor advances the step: all others have read it by then.
    if (threadIdx.x == 0) {
        __threadfence();
        if (atomicInc(tickets + own, slot.blocks - 1) == slot.blocks - 1) *slot.step = count;
    }
}
