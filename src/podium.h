// Podium as a C++ library: define a model from layers, train it on a dataset, evaluate it, read its
// parameter hash, predict with it. The lower levels (graphs, operations, backends) are in the
// headers included here.
#pragma once

#include "data/datasets/dataset_registry.h"
#include "data/pictures/image_set.h"
#include "nn/models.h"
#include "nn/network.h"
#include "ops/op_registry.h"
#include "ops/ops.h"
#include "report/trackers/run_board.h"
#include "train/loop/trainer.h"
#include "train/plugin/check_operation.h"
#include "train/predict/generate.h"
#include "train/predict/predictor.h"
#include "train/run/run.h"
