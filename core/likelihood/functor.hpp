// What every family offers. A family is a functor in a header of its own, which says
//
//   score = positive - weight    phi d log p(v | eta) / d eta, its positive and its negative part; vectors
//   kernel                       phi log p(v | eta), without what depends on v alone; vectors
//   log_kernel                   the same of two doubles
//   variance, draw               of a new observation, given eta and phi; doubles
//
// and those of the constants below in which it differs. eta = sum_k w_ik h_jk (+ biases) is the linear
// predictor; for most families it is the mean mu. phi, the dispersion, scales the log density and is applied
// by whoever calls; other parameters (beta, r, ...) come with the likelihood.
// tests/models/test_likelihoods.py compares every functor with the Python class of the same name.
#pragma once

#include <cmath>

#include "common/kernels.hpp"
#include "likelihood/families.hpp"
#include "random/scalar_stream.hpp"
#include "simd/simd.hpp"

namespace psgld::PSGLD_ISA {

template <class T>
struct Functor {
  static constexpr bool kPositive = true;       // eta > 0: it is kept above the floor
  static constexpr bool kUnitWeight = false;    // weight = 1, whatever eta
  static constexpr bool kSquares = false;       // score = v - eta: a pass over scores sums up their squares
  static constexpr Zeros kZeros = Zeros::none;  // how zeros that are not stored are added up, unvisited
  static constexpr bool kIdentity = true;       // the mean of an observation is eta; else `response(eta)`
  static constexpr bool kAdditive = false;      // an observation is eta + sqrt(phi) z
  static constexpr bool kLattice = false;       // quantiles are values that occur, not between two of them
  static constexpr bool kDraws = true;          // there is a `draw`
  static constexpr bool kTries = false;         // and a `first_try` of it at a tile of pairs
  static constexpr int kWords = 4;              // random words that a draw begins with, at most kFirstWords

  explicit Functor(const Likelihood<T>&) {}
  double response(double eta) const { return eta; }
};

template <class Family>
constexpr Traits traits_of() {
  return {Family::kName,  Family::kPositive, Family::kUnitWeight, Family::kSquares,
          Family::kZeros, Family::kIdentity, Family::kAdditive,   Family::kLattice,
          Family::kDraws, Family::kTries,    Family::kWords};
}

}  // namespace psgld::PSGLD_ISA
