// Vectors of the width of the instruction set this file is compiled for, and the few functions we need on
// them. Written with the vector extensions of GCC and Clang; intrinsics only where the compiler cannot find
// the instruction.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace psgld::PSGLD_ISA {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif
// x86 from before 2013: kernels are compiled for it, but few.
#if defined(__SSE2__) && !defined(__AVX2__)
constexpr bool kOldProcessor = true;
#else
constexpr bool kOldProcessor = false;
#endif

// may_alias: rows of plain arrays are read as vectors.
template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(kVectorBytes), may_alias));
};
template <class T>
using Vec = typename VectorOf<T>::type;
template <class T>
constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

using VecF = Vec<float>;
using VecI = Vec<int32_t>;
using VecU = Vec<uint32_t>;
using VecU64 = Vec<uint64_t>;

template <class T>
inline Vec<T> splat(T x) {
  return x - Vec<T>{};  // x - 0 is x, also for -0: a bare broadcast
}
template <class T>
inline Vec<T> load(const T* p) {  // aligned to the vector
  return *reinterpret_cast<const Vec<T>*>(p);
}
template <class T>
inline void store(T* p, Vec<T> v) {
  *reinterpret_cast<Vec<T>*>(p) = v;
}
template <class T>
inline Vec<T> load_unaligned(const T* p) {
  Vec<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class T>
inline void store_unaligned(T* p, Vec<T> v) {
  std::memcpy(p, &v, sizeof v);
}

// Past the caches: of what nobody reads soon. Not ordered with other writes before end_stream().
template <class T>
inline void stream(T* p, Vec<T> v) {  // aligned to the vector
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(p), (__m512i)v);
#elif defined(__AVX2__)
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), (__m256i)v);
#elif defined(__SSE2__)
  _mm_stream_si128(reinterpret_cast<__m128i*>(p), (__m128i)v);
#else
  store(p, v);
#endif
}

// The part of a vector that a row has beyond its whole vectors: its first lanes, some fours; the others are
// 0.
template <class T>
class Tail {
 public:
  static constexpr bool kNever = kLanes<T> <= 4;
#if defined(__AVX512F__)
  explicit Tail(int lanes) : mask_(static_cast<__mmask16>((1u << lanes) - 1)) {}
  Vec<T> load(const T* p) const {
    if constexpr (sizeof(T) == 4) return (Vec<T>)_mm512_maskz_loadu_ps(mask_, p);
    if constexpr (sizeof(T) == 8) return (Vec<T>)_mm512_maskz_loadu_pd(static_cast<__mmask8>(mask_), p);
  }
  void store(T* p, Vec<T> v) const {
    if constexpr (sizeof(T) == 4) _mm512_mask_storeu_ps(p, mask_, (__m512)v);
    if constexpr (sizeof(T) == 8) _mm512_mask_storeu_pd(p, static_cast<__mmask8>(mask_), (__m512d)v);
  }

 private:
  __mmask16 mask_;
#else
  explicit Tail(int) {}
  Vec<T> load(const T* p) const {
    Vec<T> v{};
    std::memcpy(&v, p, sizeof(T) * 4);
    return v;
  }
  void store(T* p, Vec<T> v) const { std::memcpy(p, &v, sizeof(T) * 4); }
#endif
};

// Lanes chosen at compile time from the pair (a, b), numbered 0..L-1 and L..2L-1.
template <int... Index, class V>
inline V shuffle(V a, V b, std::integer_sequence<int, Index...>) {
#if defined(__clang__)
  return __builtin_shufflevector(a, b, Index...);
#else
  using Lane = std::conditional_t<sizeof(a[0]) == 4, int32_t, int64_t>;
  return __builtin_shuffle(a, b, Vec<Lane>{Index...});
#endif
}

// Lanes chosen at run time from one vector.
inline VecU permute(VecU v, VecI index) {
#if defined(__clang__)
  VecU out;
  for (int l = 0; l < kLanes<uint32_t>; ++l) out[l] = v[index[l]];
  return out;
#else
  return __builtin_shuffle(v, index);
#endif
}

inline VecF to_float(VecI v) { return __builtin_convertvector(v, VecF); }

// The larger; a NaN in a gives b.
inline VecF vmax(VecF a, VecF b) {
#if defined(__AVX512F__)
  return (VecF)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (VecF)_mm256_max_ps((__m256)a, (__m256)b);
#else
  return a > b ? a : b;
#endif
}
inline Vec<double> vmax(Vec<double> a, Vec<double> b) { return a > b ? a : b; }

// The smaller; a NaN in a gives b.
inline VecF vmin(VecF a, VecF b) {
#if defined(__AVX512F__)
  return (VecF)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (VecF)_mm256_min_ps((__m256)a, (__m256)b);
#else
  return a < b ? a : b;
#endif
}
inline Vec<double> vmin(Vec<double> a, Vec<double> b) { return a < b ? a : b; }

inline VecF vabs(VecF a) { return (VecF)((VecU)a & 0x7fffffffu); }
inline Vec<double> vabs(Vec<double> a) { return (Vec<double>)((VecU64)a & 0x7fffffffffffffffu); }

template <class T>
inline Vec<T> vsqrt(Vec<T> a) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return (Vec<T>)_mm512_sqrt_ps((__m512)a);
  if constexpr (sizeof(T) == 8) return (Vec<T>)_mm512_sqrt_pd((__m512d)a);
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) return (Vec<T>)_mm256_sqrt_ps((__m256)a);
  if constexpr (sizeof(T) == 8) return (Vec<T>)_mm256_sqrt_pd((__m256d)a);
#endif
  Vec<T> out;
  for (int l = 0; l < kLanes<T>; ++l) out[l] = std::sqrt(a[l]);
  return out;
}

// 1/sqrt(a), a > 0. AVX-512 has an estimate of 14 bits whose value is fixed by the architecture; one Newton
// step makes it a float. (The AVX2 estimate differs between makers, and with it the chain would.)
template <class T>
inline Vec<T> vrsqrt(Vec<T> a) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    Vec<T> r = (Vec<T>)_mm512_rsqrt14_ps((__m512)a);
    return r * (T(1.5) - T(0.5) * a * r * r);
  }
#endif
  return T(1) / vsqrt<T>(a);
}

// 1/a, to float precision.
template <class T>
inline Vec<T> vrecip(Vec<T> a) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    Vec<T> r = (Vec<T>)_mm512_rcp14_ps((__m512)a);
    return r * (T(2) - a * r);
  }
#endif
  return T(1) / a;
}

// ln x for positive normal floats (Cephes' polynomial); doubles go through the C library.
inline VecF vlog(VecF x) {
  VecI bits = (VecI)x;
  VecI exponent = (bits - 0x3f3504f3) >> 23;
  VecF m = (VecF)(bits - (exponent << 23)) - 1.0f;  // in [sqrt(1/2) - 1, sqrt(2) - 1]
  VecF p = splat(7.0376836292e-2f);
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  VecF z = m * m;
  return (m * z * p - 0.5f * z + m) + to_float(exponent) * 0.69314718f;
}
inline Vec<double> vlog(Vec<double> x) {
  for (int l = 0; l < kLanes<double>; ++l) x[l] = std::log(x[l]);
  return x;
}

// ln(1 + x), also where x is small.
template <class T>
inline Vec<T> vlog1p(Vec<T> x) {
  const Vec<T> u = T(1) + x, rounded = u - T(1);
  return rounded == T(0) ? x : vlog(u) * (x / rounded);
}

// e^x, clamped to the range of normal floats.
inline VecF vexp(VecF x) {
  x = x > 87.0f ? splat(87.0f) : x;
  x = x < -87.0f ? splat(-87.0f) : x;
  VecF n = x * 1.44269504f;
  VecI k = __builtin_convertvector(n + (n < 0 ? splat(-0.5f) : splat(0.5f)), VecI);
  VecF fk = to_float(k);
  VecF r = (x - fk * 0.693359375f) + fk * 2.12194440e-4f;
  VecF p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return (VecF)((VecI)p + (k << 23));
}
inline Vec<double> vexp(Vec<double> x) {
  for (int l = 0; l < kLanes<double>; ++l) x[l] = std::exp(x[l]);
  return x;
}

template <class T>
inline Vec<T> vpow(Vec<T> x, T power) {
  return vexp(power * vlog(x));
}

template <class T>
inline T hsum(Vec<T> v) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return _mm512_reduce_add_ps((__m512)v);
  if constexpr (sizeof(T) == 8) return _mm512_reduce_add_pd((__m512d)v);
#endif
  T s = 0;
  for (int l = 0; l < kLanes<T>; ++l) s += v[l];
  return s;
}

// The sums of L vectors as one vector: lane l holds the sum of v[l]. A tree of shuffles and adds, three
// instructions a sum instead of the eight of a sum on its own.
template <int Width, int Half, bool High, int L, int... I>
constexpr auto merge_index(std::integer_sequence<int, I...>) {
  // Group g of `Width` lanes is folded to `Half`: first the lanes of a, then those of b.
  return std::integer_sequence<int, (I / Width * Width + I % Half + (High ? Half : 0) +
                                     (I % Width >= Half ? L : 0))...>{};
}
template <class T, int Width = kLanes<T>>
[[gnu::always_inline]] inline Vec<T> horizontal_sums(Vec<T>* v) {
  constexpr int L = kLanes<T>;
  if constexpr (Width == 1) {
    return v[0];
  } else {
    constexpr int Half = Width / 2;
    constexpr auto lanes = std::make_integer_sequence<int, L>{};
#pragma GCC unroll 8
    for (int i = 0; i < Half; ++i)
      v[i] = shuffle(v[i], v[i + Half], merge_index<Width, Half, false, L>(lanes)) +
             shuffle(v[i], v[i + Half], merge_index<Width, Half, true, L>(lanes));
    return horizontal_sums<T, Half>(v);
  }
}

}  // namespace psgld::PSGLD_ISA
