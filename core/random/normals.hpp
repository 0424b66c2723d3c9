// Normals from random words, by Box and Muller.
#pragma once

#include "simd/simd.hpp"

namespace psgld::PSGLD_ISA {

// -2 ln (f / 2^31) for 1 <= f <= 2^31: the bits of f, read as a number, are log2 f but for what the mantissa
// 2 + t bends. It, and sin and cos on the half circle, are minimax polynomials with errors below 1e-6, which
// is all that noise needs.
inline VecF minus_two_log(VecF f) {
  const VecI bits = (VecI)f, mantissa = (bits & 0x007fffff) | 0x3f800000;
  const VecF t = (VecF)mantissa - 2.0f, line = to_float(bits - 0x4f000000);  // 0 where f = 2^31
  VecF p = splat(-0.020534664f);
  p = p * t - 0.036925185f;
  p = p * t - 0.054854959f;
  p = p * t + 0.0093133152f;
  p = p * t - 0.089222513f;
  p = p * t + 0.24926274f;
  p = p * t + 0.38626340f;
  return p * t + line * (-1.38629436f / 8388608);
}

inline void sincos_half_turn(VecF x, VecF& s, VecF& c) {  // -pi/2 <= x <= pi/2
  const VecF z = x * x;
  VecF sp = splat(2.5904881e-6f);
  sp = sp * z - 1.9800897e-4f;
  sp = sp * z + 8.3328998e-3f;
  sp = sp * z - 1.6666648e-1f;
  s = sp * (z * x) + x;
  VecF cp = splat(2.3194386e-5f);
  cp = cp * z - 1.3855927e-3f;
  cp = cp * z + 4.1663989e-2f;
  cp = cp * z - 4.9999932e-1f;
  c = cp * z + 1.0f;
}

// Two normals from two words. The first, as a signed odd integer, gives the radius (up to 6.6) and a sign;
// the second an angle on the right half circle: a point and its reflection are equally likely.
inline void box_muller(VecU a, VecU b, VecF& z0, VecF& z1) {
  const VecF f = to_float((VecI)(a | 1u));
  const VecF w = vmax(minus_two_log(vabs(f)), splat(0.0f));
  const VecF r = (VecF)((VecU)vsqrt<float>(w) ^ (a & 0x80000000u));
  VecF s, c;
  sincos_half_turn(to_float((VecI)b) * (1.57079633f / 2147483648.0f), s, c);
  z0 = r * c;
  z1 = r * s;
}

}  // namespace psgld::PSGLD_ISA
