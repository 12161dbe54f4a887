// What a CUDA kernel takes from the GPU, for a C++ compiler: a launch runs on the CPU, one block after the other, with
// a fiber for each thread of a block.
//
// It stands in for threadIdx, blockIdx and blockDim, shared memory, barriers, shuffles and ballots of whole warps,
// atomicInc, and arithmetic that is asked for by name. A launch takes its arguments as cuLaunchKernel does. It ends
// with a sentence about what was wrong where threads wait for others that never come, where lanes of a warp meet in
// different calls, where shared memory is written beyond what was asked for, and where the arguments are too few or
// too many. Shared memory begins as NaN, so that what is read before it is written shows.
//
// A fiber gives way only where it has to wait, and then to its own warp first. So a warp runs as far ahead of the rest
// as barriers allow; launched backwards, the rest run ahead of it. Where a barrier is missing the two mostly differ,
// but no other interleaving is tried, and blocks never run at the same time.
//
// It cannot show: other races, memory of the wrong space, order of memory between blocks, bank conflicts, limits on
// registers and shared memory, and the quick divisions and roots of --use_fast_math, which are exact here.

#include <setjmp.h>
#include <ucontext.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#define __device__
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
// All fibers are one thread of the system, so what belongs to that is shared by a block. Unlike `static`, it can
// follow `extern`.
#define __shared__ thread_local
// Macros, because newer C libraries declare functions of these names.
#define rsqrtf(x) (1.0f / sqrtf(x))
#define rsqrt(x) (1.0 / sqrt(x))

struct alignas(16) float4 {
    float x, y, z, w;
};

static struct {
    unsigned x;
} threadIdx, blockIdx, blockDim;

constexpr size_t MOST_SHARED = 228 << 10;  // bytes, as on the largest GPUs
thread_local double memory[MOST_SHARED / sizeof(double)];

namespace GPU {

constexpr unsigned WARP = 32;
constexpr unsigned WHOLE_WARP = 0xffffffffu;
constexpr size_t STACK = 64 << 10;
constexpr unsigned char UNWRITTEN = 0xff;  // NaN, in float and in double

enum class State { READY, AT_WARP, AT_BARRIER, DONE };
enum class Call { NONE, SHUFFLE, BALLOT };

struct Thread {
    State state;
    bool begun;
    ucontext_t beginning;
    jmp_buf place;  // swapcontext would do, but it calls the kernel of the system each time
};

// A meeting of all lanes or all threads. What they bring is kept twice: the quick may be at the next meeting before the
// slow have read what came of this one.
struct Warp {
    Call call;
    unsigned arrived, meetings;
    double brought[2][WARP];  // holds float, double, int and bool exactly
};

struct Barrier {
    unsigned arrived, meetings;
    bool any[2];
};

static std::vector<Thread> threads;
static std::vector<Warp> warps;
static Barrier barrier;
static jmp_buf home;
static void (*body)();  // the kernel, with its arguments
static void **arguments;
static const char *fault;
static bool runs_backwards;

[[noreturn]] static void give_up(const char *sentence) {
    fault = sentence;
    _longjmp(home, 1);
}

[[noreturn]] static void resume(unsigned index) {
    Thread &thread = threads[index];
    threadIdx.x = index;
    if (thread.begun) _longjmp(thread.place, 1);
    thread.begun = true;
    setcontext(&thread.beginning);
    __builtin_unreachable();
}

// Runs the next thread that can run: of this warp, or else of the first warp that has one.
[[noreturn]] static void resume_another() {
    unsigned own = threadIdx.x / WARP * WARP, count = threads.size();
    for (unsigned k = 0; k < WARP + count; k++) {
        unsigned index = k < WARP ? k : k - WARP, last = k < WARP ? WARP - 1 : count - 1;
        if (runs_backwards) index = last - index;
        if (k < WARP) index += own;
        if (threads[index].state == State::READY) resume(index);
    }
    for (const Thread &thread : threads)
        if (thread.state != State::DONE) give_up("Threads wait for others that have ended or wait elsewhere.");
    _longjmp(home, 1);
}

static void __attribute__((noinline)) wait(State state) {
    Thread &own = threads[threadIdx.x];
    own.state = state;
    if (!_setjmp(own.place)) resume_another();
}

// What each lane of the warp brings to this call.
static const double *meet_warp(Call call, unsigned mask, double brought) {
    Warp &warp = warps[threadIdx.x / WARP];
    if (mask != WHOLE_WARP) give_up("Only calls of whole warps are stood in for.");
    if (warp.arrived && warp.call != call) give_up("Lanes of a warp meet in different calls.");
    const unsigned which = warp.meetings % 2, first = threadIdx.x / WARP * WARP;
    warp.call = call;
    warp.brought[which][threadIdx.x % WARP] = brought;
    if (++warp.arrived < WARP) {
        wait(State::AT_WARP);
        return warp.brought[which];
    }
    warp.arrived = 0, warp.meetings++;
    for (unsigned lane = 0; lane < WARP; lane++) threads[first + lane].state = State::READY;
    return warp.brought[which];
}

static bool meet_block(bool brought) {
    const unsigned which = barrier.meetings % 2;
    barrier.any[which] |= brought;
    if (++barrier.arrived < threads.size()) {
        wait(State::AT_BARRIER);
        return barrier.any[which];
    }
    barrier.arrived = 0, barrier.meetings++;
    barrier.any[barrier.meetings % 2] = false;
    for (Thread &thread : threads) thread.state = State::READY;
    return barrier.any[which];
}

static void run_thread() {
    body();
    threads[threadIdx.x].state = State::DONE;
    resume_another();
}

static void run_block(unsigned count, std::vector<char> &stacks) {
    threads.assign(count, Thread());
    warps.assign(count / WARP, Warp());
    barrier = Barrier();
    for (unsigned index = 0; index < count; index++) {
        ucontext_t &beginning = threads[index].beginning;
        getcontext(&beginning);
        beginning.uc_stack.ss_sp = &stacks[index * STACK];
        beginning.uc_stack.ss_size = STACK;
        makecontext(&beginning, run_thread, 0);
    }
    if (!_setjmp(home)) resume(runs_backwards ? count - 1 : 0);
}

static bool unwritten_from(size_t bytes) {
    const unsigned char *all = (const unsigned char *)memory;
    for (size_t at = bytes; at < MOST_SHARED; at++)
        if (all[at] != UNWRITTEN) return false;
    return true;
}

template <class... Kinds, size_t... At>
static void call(void (*kernel)(Kinds...), std::index_sequence<At...>) {
    kernel(*(Kinds *)arguments[At]...);
}

// Says what was wrong, or nothing.
template <class... Kinds>
static const char *launch(void (*kernel)(Kinds...), unsigned blocks, unsigned count, size_t shared, void **handed,
                          size_t given, bool backwards) {
    static void (*one)(Kinds...);
    if (given != sizeof...(Kinds)) return "The kernel takes another number of arguments.";
    if (count % WARP || !count) return "Threads must make whole warps.";
    if (shared > MOST_SHARED) return "No GPU has that much shared memory.";
    std::vector<char> stacks(count * STACK);
    one = kernel, arguments = handed;
    body = [] { call(one, std::index_sequence_for<Kinds...>()); };
    fault = nullptr, runs_backwards = backwards, blockDim.x = count;
    for (unsigned k = 0; k < blocks && !fault; k++) {
        blockIdx.x = backwards ? blocks - 1 - k : k;
        memset(memory, UNWRITTEN, MOST_SHARED);
        run_block(count, stacks);
        if (!fault && !unwritten_from(shared)) fault = "Shared memory is written beyond what was asked for.";
    }
    return fault;
}

}  // namespace GPU

template <class Number>
static Number __shfl_xor_sync(unsigned mask, Number brought, unsigned offset) {
    return (Number)GPU::meet_warp(GPU::Call::SHUFFLE, mask, brought)[threadIdx.x % GPU::WARP ^ offset];
}

template <class Number>
static Number __shfl_sync(unsigned mask, Number brought, unsigned lane) {
    return (Number)GPU::meet_warp(GPU::Call::SHUFFLE, mask, brought)[lane % GPU::WARP];
}

static unsigned __ballot_sync(unsigned mask, bool brought) {
    const double *all = GPU::meet_warp(GPU::Call::BALLOT, mask, brought);
    unsigned bits = 0;
    for (unsigned lane = 0; lane < GPU::WARP; lane++) bits |= (unsigned)(all[lane] != 0) << lane;
    return bits;
}

static int __syncthreads_or(int brought) { return GPU::meet_block(brought != 0); }
static void __syncthreads() { GPU::meet_block(false); }
static void __threadfence() {}

static unsigned atomicInc(unsigned *at, unsigned top) {
    unsigned old = *at;
    *at = old >= top ? 0 : old + 1;
    return old;
}

static int __popc(unsigned bits) { return __builtin_popcount(bits); }
static int __ffs(unsigned bits) { return __builtin_ffs((int)bits); }
static float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static float __fdiv_rn(float a, float b) { return a / b; }
static float __fsqrt_rn(float a) { return sqrtf(a); }
