// The extension module of the Python package: what Python cannot do by itself. python/podium/ wraps
// it, checks types and converts arrays; it is no interface of its own.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <string>
#include <vector>

#include "data/source/source.h"

namespace podium::python {

// An array of Python's: contiguous, in the host's memory, not written to.
using Array = nanobind::ndarray<nanobind::ro, nanobind::c_contig, nanobind::device::cpu>;

// Examples that run() or a Predictor reads.
struct Data {
  std::shared_ptr<const Source> source;
};

// Each adds its part to the module.
void add_data(nanobind::module_& module);
void add_training(nanobind::module_& module);
void add_prediction(nanobind::module_& module);

}  // namespace podium::python
