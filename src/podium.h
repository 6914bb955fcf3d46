// Podium as a C++ library: define a model from layers, train it on a dataset, evaluate it, read its
// parameter hash, predict with it. The lower levels (graphs, operations, backends) are in the
// headers included here.
#pragma once

#include "data/dataset_registry.h"
#include "data/image_set.h"
#include "nn/models.h"
#include "nn/network.h"
#include "ops/op_registry.h"
#include "ops/ops.h"
#include "report/run_board.h"
#include "train/check_operation.h"
#include "train/predictor.h"
#include "train/run.h"
#include "train/trainer.h"
