// The two draws of the Gibbs sampler. Compiled once per instruction-set level (PSGLD_ISA names it).
//
// Multinomial: the shares w_k h_k / mu become integers that add up to nearly 2^31, so that their running sums
// c_k are exact and never fall. A draw is a random integer x below c_K; it belongs to the first k with x <
// c_k. Counting the draws below each c_k, for all k at once, and taking differences gives s_k. A share is off
// by 2^-31 at most.
//
// Gamma: Marsaglia and Tsang (2000), the components of a row side by side.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "gibbs/gibbs.hpp"
#include "random/binomial.hpp"
#include "random/normals.hpp"
#include "random/philox.hpp"
#include "simd/lanes.hpp"

namespace psgld::PSGLD_ISA {

namespace {

constexpr int L = kLanes<int32_t>;
constexpr int kDrawBatch = 2 * L;  // draws that are made together

enum class Purpose : uint64_t { allocate = 0, gamma = 1, boost = 2 };

// The last word of the counter says what the randomness is for; the sweep has the 60 bits below.
uint64_t moment(const GibbsNoise& noise, Purpose purpose) {
  return noise.sweep | (static_cast<uint64_t>(purpose) << 2 | noise.factor) << 60;
}

VecU lane_numbers() {
  VecU out;
  for (int l = 0; l < L; ++l) out[l] = l;
  return out;
}

// The random words of a row, made as they are needed.
class RowWords {
 public:
  RowWords(const GibbsNoise& noise, int64_t expected)
      : keys_(noise.key), row_(noise.row), moment_(moment(noise, Purpose::allocate)), expected_(expected) {}

  // Up to `wish` words, at least one: how many, and where they are. They may be read kDrawBatch beyond the
  // last.
  int take(int64_t wish, const uint32_t*& words) {
    if (at_ == end_) refill();
    const int n = static_cast<int>(std::min<int64_t>(wish, end_ - at_));
    words = buffer_ + at_;
    at_ += n;
    return n;
  }

  double operator()() {  // uniform in (0, 1)
    const uint32_t *a, *b;
    take(1, a);
    const double high = *a;
    take(1, b);
    return (high + (*b + 0.5) * 0x1p-32) * 0x1p-32;
  }

 private:
  static constexpr int kGroup = 4 * L, kMost = 8 * kGroup;

  void refill() {
    const int groups = static_cast<int>(std::clamp<int64_t>((expected_ + kGroup - 1) / kGroup, 1, 8));
    for (int g = 0; g < groups; ++g, block_ += L) {
      VecU words[4];
      philox(splat(row_), lane_numbers() + block_, moment_, keys_, words);
      for (int q = 0; q < 4; ++q) store(buffer_ + g * kGroup + q * L, words[q]);
    }
    at_ = 0;
    end_ = groups * kGroup;
    expected_ -= end_;
  }

  const RoundKeys keys_;
  const uint32_t row_;
  const uint64_t moment_;
  int64_t expected_;
  uint32_t block_ = 0;
  int at_ = 0, end_ = 0;
  alignas(64) uint32_t buffer_[kMost + kDrawBatch];
};

// Lanes i of (a, b) laid end to end, from lane L - shift of a.
template <int shift, int... I>
inline VecI slide(VecI a, VecI b, std::integer_sequence<int, I...>) {
  return shuffle(a, b, std::integer_sequence<int, (L - shift + I)...>{});
}
template <int shift>
inline VecI slide(VecI a, VecI b) {
  return slide<shift>(a, b, std::make_integer_sequence<int, L>{});
}

inline VecI running_sum(VecI v) {
  v += slide<1>(VecI{}, v);
  v += slide<2>(VecI{}, v);
  if constexpr (L > 4) v += slide<4>(VecI{}, v);
  if constexpr (L > 8) v += slide<8>(VecI{}, v);
  return v;
}

// word * below / 2^32, rounded down: uniform below `below`.
inline VecI scaled(VecU word, int32_t below) {
  const VecU64 w = (VecU64)word;
  return (VecI)((mul32(w, below) >> 32) | (mul32(w >> 32, below) & 0xffffffff00000000u));
}

template <class T>
inline VecI to_int(const T* x, T scale) {
  if constexpr (sizeof(T) == 4) {
    return __builtin_convertvector(load(x) * scale, VecI);
  } else {
    typedef int32_t Half __attribute__((vector_size(kVectorBytes / 2)));
    const Half a = __builtin_convertvector(load(x) * scale, Half),
               b = __builtin_convertvector(load(x + kLanes<T>) * scale, Half);
    VecI out;
    std::memcpy(&out, &a, sizeof a);
    std::memcpy(reinterpret_cast<char*>(&out) + sizeof a, &b, sizeof b);
    return out;
  }
}

constexpr int kTogether = 4;  // vectors of running sums that are held in registers

// N vectors of running sums against n numbers: adds to the counts. Four numbers at a time: what is read
// beyond the last must be no less than any sum.
template <int N>
inline void count_vectors(const int32_t* sums, const int32_t* x, int n, int32_t* counts) {
  VecI c[N], m[N];
  for (int v = 0; v < N; ++v) c[v] = load(sums + v * L), m[v] = load(counts + v * L);
  for (int q = 0; q < n; q += 4)
#pragma GCC unroll 4
    for (int r = q; r < q + 4; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < N; ++v) m[v] = count_below(m[v], splat(x[r]), c[v]);
  for (int v = 0; v < N; ++v) store(counts + v * L, m[v]);
}

inline void count_all(const int32_t* sums, int vectors, const int32_t* x, int n, int32_t* counts) {
  int v = 0;
  for (; v + kTogether <= vectors; v += kTogether)
    count_vectors<kTogether>(sums + v * L, x, n, counts + v * L);
  sums += v * L, counts += v * L;
  switch (vectors - v) {
    case 3:
      return count_vectors<3>(sums, x, n, counts);
    case 2:
      return count_vectors<2>(sums, x, n, counts);
    case 1:
      return count_vectors<1>(sums, x, n, counts);
  }
}

// Many counts: component by component, each a binomial of what is left.
template <class T>
void allocate_by_binomials(const T* share, int components, int32_t count, RowWords& words, int32_t* sums,
                           int32_t* inner_sums) {
  double left[kMostComponents + 1];
  left[components] = 0;
  for (int k = components; k-- > 0;) left[k] = left[k + 1] + share[k];
  for (int k = 0; k < components && count > 0; ++k) {
    const double p = left[k + 1] > 0 ? share[k] / left[k] : 1;
    const int32_t n = binomial(count, p, words);
    sums[k] += n;
    inner_sums[k] += n;
    count -= n;
  }
}

// Vectors > 0: as many as the row has, known to the compiler, which then keeps all in registers.
template <class T, int Vectors>
void allocate_row(const T* w, const T* inner, int components, int stride, const RowCounts& row,
                  RowWords& words, const CountSums& sums_of) {
  const auto [index, count, n] = row;
  const auto [row_sums, inner_sums] = sums_of;
  constexpr int LT = kLanes<T>, Room = Vectors ? Vectors * L : kMostComponents;
  const int vectors = Vectors ? Vectors : stride / L;
  alignas(64) T share[Room];
  alignas(64) int32_t sums[Room], counts[Room], x[kDrawBatch];
  for (int64_t e = 0; e < n; ++e) {
    const T* h = inner + static_cast<int64_t>(index[e]) * stride;
    int32_t* h_sums = inner_sums + static_cast<int64_t>(index[e]) * stride;
    Vec<T> s{};
    for (int k = 0; k < vectors * L; k += LT) {
      const Vec<T> product = load(w + k) * load(h + k);
      store(share + k, product);
      s += product;
    }
    const T mu = hsum<T>(s);
    if (!(mu >= std::numeric_limits<T>::min())) {  // all underflown: nothing tells the components apart
      for (int k = 0; k < components; ++k) share[k] = 1;
      allocate_by_binomials(share, components, count[e], words, row_sums, h_sums);
      continue;
    }
    if (count[e] > kBinomialsFrom * components) {
      allocate_by_binomials(share, components, count[e], words, row_sums, h_sums);
      continue;
    }
    // (The sum in T may be off by some units in the last place, and the integers stay below 2^31.)
    const T scale = T(2147475456.0) / mu;  // 2^31 - 2^13
    VecI carry{};
    for (int v = 0; v < vectors; ++v) {
      const VecI c = running_sum(to_int(share + v * L, scale)) + carry;
      store(sums + v * L, c);
      store(counts + v * L, VecI{});
      carry = splat(c[L - 1]);
    }
    const int32_t all = carry[0];
    for (int32_t left = count[e]; left > 0;) {
      const uint32_t* word;
      const int m = words.take(std::min<int32_t>(left, kDrawBatch), word);
      for (int q = 0; q < kDrawBatch; q += L) {
        const VecI below = scaled(load_unaligned(word + q), all);
        store(x + q, (VecI)lane_numbers() < m - q ? below : VecI{} + std::numeric_limits<int32_t>::max());
      }
      asm volatile("" : : "r"(x) : "memory");  // to be read number by number: shuffles are what runs out
      if constexpr (Vectors > 0 && Vectors <= kTogether) {
        count_vectors<Vectors>(sums, x, m, counts);
      } else {
        count_all(sums, vectors, x, m, counts);
      }
      left -= m;
    }
    VecI before{};
    for (int v = 0; v < vectors; ++v) {
      const VecI c = load(counts + v * L), own = c - slide<1>(before, c);
      store(row_sums + v * L, load(row_sums + v * L) + own);
      store(h_sums + v * L, load(h_sums + v * L) + own);
      before = c;
    }
  }
}

template <class T>
void allocate(const T* w, const T* inner, int components, int stride, const RowCounts& row,
              const GibbsNoise& noise, const CountSums& sums) {
  int64_t expected = 0;
  for (int64_t e = 0; e < row.n; ++e) expected += row.count[e];
  RowWords words(noise, expected);
  auto run = [&]<int Vectors>() { allocate_row<T, Vectors>(w, inner, components, stride, row, words, sums); };
  if constexpr (sizeof(T) == sizeof(float))  // doubles share one, so that there is less to compile
    switch (stride / L) {
      case 1:
        return run.template operator()<1>();
      case 2:
        return run.template operator()<2>();
      case 3:
        return run.template operator()<3>();
      case 4:
        return run.template operator()<4>();
    }
  run.template operator()<0>();
}

// log(1 + y) - y + y^2/2 - y^3/3, y > -1: near 0 its series, since the terms cancel.
inline VecF log_remainder(VecF y) {
  VecF p = splat(1.0f / 13);
  for (int n = 12; n >= 4; --n) p = (n % 2 ? splat(1.0f / n) : splat(-1.0f / n)) + p * y;
  const VecF y2 = y * y, series = p * (y2 * y2);
  const VecF direct = vlog(vmax(1.0f + y, splat(1e-30f))) - y + y2 * 0.5f - y2 * y * (1.0f / 3);
  return vabs(y) < 0.25f ? series : direct;
}

inline VecF uniform(VecU word) {  // in (0, 1]
  return to_float((VecI)(word >> 1)) * (1.0f / 2147483648.0f) + (0.5f / 2147483648.0f);
}

// A normal z that d (1 + z / (3 sqrt d))^3 is Gamma(d + 1/3) of, d >= 2/3: accepted if log u < 3 d
// log_remainder(y), y = z / (3 sqrt d), which is Marsaglia and Tsang's test without its cancellation.
// Lanes are the components from k on.
inline VecF gamma_normal(VecF d, uint32_t k, uint64_t moment, const RoundKeys& keys, uint32_t row) {
  const VecF c = vrsqrt<float>(d) * (1.0f / 3);
  VecF accepted{};
  VecI open = VecI{} - 1;
  for (uint32_t trial = 0; trial < 1024; ++trial) {
    VecU words[4];
    philox(splat(row), (lane_numbers() + k) | trial << 20, moment, keys, words);
    VecF z[2];
    box_muller(words[0], words[1], z[0], z[1]);
    for (int q = 0; q < 2; ++q) {
      const VecF y = z[q] * c;
      const VecI good = (VecI)(y > -1.0f) & (VecI)(vlog(uniform(words[2 + q])) < 3.0f * d * log_remainder(y));
      accepted = (good & open) ? z[q] : accepted;
      open &= ~good;
    }
    if (!any_lane(open)) break;
  }
  return accepted;
}

template <class T>
void gammas(const int32_t* sums, double shape, const double* rate, int components, const GibbsNoise& noise,
            T* x) {
  const RoundKeys keys(noise.key);
  const uint64_t gamma = moment(noise, Purpose::gamma);
  const bool boost = shape < 1;  // Gamma(a) = Gamma(a + 1) U^(1/a)
  for (int k = 0; k < components; k += L) {
    const int n = std::min(L, components - k);
    const VecF a = static_cast<float>(shape) + to_float(load(sums + k));
    alignas(64) float z[L];
    alignas(64) T drawn[L];
    store(z, gamma_normal((a < 1.0f ? a + 1.0f : a) - 1.0f / 3, k, gamma, keys, noise.row));
    for (int l = 0; l < L; ++l) {
      const T own = static_cast<T>(shape) + static_cast<T>(sums[k + l]);
      const T d = (own < 1 ? own + 1 : own) - T(1) / 3, y = 1 + z[l] / (3 * std::sqrt(d));
      drawn[l] = d / static_cast<T>(rate[k + l]) * (y * y * y);
    }
    for (int l = 0; l < n; ++l) x[k + l] = std::max(drawn[l], std::numeric_limits<T>::min());
    if (boost) {
      VecU words[4];
      philox(splat(noise.row), lane_numbers() + k, moment(noise, Purpose::boost), keys, words);
      for (int l = 0; l < n; ++l)
        if (const double a = shape + sums[k + l]; a < 1) {
          const double u = (words[0][l] + 0.5) * 0x1p-32;
          x[k + l] = std::max(static_cast<T>(x[k + l] * std::pow(u, 1 / a)), std::numeric_limits<T>::min());
        }
    }
  }
}

// sum += the rows of x at the indices, times their weights, N vectors of doubles wide.
template <class T, int N>
void add_block(const T* x, int components, const int32_t* index, const double* weight, int64_t n,
               double* sum) {
  constexpr int LD = kLanes<double>;
  typedef T Part __attribute__((vector_size(LD * sizeof(T))));
  Vec<double> total[N];
  for (int v = 0; v < N; ++v) total[v] = load_unaligned(sum + v * LD);
  for (int64_t p = 0; p < n; ++p) {
    const T* row = x + static_cast<int64_t>(index[p]) * components;
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) {
      Part part;
      std::memcpy(&part, row + v * LD, sizeof part);
      Vec<double> term = __builtin_convertvector(part, Vec<double>);
      if (weight) term *= weight[p];
      total[v] += term;
    }
  }
  for (int v = 0; v < N; ++v) std::memcpy(sum + v * LD, &total[v], sizeof total[v]);
}

template <class T>
void add_rows(const T* x, int components, const int32_t* index, const double* weight, int64_t n,
              double* sum) {
  constexpr int LD = kLanes<double>;
  int k = 0;
  for (; k + 4 * LD <= components; k += 4 * LD) add_block<T, 4>(x + k, components, index, weight, n, sum + k);
  for (; k + LD <= components; k += LD) add_block<T, 1>(x + k, components, index, weight, n, sum + k);
  if (k == components) return;
  for (int64_t p = 0; p < n; ++p)
    for (int q = k; q < components; ++q) {
      const double term = x[static_cast<int64_t>(index[p]) * components + q];
      sum[q] += weight ? weight[p] * term : term;
    }
}

}  // namespace

template <class T>
const GibbsKernels<T>& gibbs_kernels() {
  static const GibbsKernels<T> kernels{allocate<T>, gammas<T>, add_rows<T>};
  return kernels;
}
template const GibbsKernels<float>& gibbs_kernels<float>();
template const GibbsKernels<double>& gibbs_kernels<double>();

}  // namespace psgld::PSGLD_ISA
