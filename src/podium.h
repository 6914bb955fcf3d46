// Podium for C++ programs: define a model from layers, train it on a dataset, evaluate it, look at
// its hash, predict with it. The pieces beneath (graphs, operations, backends) are in the headers
// included here.
#pragma once

#include "nn/models.h"
#include "nn/network.h"
#include "train/predictor.h"
#include "train/run.h"
#include "train/trainer.h"
