// SI-RF for many small matrices: one block a matrix, the whole problem in shared memory.
//
// soft_impute_kernel.py explains the method and soft_impute_reference.py is its plain version. What differs here follows
// from the machine. Waiting, not arithmetic, is what costs: so all N/2 rotations of a round of the tournament are made at the
// same time, a warp each, and all N directions are followed whatever the rank. N - 1 rounds are a sweep; one sweep an
// outer iteration keeps the basis near the singular vectors, which move little from one to the next.
//
// Around it, scaling may be done as structured targets want it (svrl.matrix.scaling): a matrix minus its
// offset over its factor is what is estimated, and what is known of a row without an observed entry stays.
//
// Compiled at run time with -DREAL=float|double, -DN=columns, an even number up to 32, and -DROWS=rows of a lane, that is
// m / 32, rounded up. An odd matrix gets a column of observed zeros, which no rotation touches and which survives nowhere.

typedef REAL Real;
typedef unsigned int Bits;

constexpr Bits ALL = 0xffffffffu;
constexpr int STRIDE = N + 1;  // odd, so that lanes that read a column of rows hit different banks
constexpr int CLEAN_EVERY = 8;
constexpr int MOST_SWEEPS = 15;
constexpr bool SINGLE = sizeof(Real) == 4;
// A slow direction hides behind quick ones: the last step says less about the distance to go in matrices of few columns.
constexpr double STRICTER = N > 8 ? 2 : 16;
constexpr double FINEST = SINGLE ? 3e-6 : 0;  // changes below this are rounding
// Sums of squares are near 1 at most; below this they cannot matter, and their squares would underflow.
constexpr Real NOTHING = SINGLE ? 1e-30 : 1e-250;
constexpr Real PARALLEL = SINGLE ? 1e-7 : 1e-15;  // cosine that counts as orthogonal
constexpr Real TURNED = SINGLE ? 1e-4 : 1e-8;     // change of W above which a basis has not settled
constexpr Real LINKED = SINGLE ? 1e-3 : 1e-6;     // the same where the largest square is wanted: a share of the energy
constexpr Real SLACK = SINGLE ? 5e-7 : 1e-14;     // rounding of the bound, as a share of the energy
constexpr Real ROUGH = 0.03;                      // change of W above which no convergence is believed

__device__ inline Real root(float x) { return sqrtf(x); }
__device__ inline Real root(double x) { return sqrt(x); }
__device__ inline Real inverse_root(float x) { return rsqrtf(x); }
__device__ inline Real inverse_root(double x) { return rsqrt(x); }
// What is not a number wins from either side: lanes that disagreed about it would part ways before a barrier.
template <class Number>
__device__ inline Number largest_of(Number a, Number b) { return a > b || a != a ? a : b; }

__device__ inline Real warp_sum(Real x) {
    for (int offset = 16; offset; offset >>= 1) x += __shfl_xor_sync(ALL, x, offset);
    return x;
}

__device__ inline Real warp_max(Real x) {
    for (int offset = 16; offset; offset >>= 1) x = largest_of(x, __shfl_xor_sync(ALL, x, offset));
    return x;
}

// What a block works on; the pointers lie in shared memory.
struct Work {
    Real *filled;   // (m, STRIDE) the matrix, missing entries guessed
    Real *last;     // (m, STRIDE) missing entries before the last extrapolation
    Real *turned;   // (N, m) row k is F v_k
    Real *basis;    // (N, N) row k is v_k
    Real *loss;     // (N, N) I - W: what the shrinkage takes away; its small entries would drown in those of W
    Real *squares;  // (N) |F v_k|^2
    Real *lost;     // (N) the share of v_k that does not survive
    Real *sums;     // (3, 32) a number a warp
    Real *offset;   // (m) what scaling takes out of a row
    Bits *missing;  // (m) bit j: entry j of the row is missing
    Real factor;    // what scaling divides by, 1 for nothing
    int m, lane, warp, warps;
};

// The same sum for every thread. Two calls in a row need another barrier between them.
__device__ inline void block_sums(const Work &w, Real &a, Real &b, Real &c) {
    a = warp_sum(a), b = warp_sum(b), c = warp_sum(c);
    if (w.lane == 0) w.sums[w.warp] = a, w.sums[32 + w.warp] = b, w.sums[64 + w.warp] = c;
    __syncthreads();
    bool there = w.lane < w.warps;
    a = warp_sum(there ? w.sums[w.lane] : 0), b = warp_sum(there ? w.sums[32 + w.lane] : 0);
    c = warp_sum(there ? w.sums[64 + w.lane] : 0);
}

// turned = basis * filled'.
__device__ void turn(const Work &w) {
    for (int k = w.warp; k < N; k += w.warps)
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int i = w.lane + 32 * r;
            if (i >= w.m) continue;
            Real total = 0;
#pragma unroll
            for (int j = 0; j < N; j++) total += w.basis[k * N + j] * w.filled[i * STRIDE + j];
            w.turned[k * w.m + i] = total;
        }
    __syncthreads();
}

// The share of a direction of squared length `square` that is lost to the shrinkage `level`.
__device__ inline Real share_lost(Real square, Real level) {
    return square > level * level ? level * inverse_root(square) : 1;
}

// One sweep of one-sided Jacobi: every pair of directions meets once. Leaves the squares, and returns the largest
// change of W that a rotation made, at first order; without a shrinkage yet, `whole` is the energy, and the largest
// product of two directions is returned as a share of it. Waiting for memory, for other lanes and for roots is all that
// this costs, so both vectors stay in registers, and the basis is fetched before it is needed.
__device__ Real sweep(const Work &w, Real level, Real whole = 0) {
    Real worst = 0;
    for (int round = 0; round < N - 1; round++) {
        if (w.warp < N / 2) {
            int p = w.warp ? (round + w.warp) % (N - 1) : N - 1;
            int q = w.warp ? (round - w.warp + N - 1) % (N - 1) : round;
            Real *first = w.turned + p * w.m + w.lane, *second = w.turned + q * w.m + w.lane;
            Real x[ROWS], y[ROWS], a = 0, b = 0, off = 0;
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                bool inside = w.lane + 32 * r < w.m;
                x[r] = inside ? first[32 * r] : 0, y[r] = inside ? second[32 * r] : 0;
                a += x[r] * x[r], b += y[r] * y[r], off += x[r] * y[r];
            }
            int column = w.lane < N ? w.lane : 0;
            Real u = w.basis[p * N + column], v = w.basis[q * N + column];
            a = warp_sum(a), b = warp_sum(b), off = warp_sum(off);
            Real gap = b - a, square = gap * gap + 4 * off * off;
            if (square > NOTHING && off * off > PARALLEL * PARALLEL * a * b) {
                // The angle that makes the pair orthogonal, from its double: tan = 2 off / gap.
                Real width = gap < 0 ? -gap : gap, inverse = inverse_root(square);
                Real half = Real(0.5) + Real(0.5) * width * inverse, scale = inverse_root(half);
                Real cosine = half * scale, sine = (gap < 0 ? -off : off) * inverse * scale;
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    if (w.lane + 32 * r < w.m) {
                        first[32 * r] = cosine * x[r] - sine * y[r];
                        second[32 * r] = sine * x[r] + cosine * y[r];
                    }
                if (w.lane < N) {
                    w.basis[p * N + w.lane] = cosine * u - sine * v;
                    w.basis[q * N + w.lane] = sine * u + cosine * v;
                }
                Real shift = 2 * off * off / (square * inverse + width);
                shift = gap < 0 ? -shift : shift;
                a = largest_of(a - shift, Real(0)), b = largest_of(b + shift, Real(0));
                Real change = whole > 0 ? off / whole : (share_lost(a, level) - share_lost(b, level)) * off * inverse;
                worst = largest_of(worst, change < 0 ? -change : change);
            }
            if (w.lane == 0) w.squares[p] = a, w.squares[q] = b;
        }
        __syncthreads();
    }
    if (w.lane == 0) w.sums[w.warp] = worst;
    __syncthreads();
    worst = warp_max(w.lane < w.warps ? w.sums[w.lane] : 0);
    __syncthreads();
    return worst;
}

// Sweep until the basis are the right singular vectors.
__device__ void settle(const Work &w, Real level, Real whole = 0) {
    turn(w);
    for (int k = 0; k < MOST_SWEEPS; k++)
        if (!(sweep(w, level, whole) > (whole > 0 ? LINKED : TURNED))) break;
}

// One step of Newton and Schulz towards the nearest orthonormal basis: rounding wears it out.
__device__ void clean(const Work &w) {
    int threads = 32 * w.warps, thread = 32 * w.warp + w.lane;
    for (int e = thread; e < N * N; e += threads) {
        Real total = 0;
        for (int j = 0; j < N; j++) total += w.basis[e / N * N + j] * w.basis[e % N * N + j];
        w.loss[e] = total;
    }
    __syncthreads();
    Real fresh[2];  // m >= n, so there are at least N * N / 2 threads
#pragma unroll
    for (int k = 0; k < 2; k++) {
        int e = thread + k * threads;
        Real total = 0;
        if (e >= N * N) continue;
        for (int j = 0; j < N; j++) total += w.loss[e / N * N + j] * w.basis[j * N + e % N];
        fresh[k] = Real(1.5) * w.basis[e] - Real(0.5) * total;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 2; k++)
        if (thread + k * threads < N * N) w.basis[thread + k * threads] = fresh[k];
    __syncthreads();
}

// The bound phi and the energy, and what is lost of each direction; returns how many survive.
__device__ int survivors(const Work &w, Real level, Real &bound, Real &energy) {
    Real square = w.lane < N ? w.squares[w.lane] : 0, length = root(square);
    bool alive = length > level;
    bound = warp_sum(alive ? level * length - level * level / 2 : square / 2);
    energy = warp_sum(square);
    if (w.warp == 0 && w.lane < N) w.lost[w.lane] = alive ? level / length : 1;
    __syncthreads();
    return __popc(__ballot_sync(ALL, alive));
}

// I - W = V diag(lost) V'.
__device__ void freeze(const Work &w) {
    for (int e = 32 * w.warp + w.lane; e < N * N; e += 32 * w.warps) {
        Real total = 0;
#pragma unroll
        for (int k = 0; k < N; k++) total += w.lost[k] * w.basis[k * N + e / N] * w.basis[k * N + e % N];
        w.loss[e] = total;
    }
    __syncthreads();
}

// Gauss-Seidel on z (I - W) = 0 at each row's missing entries, a warp a row, a lane a column. Adds up the squared step,
// the squared size of the old entries, and the product whose sign shows whether the momentum points uphill.
__device__ void relax(const Work &w, Real &moved, Real &size, Real &uphill) {
    moved = size = uphill = 0;
    int column = w.lane < N ? w.lane : 0;
    Real own = w.loss[column * N + column];
    Real inverse = own > 0 ? -1 / own : 0;
    for (int i = w.warp; i < w.m; i += w.warps) {
        Bits missing = w.missing[i];
        if (!missing) continue;
        Real *row = w.filled + i * STRIDE;
        Real before = row[column], z = before, residual = 0;
#pragma unroll
        for (int k = 0; k < N; k++) residual += row[k] * w.loss[k * N + column];
        int passes = __popc(missing) > 1 ? 2 : 1;
        for (int pass = 0; pass < passes; pass++)
            for (Bits left = missing; left; left &= left - 1) {
                int j = __ffs(left) - 1;
                Real step = __shfl_sync(ALL, residual * inverse, j);
                if (w.lane == j) z += step;
                residual += w.loss[j * N + column] * step;
            }
        if (w.lane < N && (missing >> w.lane & 1)) {
            Real step = z - before;
            moved += step * step, size += before * before;
            uphill -= step * (z - w.last[i * STRIDE + w.lane]);
            row[w.lane] = z;
        }
    }
    block_sums(w, moved, size, uphill);
    __syncthreads();
}

// Missing entries: filled = filled + weight * (filled - last), and last = what filled was.
__device__ void extrapolate(const Work &w, Real weight) {
    for (int i = w.warp; i < w.m; i += w.warps)
        if (w.lane < N && (w.missing[i] >> w.lane & 1)) {
            Real now = w.filled[i * STRIDE + w.lane];
            w.filled[i * STRIDE + w.lane] = now + weight * (now - w.last[i * STRIDE + w.lane]);
            w.last[i * STRIDE + w.lane] = now;
        }
    __syncthreads();
}

__device__ void go_back(const Work &w) {
    for (int i = w.warp; i < w.m; i += w.warps)
        if (w.lane < N && (w.missing[i] >> w.lane & 1)) w.filled[i * STRIDE + w.lane] = w.last[i * STRIDE + w.lane];
    __syncthreads();
}

// Outer iterations until the missing entries settle; returns how many, and the last change and rank.
__device__ int iterate(const Work &w, Real level, double tolerance, int max_steps, double &change, int &rank) {
    Real theta = 1, lowest = 0, bound, energy, moved, size, uphill;
    double before = 0, enough = largest_of(tolerance / STRICTER, FINEST);
    enough = enough < tolerance ? enough : tolerance;
    for (int step = 1;; step++) {
        if (step % CLEAN_EVERY == 0) clean(w);
        turn(w);
        Real worst = sweep(w, level);
        rank = survivors(w, level, bound, energy);
        if (step > 1 && bound > lowest + SLACK * energy && theta > 1) {
            theta = 1;
            go_back(w);
            turn(w);
            worst = sweep(w, level);
            rank = survivors(w, level, bound, energy);
        }
        lowest = step == 1 || bound < lowest ? bound : lowest;
        freeze(w);
        relax(w, moved, size, uphill);
        bool finite = moved - moved == 0;
        change = moved == 0 ? 0 : size > 0 ? sqrt((double)moved / (double)size) : 1;
        // Steps that shrink by a factor r have r / (1 - r) of the last one still to go.
        double left = before > 0 && change > before / 2 ? change / largest_of(before / change - 1, 0.005) : change;
        if ((left < enough && !(worst > ROUGH)) || step == max_steps || !finite) return step;
        before = change;
        if (uphill > 0) theta = 1;
        Real following = Real(0.5) * (1 + root(1 + 4 * theta * theta));
        extrapolate(w, (theta - 1) / following);
        theta = following;
    }
}

enum Scaling { NONE, MINMAX, ROW };

__device__ inline bool is_number(Real x) { return x - x == 0; }

// Sets offsets and factor; says whether everything is finite, observed or not.
__device__ bool measure(Work &w, const Real *values, const unsigned char *mask, int n, int scaling) {
    Real low = values[0], high = values[0];
    bool good = true;
    for (int i = w.warp; i < w.m; i += w.warps) {
        bool inside = w.lane < n;
        Real entry = values[i * n + (inside ? w.lane : 0)], first = values[i * n];
        bool seen = inside && mask[i * n + w.lane];
        good = good && is_number(entry);
        low = entry < low ? entry : low, high = entry > high ? entry : high;
        // Relative to the first entry: the mean of large equal numbers would round.
        Real rest = warp_sum(seen ? entry - first : 0);
        int count = __popc(__ballot_sync(ALL, seen));
        if (w.lane == 0) w.offset[i] = scaling == ROW ? first + rest / (count ? count : 1) : 0;
    }
    good = !__syncthreads_or(!good);
    w.factor = 1;
    if (scaling == MINMAX) {
        low = -warp_max(-low), high = warp_max(high);
        if (w.lane == 0) w.sums[w.warp] = low, w.sums[32 + w.warp] = high;
        __syncthreads();
        bool there = w.lane < w.warps;
        low = -warp_max(there ? -w.sums[w.lane] : -low), high = warp_max(there ? w.sums[32 + w.lane] : high);
        w.factor = good ? (high - low) / 2 : root(Real(-1));  // one that is not finite leaves nothing to scale by
        for (int i = 32 * w.warp + w.lane; i < w.m; i += 32 * w.warps) w.offset[i] = low + w.factor;
        __syncthreads();
    }
    return good;
}

__device__ inline Real scaled(const Work &w, Real value, int row) {
    return (value - w.offset[row]) / (w.factor > 0 ? w.factor : 1);
}

// The largest observed magnitude: dividing by it keeps squares inside the range.
__device__ Real largest_entry(const Work &w, const Real *values, const unsigned char *mask, int n) {
    Real top = 0;
    for (int e = 32 * w.warp + w.lane; e < w.m * n; e += 32 * w.warps)
        if (mask[e]) {
            Real size = scaled(w, values[e], e / n);
            size = size < 0 ? -size : size;
            top = size > top || size != size ? size : top;
        }
    top = warp_max(top);
    if (w.lane == 0) w.sums[w.warp] = top;
    __syncthreads();
    top = warp_max(w.lane < w.warps ? w.sums[w.lane] : 0);
    __syncthreads();
    return top;
}

// Observed entries over the scale, zeros elsewhere, and the identity as basis.
__device__ void load(const Work &w, const Real *values, const unsigned char *mask, int n, Real scale) {
    for (int i = w.warp; i < w.m; i += w.warps) {
        bool inside = w.lane < n, seen = inside && mask[i * n + w.lane];
        if (w.lane < N) w.filled[i * STRIDE + w.lane] = seen ? scaled(w, values[i * n + w.lane], i) / scale : 0;
        Bits missing = __ballot_sync(ALL, inside && !seen);
        if (w.lane == 0) w.missing[i] = missing;
    }
    for (int e = 32 * w.warp + w.lane; e < N * N; e += 32 * w.warps) w.basis[e] = e / N == e % N;
    __syncthreads();
}

// Missing entries from `start`, or from their row's observed mean.
__device__ bool guess(const Work &w, const Real *start, int n, Real scale) {
    int absent = 0;
    for (int i = w.warp; i < w.m; i += w.warps) {
        Bits missing = w.missing[i];
        Real total = warp_sum(w.lane < N ? w.filled[i * STRIDE + w.lane] : 0);
        int seen = n - __popc(missing);
        absent |= missing != 0;
        if (w.lane < N && (missing >> w.lane & 1)) {
            Real first = start ? start[i * n + w.lane] / scale : seen ? total / seen : 0;
            w.filled[i * STRIDE + w.lane] = w.last[i * STRIDE + w.lane] = first;
        }
    }
    return __syncthreads_or(absent);
}

// What became of a matrix.
struct End {
    Real level;
    int steps, rank;
    double change;
};

// Solves the loaded matrix; afterwards filled holds the guess, and loss I - W if `exact`.
__device__ End solve(const Work &w, Real level, double ratio, const Real *start, int n, Real scale, double tolerance,
                     int max_steps, bool exact) {
    Real bound, energy;
    if (ratio > 0) {
        energy = bound = level = 0;
        for (int e = 32 * w.warp + w.lane; e < w.m * N; e += 32 * w.warps) {
            Real entry = w.filled[e / N * STRIDE + e % N];
            energy += entry * entry;
        }
        block_sums(w, energy, bound, level);
        settle(w, 0, energy);
        level = (Real)ratio * root(warp_max(w.lane < N ? w.squares[w.lane] : 0));
        __syncthreads();
    }
    bool absent = guess(w, start, n, scale);
    // A good guess is lost again if the first step freezes the wrong W.
    if (start || !(ratio > 0)) settle(w, level);
    End end = {level, 1, 0, 0};
    if (absent) end.steps = iterate(w, level, tolerance, max_steps, end.change, end.rank);
    if (exact || !absent) {
        settle(w, level);
        end.rank = survivors(w, level, bound, energy);
        freeze(w);
    }
    return end;
}

__device__ inline Real estimate_at(const Work &w, int i, int j) {
    Real total = w.filled[i * STRIDE + j];
#pragma unroll
    for (int k = 0; k < N; k++) total -= w.filled[i * STRIDE + k] * w.loss[k * N + j];
    return total;
}

// One block a matrix. Without `estimates` the results are the minimisers, or with `fill` the observed entries and the
// missing ones of the minimiser. With `estimates` those are the minimisers, scaled back, and the results what
// structured targets make of them: entries that are observed (with `fill`), of rows that are not observed at all, or
// of matrices that are not finite, are as they were.
extern "C" __global__ void __launch_bounds__(512, 2) soft_impute(
    const Real *all_values, const unsigned char *all_masks, const Real *all_starts, Real *all_results,
    Real *all_estimates, double *shrinkages, double *changes, long long *steps, long long *ranks, long long *codes,
    int m, int n, int scaling, double ratio, double tolerance, int max_steps, int fill,
    int converged, int out_of_steps, int not_finite) {
    extern __shared__ double memory[];
    Work w;
    w.m = m, w.lane = threadIdx.x & 31, w.warp = threadIdx.x >> 5, w.warps = blockDim.x >> 5;
    w.filled = (Real *)memory;
    w.last = w.filled + m * STRIDE;
    w.turned = w.last + m * STRIDE;
    w.basis = w.turned + N * m;
    w.loss = w.basis + N * N;
    w.squares = w.loss + N * N;
    w.lost = w.squares + N;
    w.sums = w.lost + N;
    w.offset = w.sums + 96;
    w.missing = (Bits *)(w.offset + m);

    long long block = blockIdx.x, first = block * m * n;
    const Real *values = all_values + first, *start = all_starts ? all_starts + first : 0;
    const unsigned char *mask = all_masks + first;
    Real *result = all_results + first, *estimates = all_estimates ? all_estimates + first : 0;

    bool good = measure(w, values, mask, n, scaling);
    Real scale = largest_entry(w, values, mask, n);
    End end = {0, 0, 0, 0};
    load(w, values, mask, n, scale != 0 ? scale : 1);
    if (scale != 0) {
        Real level = ratio > 0 ? 0 : (Real)(shrinkages[block] / scale);
        end = solve(w, level, ratio, start, n, scale, tolerance, max_steps, estimates || !fill);
    }
    bool sound = true;
    for (int e = threadIdx.x; e < m * n; e += blockDim.x) {
        int i = e / n, j = e % n;
        if (!estimates && fill) {
            result[e] = mask[e] ? values[e] : scale != 0 ? scale * w.filled[i * STRIDE + j] : 0;
            continue;
        }
        Real found = scale != 0 ? scale * estimate_at(w, i, j) : 0;
        if (scaling == MINMAX) found = found > 1 ? 1 : found < -1 ? -1 : found;
        found = found * w.factor + w.offset[i];
        (estimates ? estimates : result)[e] = found;
        sound = sound && is_number(found);
    }
    if (estimates) {
        sound = !__syncthreads_or(!sound);
        Bits all = n == 32 ? ALL : (1u << n) - 1;
        for (int e = threadIdx.x; e < m * n; e += blockDim.x) {
            bool known = sound && w.missing[e / n] != all;
            result[e] = known && !(fill && mask[e]) ? estimates[e] : values[e];
        }
    }
    if (threadIdx.x == 0) {
        if (ratio > 0) shrinkages[block] = scale != 0 ? (double)end.level * (double)scale : 1;
        changes[block] = end.change, steps[block] = end.steps, ranks[block] = end.rank;
        bool counted = end.change - end.change == 0 && (good || !estimates);
        codes[block] = !counted ? not_finite : end.change < tolerance ? converged : out_of_steps;
    }
}
