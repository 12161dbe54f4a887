// Backups from the compact table of a grid: of all pairs, kept as their maximum over actions, or of some.
//
//     Q(s, a) = r(s, a) + discount * value of the next state,
//
// where the value is interpolated from the 2^d corners of a cell, the last axis first. The table is read once, and
// memory sets the time. Where it can, a thread reads four neighbouring entries at once. Equal entries have equal values
// whichever thread works on them, so that the first of several maximisers is first.
//
// Compiled at run time with -DREAL=float|double for values, -DSTORED=float|double for the table, -DDIMENSIONS from 1 to
// 4, -DWIDE=1 where every array of the table can be read by words of four, -DTHREADS, the most of a block, and -DBYTES,
// the size of Table in Python.

typedef REAL Real;
typedef STORED Stored;

constexpr unsigned WHOLE_WARP = 0xffffffffu;
constexpr int WARP = 32;
constexpr int EACH = 4;
constexpr int NONE = 0x7fffffff;

struct Table {
    const int *base;
    const Stored *fraction;
    const Stored *reward;
    long long entries;
    int strides[4];
    int states;
    int actions;
};

static_assert(sizeof(Table) == BYTES, "the two sides lay out Table differently");

template <class Number>
struct alignas(16) Word {
    Number of[EACH];
};

template <class Number>
__device__ inline Word<Number> read_word(const Number *from) {
    return *(const Word<Number> *)from;
}

// The value at a place in a cell whose low corner is given, or in a face of it: axes before AXIS are settled.
template <int AXIS = 0>
__device__ inline Real interpolate(const Table &table, const Real *corner, const Real (&place)[DIMENSIONS]) {
    if constexpr (AXIS == DIMENSIONS) {
        return *corner;
    } else {
        const int stride = AXIS == DIMENSIONS - 1 ? 1 : table.strides[AXIS];
        const Real low = interpolate<AXIS + 1>(table, corner, place);
        const Real high = interpolate<AXIS + 1>(table, corner + stride, place);
        return low + place[AXIS] * (high - low);
    }
}

__device__ inline Real value_at(const Table &table, const Real *v, long long entry) {
    Real place[DIMENSIONS];
#pragma unroll
    for (int axis = 0; axis < DIMENSIONS; axis++) place[axis] = table.fraction[axis * table.entries + entry];
    return interpolate(table, v + table.base[entry], place);
}

__device__ inline Real back_up(const Table &table, const Real *v, Real discount, long long pair) {
    return table.reward[pair] + discount * value_at(table, v, pair);
}

struct Best {
    Real value;
    int action;
};

// Keeps the larger of two, and of equals the first action. NaN counts as the largest, so that it shows. The action NONE
// is no entry. There are no branches, which would keep reads from being made together.
__device__ inline void keep_larger(Best &best, Real value, int action) {
    const bool bad = value != value, was_bad = best.value != best.value;
    const bool above = (value > best.value) | (bad & !was_bad), equal = (value == best.value) | (bad & was_bad);
    const bool wins = (action != NONE) & ((best.action == NONE) | above | (equal & (action < best.action)));
    best.value = wins ? value : best.value, best.action = wins ? action : best.action;
}

// A thread's part of a row, by words. A row may begin and end anywhere in one.
__device__ inline Best best_of_words(
    const Table &table, const Real *v, Real discount, long long state, int own, int team) {
    Best best = {0, NONE};
    const long long row = state * table.actions;
    const int ahead = row % EACH;
    for (int at = EACH * own; at < ahead + table.actions; at += EACH * team) {
        const long long entry = row - ahead + at;
        const Word<int> base = read_word(table.base + entry);
        const Word<Stored> reward = read_word(table.reward + entry);
        Word<Stored> fraction[DIMENSIONS];
#pragma unroll
        for (int axis = 0; axis < DIMENSIONS; axis++)
            fraction[axis] = read_word(table.fraction + axis * table.entries + entry);
        Real values[EACH];
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            Real place[DIMENSIONS];
#pragma unroll
            for (int axis = 0; axis < DIMENSIONS; axis++) place[axis] = fraction[axis].of[k];
            values[k] = reward.of[k] + discount * interpolate(table, v + base.of[k], place);
        }
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const int action = at + k - ahead;
            keep_larger(best, values[k], unsigned(action) < unsigned(table.actions) ? action : NONE);
        }
    }
    return best;
}

// A thread's part of a row, pair by pair.
__device__ inline Best best_of_pairs(
    const Table &table, const Real *v, Real discount, long long state, int own, int team) {
    Best best = {0, NONE};
    for (int action = own; action < table.actions; action += team)
        keep_larger(best, back_up(table, v, discount, state * table.actions + action), action);
    return best;
}

// Maximum over actions (S,) and its first action (S,). A state has a team of 2^team_bits threads: up to a warp, and
// then a block has many teams, or a whole block. Four blocks at once leave a thread so many registers that in two
// dimensions the words of all arrays are under way before the first is needed.
extern "C" __global__ void __launch_bounds__(THREADS, 4) improve(
    const __grid_constant__ Table table, const Real *v, Real discount, int team_bits, Real *best_values,
    long long *best_actions) {
    __shared__ Best of_warps[THREADS / WARP];
    const int team = 1 << team_bits, own = threadIdx.x & (team - 1);
    const long long mine = (long long)blockIdx.x * (blockDim.x >> team_bits) + (threadIdx.x >> team_bits);
    const bool there = mine < table.states;
    const long long state = there ? mine : table.states - 1;
    Best best;
    if constexpr (WIDE)
        best = best_of_words(table, v, discount, state, own, team);
    else
        best = best_of_pairs(table, v, discount, state, own, team);
    for (int offset = (team < WARP ? team : WARP) / 2; offset; offset >>= 1) {
        const Real value = __shfl_xor_sync(WHOLE_WARP, best.value, offset);
        const int action = __shfl_xor_sync(WHOLE_WARP, best.action, offset);
        keep_larger(best, value, action);
    }
    if (team > WARP) {
        if (threadIdx.x % WARP == 0) of_warps[threadIdx.x / WARP] = best;
        __syncthreads();
        if (own == 0)
            for (int warp = 1; warp < team / WARP; warp++)
                keep_larger(best, of_warps[warp].value, of_warps[warp].action);
    }
    if (own == 0 && there) best_values[state] = best.value, best_actions[state] = best.action;
}

// Backups (count,) of listed pairs, or of the crossings of rows and columns: entry i * width + j is state i and action
// j of the lists. A list that is null has all of them. Where `paired`, width is 1 and entry i is state i and action i.
// A pair that is not there gets NaN.
extern "C" __global__ void __launch_bounds__(THREADS) backup(
    const __grid_constant__ Table table, const Real *v, Real discount, const long long *states,
    const long long *actions, unsigned width, int paired, unsigned count, Real *out) {
    const unsigned at = blockIdx.x * THREADS + threadIdx.x;
    if (at >= count) return;
    const unsigned row = at / width, column = paired ? row : at - row * width;
    const long long state = states ? states[row] : row, action = actions ? actions[column] : column;
    const bool known = state >= 0 && state < table.states && action >= 0 && action < table.actions;
    const Real value = back_up(table, v, discount, known ? state * table.actions + action : 0);
    out[at] = known ? value : Real(sqrt(-1.0));
}
